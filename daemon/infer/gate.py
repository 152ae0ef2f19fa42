"""The gate a package passes before it may act: verified apart, loaded by the workers, admitted by the numbers."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import zmq

from daemon.config import Config, ConfigError
from daemon.infer.admission import admit
from daemon.infer.agent import AgentRun
from daemon.infer.pool import WorkerPool
from daemon.infer.verify import Verdict, Verification
from daemon.messages import LoadModel, ModelLoaded
from daemon.process import StageFailed
from daemon.workers import Worker

logger = logging.getLogger(__name__)

POLL_NS = 100_000_000


class Gate:
    """Brings agents from ``verifying`` to ``ready`` or ``refused``.

    Args:
        config: the configuration.
        worker: checks the packages, with the runtime that will run them.
        agents: all agents; those of one package share its check.
        pool: loads what has been verified.
        poller: gets the checks' outputs.
    """

    def __init__(
        self, config: Config, worker: Worker, agents: Sequence[AgentRun], pool: WorkerPool, poller: zmq.Poller
    ) -> None:
        self._config, self._agents, self._pool, self._poller = config, agents, pool, poller
        # Unmeasured: what admits an agent are the times of the worker that will run it.
        self._checks = {
            agent.model: Verification(worker, agent.acting.package, config.infer.threads, measured=False)
            for agent in agents
        }
        for check in self._checks.values():
            check.start()
            poller.register(check.fileno(), zmq.POLLIN)
        self.open = False
        """Every agent is ready or refused, and the ready ones are admitted."""
        self.warning = ""
        """Why the admitted agents may miss their deadlines (``infer.admission = "degrade"``)."""

    def turn(self, now_ns: int) -> None:
        """Take verdicts and loads that have come.

        Raises:
            ConfigError: no agent can act, or they cannot meet their deadlines together.
            StageFailed: the last agent that could act no longer can.
        """
        if self.open and not self._pool.load_failures:
            return
        for model, check in list(self._checks.items()):
            descriptor = check.fileno()
            verdict = check.poll()
            if verdict is not None:
                self._poller.unregister(descriptor)
                del self._checks[model]
                self._judge(model, verdict, now_ns)
        self._take_loads()
        if not self.open and all(agent.state in ("ready", "refused") for agent in self._agents):
            self._admit()
            self.open = True

    def due_ns(self, now_ns: int) -> int | None:
        """When to look again at the checks' time limits."""
        return now_ns + POLL_NS if self._checks else None

    def close(self) -> None:
        """End the checks still under way."""
        for check in self._checks.values():
            check.kill()

    def _judge(self, model: str, verdict: Verdict, now_ns: int) -> None:
        sharing = [agent for agent in self._agents if agent.model == model]
        for agent in sharing:
            if verdict.ok:
                agent.state = "loading"
            else:
                agent.refuse(verdict.detail)
        if verdict.ok:
            package, threads = str(sharing[0].acting.package), self._config.infer.threads
            self._pool.add_model(
                LoadModel(model=model, package=package, manifest_sha256=verdict.manifest_sha256, threads=threads),
                now_ns,
            )

    def _take_loads(self) -> None:
        """Also after the gate is open: a worker that starts anew may not be able to load what the first one did."""
        for agent in self._agents:
            if agent.state == "loading" and self._pool.loaded(agent.model) is not None:
                agent.state = "ready"
            elif agent.state != "refused" and agent.model in self._pool.load_failures:
                agent.refuse(self._pool.load_failures[agent.model])
        if self.open and all(agent.state == "refused" for agent in self._agents):
            raise StageFailed("no agent is left that can act")

    def p99_ms(self) -> dict[str, float]:
        """Forward time of each agent that acts, measured when its model was loaded, ms."""
        return {agent.name: load.p99_ms for agent, load in self._loads()}

    def _loads(self) -> list[tuple[AgentRun, ModelLoaded]]:
        ready = [agent for agent in self._agents if agent.state == "ready"]
        return [(agent, load) for agent in ready if (load := self._pool.loaded(agent.model)) is not None]

    def _admit(self) -> None:
        loads = self._loads()
        if not loads:
            raise ConfigError("no agent can act: every model package was refused")
        for agent, load in loads:
            text = "agent %s: ready, forward p50 %.3f ms, p99 %.3f ms"
            logger.info(text, agent.name, load.p50_ms, load.p99_ms, extra=agent.field)
        complaints = "; ".join(admit(self._config, self.p99_ms()))
        if complaints and self._config.infer.admission == "refuse":
            raise ConfigError(f"agents not admitted (infer.admission = 'refuse'): {complaints}")
        self.warning = complaints
