"""Another model for an agent at work; the valve and the other agents do not notice.

It is verified apart, loaded beside the one at work, switched to between two inferences, and taken back if it is worse:

    verifying ──ok──▶ loading ──all workers──▶ on trial ──time──▶ kept
        └─────────────────┴───────────────────────┴── anything wrong ──▶ the model before it stays
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import zmq

from daemon.config import Config
from daemon.infer.admission import admit
from daemon.infer.agent import AgentRun, Model
from daemon.infer.change import NotChanged
from daemon.infer.choice import Choices
from daemon.infer.pool import RETIRED_MOST, WorkerPool
from daemon.infer.trial import Trial
from daemon.infer.verify import Verification
from daemon.messages import LoadModel
from daemon.package import Manifest, PackageError, read_manifest
from daemon.plan import complaints
from daemon.workers import Worker

logger = logging.getLogger(__name__)

POLL_NS = 20_000_000


class _Change:
    """One change under way."""

    def __init__(
        self, agents: Mapping[str, AgentRun], agent: AgentRun, choice: str, model: Model, check: Verification
    ) -> None:
        self.agents, self.agent, self.choice, self.model, self.check = agents, agent, choice, model, check
        self.stage: Literal["verifying", "loading", "on trial"] = "verifying"
        self.before = agent.acting
        self.trial: Trial | None = None
        self.until_ns = 0


class Swaps:
    """The changes of models under way, one for each agent at most.

    Args:
        config: limits and rates as they hold now.
        worker: what checks packages.
        pool: loads and runs the models.
        poller: gets the checks' outputs.
        choices: where a change that worked out is kept.
        p99_ms: forward time of each agent that acts, ms.
        refused: of an agent, the proposals that valves have refused by reason.
    """

    def __init__(
        self,
        config: Callable[[], Config],
        worker: Worker,
        pool: WorkerPool,
        poller: zmq.Poller,
        choices: Choices,
        p99_ms: Callable[[], dict[str, float]],
        refused: Callable[[str], Mapping[str, int]],
    ) -> None:
        self._config, self._worker, self._pool, self._poller = config, worker, pool, poller
        self._choices, self._p99_ms, self._refused = choices, p99_ms, refused
        self._under_way: dict[str, _Change] = {}
        self._count = self._retired = 0
        self._last: dict[str, str] = {}
        self._previous: dict[str, str] = {}

    def activate(self, agents: Mapping[str, AgentRun], agent: AgentRun, choice: str, configured: Path) -> str:
        """Begin to change an agent's model; return what happens next, for people.

        Args:
            agents: all of them.
            agent: whose model.
            choice: a package of the models folder, or empty for the configured one.
            configured: folder of that.

        Raises:
            NotChanged: it cannot work; the text says why.
        """
        if agent.name in self._under_way:
            raise NotChanged(f"{self._under_way[agent.name].choice or 'the configured package'} is under way: wait")
        package = self._choices.package(choice) if choice else configured
        manifest = self._fitting(agents, agent, package)
        self._count += 1
        model = Model(package, manifest, f"{manifest.name[:20]}-swap{self._count}")
        check = Verification(self._worker, package, self._config().infer.threads, measured=False)
        check.start()
        self._poller.register(check.fileno(), zmq.POLLIN)
        self._under_way[agent.name] = _Change(agents, agent, choice, model, check)
        return f"{package}: being checked; if it passes it acts, on trial for {self._config().infer.trial_s:g} s"

    def rollback(self, agents: Mapping[str, AgentRun], agent: AgentRun, configured: Path) -> str:
        """Begin to go back to the model before the last change.

        Raises:
            NotChanged: there is none, or it cannot work any more.
        """
        if agent.name not in self._previous:
            raise NotChanged(f"{agent.name} acts by the model it was started with")
        return self.activate(agents, agent, self._previous[agent.name], configured)

    def turn(self, now_ns: int) -> None:
        """Take every change a step further, if it can be taken."""
        if self._retired > RETIRED_MOST and self._pool.recycle(now_ns):
            self._retired = 0
        for change in list(self._under_way.values()):
            if change.stage == "verifying":
                self._verify(change, now_ns)
            elif change.stage == "loading":
                self._load(change, now_ns)
            else:
                self._watch(change, now_ns)

    def due_ns(self, now_ns: int) -> int | None:
        """When :meth:`turn` has something to do if nothing comes."""
        return now_ns + POLL_NS if self._under_way else None

    def describe(self, agent: str) -> str:
        """The change under way, or what came of the last one, for people; empty if there was none."""
        change = self._under_way.get(agent)
        if change is not None:
            return f"{change.model.package.name} {change.stage}"
        return self._last.get(agent, "")

    def close(self) -> None:
        """End the checks under way."""
        for change in self._under_way.values():
            if change.stage == "verifying":
                change.check.kill()

    def _fitting(self, agents: Mapping[str, AgentRun], agent: AgentRun, package: Path) -> Manifest:
        """The manifest of a package that can take the place of the agent's."""
        try:
            manifest = read_manifest(package)
        except PackageError as error:
            raise NotChanged(str(error)) from None
        old, new = agent.acting.manifest.frame, manifest.frame
        if (new.view, new.offsets_ms) != (old.view, old.offsets_ms):
            raise NotChanged(
                f"{package}: sees {new.view.name} at {new.offsets_ms} ms, the frames there are are {old.view.name} "
                f"at {old.offsets_ms} ms: name it in the configuration and start anew"
            )
        manifests = {name: other.acting.manifest for name, other in agents.items()} | {agent.name: manifest}
        for complaint in complaints(self._config(), manifests):
            raise NotChanged(f"{package}: {complaint}")
        return manifest

    def _verify(self, change: _Change, now_ns: int) -> None:
        descriptor = change.check.fileno()
        verdict = change.check.poll()
        if verdict is None:
            return
        self._poller.unregister(descriptor)
        if not verdict.ok:
            self._end(change, f"refused: {verdict.detail}")
            return
        change.stage = "loading"
        model, threads = change.model, self._config().infer.threads
        package, digest = str(model.package), verdict.manifest_sha256
        self._pool.add_model(
            LoadModel(model=model.name, package=package, manifest_sha256=digest, threads=threads), now_ns
        )

    def _load(self, change: _Change, now_ns: int) -> None:
        agent, name = change.agent, change.model.name
        failure = self._pool.load_failures.get(name)
        if failure is not None:
            self._end(change, f"refused: {failure}")
            return
        loaded = self._pool.loaded_by_all(name)
        if loaded is None:
            return
        after = admit(self._config(), {**self._p99_ms(), agent.name: loaded.p99_ms})
        if after and self._config().infer.admission == "refuse":
            self._end(change, f"not admitted: {'; '.join(after)}")
            return
        change.stage, change.until_ns = "on trial", now_ns + round(self._config().infer.trial_s * 1e9)
        change.trial = Trial(agent.decided, agent.dropped, self._refused(agent.name))
        agent.switch(change.model)
        logger.warning("agent %s: acts by %s, on trial", agent.name, change.model.package, extra=agent.field)

    def _watch(self, change: _Change, now_ns: int) -> None:
        agent = change.agent
        assert change.trial is not None  # noqa: S101 - on trial
        why = change.trial.verdict(agent.decided, agent.dropped, self._refused(agent.name))
        if why:
            agent.switch(change.before)
            self._end(change, f"taken back: {why}")
        elif now_ns >= change.until_ns:
            self._keep(change)

    def _keep(self, change: _Change) -> None:
        agent = change.agent
        del self._under_way[agent.name]
        self._previous[agent.name] = self._choices.read(agent.name)
        self._last[agent.name] = f"{change.model.package.name} kept"
        try:
            self._choices.write(agent.name, change.choice)
        except OSError as error:
            self._last[agent.name] += f", but not over a restart: {error}"
        self._retire(change, change.before)
        logger.warning("agent %s: %s", agent.name, self._last[agent.name], extra=agent.field)

    def _end(self, change: _Change, why: str) -> None:
        """The model before stays."""
        agent = change.agent
        del self._under_way[agent.name]
        self._last[agent.name] = f"{change.model.package.name} {why}"[:400]
        self._retire(change, change.model)
        text = "agent %s: %s: %s stays"
        logger.error(text, agent.name, self._last[agent.name], change.before.package, extra=agent.field)

    def _retire(self, change: _Change, model: Model) -> None:
        """Nobody acts by it any more, unless another agent shares it."""
        if all(agent.acting.name != model.name for agent in change.agents.values()):
            self._retired += 1
            self._pool.retire(model.name)


def chosen(choices: Choices, agent: str, configured: Path, manifest: Manifest) -> tuple[Path, Manifest]:
    """The package an agent starts with: the one chosen while it was running last, if it still fits."""
    name = choices.read(agent)
    if not name:
        return configured, manifest
    package = choices.package(name)
    try:
        found = read_manifest(package)
    except PackageError as error:
        logger.error("agent %s: chosen package not used: %s", agent, error)
        return configured, manifest
    if found.frame.view != manifest.frame.view or found.frame.offsets_ms != manifest.frame.offsets_ms:
        logger.error("agent %s: chosen package %s not used: its frames are not those configured", agent, package)
        return configured, manifest
    return package, found
