"""What commanders may do with the agents while they run: pause, resume, another priority, another rate."""

from __future__ import annotations

import logging
from collections.abc import Callable

from daemon.config import Config
from daemon.desk import Outcome
from daemon.infer.agent import AgentRun
from daemon.infer.change import NotChanged, changed
from daemon.infer.schedule import Scheduler
from daemon.messages import AgentCommand

logger = logging.getLogger(__name__)


class AgentControl:
    """Carries out commands about agents.

    Args:
        config: as it was read; a restart of infer goes back to it.
        agents: all agents by name.
        scheduler: takes new terms.
        p99_ms: forward time of each agent that acts, ms.
    """

    def __init__(
        self,
        config: Config,
        agents: dict[str, AgentRun],
        scheduler: Scheduler,
        p99_ms: Callable[[], dict[str, float]],
    ) -> None:
        self._config, self._agents, self._scheduler, self._p99_ms = config, agents, scheduler, p99_ms

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
        return "; ".join(
            f"{agent.text}, priority {agent.config.priority}, {agent.config.rate_hz:g} Hz"
            for agent in self._agents.values()
        )

    def _change(self, agent: AgentRun, command: AgentCommand) -> Outcome:
        if command.change == "pause":
            agent.paused = True
            self._scheduler.forget(agent.name)
            return Outcome("done", "paused: no decision until resume; its actuator goes neutral by its dead-man")
        if command.change == "resume":
            agent.paused = False
            return Outcome("done", "resumed")
        try:
            self._config = changed(self._config, self._p99_ms(), command)
        except NotChanged as error:
            return Outcome("refused", str(error))
        self._take(self._config)
        scope = "; the actuator ranks proposals by the configured one" if command.change == "priority" else ""
        return Outcome("done", f"until the next start of infer{scope}")

    def _take(self, config: Config) -> None:
        self._scheduler.set_terms(config.agents)
        for name, agent in self._agents.items():
            agent.config = config.agents[name]
