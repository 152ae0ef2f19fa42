"""Which observation is decided next: newest wins, then priority class, then earliest deadline. Pure.

Inference is not preempted. Each agent has at most one waiting observation, a newer one supersedes it. One that has
not been decided by its deadline is refused then, whether or not a worker is free. Waiting raises an agent's class,
but never into the top class, whose wait stays bounded by one running inference and its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from daemon.config import Agent
from daemon.infer.encode import Observation

RATE_SLACK = 0.25
"""Part of a period by which a frame may come early and still be decided: cameras jitter."""


class Waiting(NamedTuple):
    """An observation that wants a decision before ``deadline_ns``."""

    agent: str
    observation: Observation
    deadline_ns: int


class Terms(NamedTuple):
    """What an agent's configuration asks of the scheduler, in its units."""

    priority: int
    period_ns: int
    deadline_ns: int


class Scheduler:
    """The waiting observations of all agents.

    Args:
        agents: the configured agents by name.
        ageing_ns: time of waiting that lifts an agent by one class.
    """

    def __init__(self, agents: dict[str, Agent], ageing_ns: int) -> None:
        self.set_terms(agents)
        self._ageing_ns = ageing_ns
        self._waiting: dict[str, Waiting] = {}
        self._since_ns: dict[str, int] = {}
        self._due_ns: dict[str, int] = {}

    def set_terms(self, agents: dict[str, Agent]) -> None:
        """Take the agents' priorities, rates and deadlines; what waits keeps its deadline."""
        self._terms = {
            name: Terms(agent.priority, round(agent.period_ms * 1e6), round(agent.effective_deadline_ms * 1e6))
            for name, agent in agents.items()
        }
        self._top = max(agent.priority for agent in agents.values())

    def forget(self, agent: str) -> None:
        """Let go of what waits of an agent that is not to decide."""
        self._waiting.pop(agent, None)
        self._since_ns.pop(agent, None)

    def due(self, agent: str, sensor_ns: int) -> bool:
        """The agent's rate lets it decide on a frame of ``sensor_ns``; counts it as taken if so."""
        period_ns = self._terms[agent].period_ns
        due_ns = self._due_ns.get(agent, sensor_ns)
        if due_ns > sensor_ns + 2 * period_ns:  # stamps have gone back: another source, or a wrong stamp before
            due_ns = sensor_ns
        if sensor_ns < due_ns - RATE_SLACK * period_ns:
            return False
        self._due_ns[agent] = max(due_ns + period_ns, sensor_ns)
        return True

    def offer(self, agent: str, observation: Observation, now_ns: int) -> bool:
        """Put an observation in line; True if it superseded a waiting one."""
        superseded = agent in self._waiting
        deadline_ns = observation.newest.sensor_ns + self._terms[agent].deadline_ns
        self._waiting[agent] = Waiting(agent, observation, deadline_ns)
        self._since_ns.setdefault(agent, now_ns)
        return superseded

    def expired(self, now_ns: int) -> list[Waiting]:
        """Take out what has reached its deadline."""
        late = [waiting for waiting in self._waiting.values() if waiting.deadline_ns <= now_ns]
        for waiting in late:
            del self._waiting[waiting.agent]
        return late

    def take(self, now_ns: int, ready: Callable[[Waiting], bool]) -> Waiting | None:
        """Take out the observation to decide next, among those that are ``ready``, or None."""
        candidates = [waiting for waiting in self._waiting.values() if ready(waiting)]
        if not candidates:
            return None
        best = min(candidates, key=lambda waiting: (-self._class(waiting.agent, now_ns), waiting.deadline_ns))
        del self._waiting[best.agent]
        self._since_ns.pop(best.agent, None)
        return best

    def next_deadline_ns(self) -> int | None:
        """The earliest deadline of what waits."""
        return min((waiting.deadline_ns for waiting in self._waiting.values()), default=None)

    def _class(self, agent: str, now_ns: int) -> int:
        priority = self._terms[agent].priority
        if priority == self._top:
            return priority
        aged = priority + (now_ns - self._since_ns.get(agent, now_ns)) // self._ageing_ns
        return min(aged, self._top - 1)
