"""What commanders may do with the agents while they run: pause, resume, another priority, another rate."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from daemon.config import Config
from daemon.desk import Outcome
from daemon.infer.agent import AgentRun
from daemon.infer.change import NotChanged, changed
from daemon.infer.schedule import Scheduler
from daemon.infer.swap import Swaps
from daemon.messages import AgentCommand

logger = logging.getLogger(__name__)


class AgentControl:
    """Carries out commands about agents.

    Args:
        config: as it was read; a restart of infer goes back to it.
        agents: all agents by name.
        scheduler: takes new terms.
        p99_ms: forward time of each agent that acts, ms.
        swaps: changes models.
        configured: the folder of an agent's package in the configuration.
    """

    def __init__(
        self,
        config: Config,
        agents: dict[str, AgentRun],
        scheduler: Scheduler,
        p99_ms: Callable[[], dict[str, float]],
        swaps: Swaps,
        configured: Callable[[str], Path],
    ) -> None:
        self.config, self._agents, self._scheduler, self._p99_ms = config, agents, scheduler, p99_ms
        self._swaps, self._configured = swaps, configured

    def operate(self, command: AgentCommand, _: int) -> Outcome:
        """Carry out a command that is in time and was not answered before."""
        agent = self._agents.get(command.agent)
        if command.change == "status":
            return Outcome("done", agent.text if agent else ", ".join(self._agents))
        if agent is None:
            return Outcome("refused", f"no agent {command.agent!r}; agents: {', '.join(self._agents)}")
        outcome = self._change(agent, command)
        text = "agent %s: %s by %r: %s: %s"
        logger.warning(text, agent.name, command.asks, command.who, outcome.status, outcome.detail, extra=agent.field)
        return outcome

    def describe(self, _: int) -> str:
        """Priority, rate and state of every agent, for people."""
        return "; ".join(self._line(agent) for agent in self._agents.values())

    def _line(self, agent: AgentRun) -> str:
        terms = f"priority {agent.config.priority}, {agent.config.rate_hz:g} Hz, model {agent.acting.package.name}"
        return ", ".join(filter(None, (agent.text, terms, self._swaps.describe(agent.name))))

    def _change(self, agent: AgentRun, command: AgentCommand) -> Outcome:
        if command.change == "pause":
            agent.paused = True
            self._scheduler.forget(agent.name)
            return Outcome("done", "paused: no decision until resume; its actuator goes neutral by its dead-man")
        if command.change == "resume":
            agent.paused = False
            return Outcome("done", "resumed")
        try:
            return self._try(agent, command)
        except NotChanged as error:
            return Outcome("refused", str(error))

    def _try(self, agent: AgentRun, command: AgentCommand) -> Outcome:
        configured = self._configured(agent.name)
        if command.change == "activate":
            return Outcome("done", self._swaps.activate(self._agents, agent, command.package, configured))
        if command.change == "rollback":
            return Outcome("done", self._swaps.rollback(self._agents, agent, configured))
        self.config = changed(self.config, self._p99_ms(), command)
        self._take(self.config)
        scope = "; the actuator ranks proposals by the configured one" if command.change == "priority" else ""
        return Outcome("done", f"until the next start of infer{scope}")

    def _take(self, config: Config) -> None:
        self._scheduler.set_terms(config.agents)
        for name, agent in self._agents.items():
            agent.config = config.agents[name]
