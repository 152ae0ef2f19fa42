"""From frames in the ring and executed actions to the inputs of one inference. Pure."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from daemon.frames import Frame
from daemon.messages import InlineTensor, RingFrames
from daemon.package import HistoryInput, Manifest

_INTEGER = {"int32": "i", "int64": "q"}
"""Tokens on the wire, by the history's dtype: ``struct``'s letters."""


class Observation(NamedTuple):
    """The frames a decision is made on: where they lie and how old the newest may be.

    ``frames`` are newest first, those still in the ring; ``after`` is the ``Applied.seq`` that must be in the
    history first (lock step), else None.
    """

    ring: str
    epoch: int
    frames: Sequence[Frame]
    after: int | None = None

    @property
    def newest(self) -> Frame:
        """The frame the decision is about."""
        return self.frames[0]


def stack(frames: Sequence[Frame], offsets_ms: Sequence[float], period_ns: int, by_number: bool) -> list[Frame]:
    """Pick the frame nearest to each offset before the newest.

    Args:
        frames: newest first, at least one.
        offsets_ms: relative to the newest; 0 first, then falling.
        period_ns: the source's frame period.
        by_number: a lock-step world's frames are a period apart in its own time, whatever the clock says.

    Returns:
        One frame per offset; the oldest there is where the ring does not reach back far enough.
    """
    newest = frames[0]
    if len(offsets_ms) == 1:
        return [newest]

    def age_ns(frame: Frame) -> int:
        return (newest.seq - frame.seq) * period_ns if by_number else newest.sensor_ns - frame.sensor_ns

    return [min(frames, key=lambda frame: abs(age_ns(frame) + offset * 1e6)) for offset in offsets_ms]


class Encoder:
    """Makes the inputs of a model's inferences, in the manifest's order.

    What never changes is settled once: between two frames the caches go cold, and every line costs then.

    Args:
        manifest: the model's contract.
        period_ns: the source's frame period.
    """

    def __init__(self, manifest: Manifest, period_ns: int) -> None:
        self._offsets_ms, self._period_ns = manifest.frame.offsets_ms, period_ns
        self._specs = [spec if isinstance(spec, HistoryInput) else None for spec in manifest.inputs]
        history = manifest.history
        self._tokens = struct.Struct(f"<{history.shape[1]}{_INTEGER[history.dtype]}") if history else struct.Struct("")

    def encode(self, observation: Observation, tokens: Sequence[int]) -> list[InlineTensor | RingFrames]:
        """The inputs of one inference.

        Args:
            observation: frames to choose from.
            tokens: executed actions, oldest first, as many as the history input takes.
        """
        chosen = stack(observation.frames, self._offsets_ms, self._period_ns, observation.after is not None)
        frames = RingFrames(observation.ring, observation.epoch, [frame.seq for frame in chosen])
        return [self._history(spec, tokens) if spec else frames for spec in self._specs]

    def _history(self, spec: HistoryInput, tokens: Sequence[int]) -> InlineTensor:
        return InlineTensor(spec.dtype, spec.shape, self._tokens.pack(*tokens))
