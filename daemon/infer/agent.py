"""One agent inside infer: its package on the way to acting, its history, its counters."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from daemon.config import Agent
from daemon.infer.decode import Decision, Decoder
from daemon.infer.encode import Encoder, Observation
from daemon.infer.history import History
from daemon.messages import Drop, InlineTensor, RingFrames
from daemon.package import Manifest

if TYPE_CHECKING:  # it loads numpy, which infer does without otherwise
    from daemon.infer.unchanged import ChangeGate

logger = logging.getLogger(__name__)

LOG_EVERY = 100
"""Of drops with the same reason the first and every hundredth is logged; all are counted."""


class Model(NamedTuple):
    """What an agent acts by: a package, its manifest, and its name in the workers; agents of one package share it."""

    package: Path
    manifest: Manifest
    name: str


class AgentRun:
    """State of an agent.

    Args:
        name: its name.
        config: its table of the configuration.
        model: what it acts by.
        period_ns: frame period of its source.
    """

    def __init__(self, name: str, config: Agent, model: Model, period_ns: int) -> None:
        self.name, self.config, self._period_ns = name, config, period_ns
        self.field = {"AGENT": name}
        """Of its records in the journal, to search for."""
        self.state: Literal["verifying", "loading", "ready", "refused"] = "verifying"
        self.detail = ""
        self.paused = False
        """By a command: it decides nothing until it is resumed."""
        self.decided = self.not_due = 0
        self.dropped: Counter[str] = Counter()
        self.switch(model)

    def switch(self, model: Model) -> None:
        """Act by another model from the next inference on; its history begins anew."""
        self.acting, manifest = model, model.manifest
        self._encoder, self._decoder = Encoder(manifest, self._period_ns), Decoder(manifest)
        spec = manifest.history
        self.gate = _change_gate(self.config, manifest)
        self.history = History(spec.shape[1], spec.padding_token, manifest.actions) if spec else History(1, 0, [])

    @property
    def model(self) -> str:
        """Name in the workers of the model it acts by."""
        return self.acting.name

    def refuse(self, why: str) -> None:
        """The package must not act; the other agents go on."""
        self.state, self.detail = "refused", why
        logger.error("agent %s refused: %s: %s", self.name, self.acting.package, why, extra=self.field)

    def drop(self, reason: Drop, detail: str) -> None:
        """Count an observation or request that goes no further."""
        if self.dropped[reason] % LOG_EVERY == 0 and reason not in ("superseded", "deadline"):
            logger.warning("agent %s: %s: %s", self.name, reason, detail, extra=self.field)
        self.dropped[reason] += 1

    def may_decide(self, observation: Observation) -> bool:
        """What the observation had to wait for is in the history."""
        return observation.after is None or self.history.applied_seq >= observation.after

    def inputs(self, observation: Observation) -> list[InlineTensor | RingFrames]:
        """Encode a decision on ``observation``; from here on it is part of the history."""
        tokens = self.history.decide(observation.newest.sensor_ns, observation.after)
        return self._encoder.encode(observation, tokens)

    def decision(self, outputs: list[InlineTensor]) -> Decision:
        """Decode the outputs of its model; raises :class:`daemon.infer.decode.Undecidable`."""
        return self._decoder.decode(outputs)

    @property
    def counts(self) -> dict[str, int]:
        """Decisions, and frames that needed none."""
        counts = {"decided": self.decided, "not_due": self.not_due}
        return counts if self.gate is None else {**counts, "unchanged": self.gate.skipped}

    @property
    def text(self) -> str:
        """State in a few words, for people."""
        state = "paused" if self.paused and self.state == "ready" else self.state
        return f"{self.name} {state}" + (f": {self.detail}" if self.detail else "")


def _change_gate(config: Agent, manifest: Manifest) -> ChangeGate | None:
    if not config.skip_unchanged:
        return None
    from daemon.infer.unchanged import ChangeGate

    return ChangeGate(config.skip_unchanged, round(-manifest.frame.offsets_ms[-1] * 1e6))
