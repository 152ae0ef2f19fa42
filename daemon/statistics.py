"""What a run has done so far, from the messages it sends: per agent, actuator and process. Pure, bounded memory."""

from __future__ import annotations

from collections import Counter
from typing import Any

from daemon.config import Config
from daemon.distribution import Distribution
from daemon.messages import Applied, Health, Refused, WorldState

Counts = dict[str, dict[str, int]]
Report = dict[str, Any]
"""Nested dictionaries of plain values, as they go into a JSON file."""


class Samples:
    """Latency and forward time of every decision, and the largest latency."""

    def __init__(self) -> None:
        self._latency, self._forward, self._overhead = Distribution(), Distribution(), Distribution()
        self.count = 0
        self.largest = 0.0

    def add(self, latency_ms: float, forward_ms: float) -> None:
        """Add one decision."""
        self._latency.add(latency_ms)
        self._forward.add(forward_ms)
        self._overhead.add(latency_ms - forward_ms)
        self.count += 1
        self.largest = max(self.largest, latency_ms)

    def report(self) -> Report:
        """Percentiles; None without samples. Overhead is a latency less the forward time of the same frame."""
        largest = round(self.largest, 3) if self.count else None
        return {
            "latency_ms": {**_percentiles(self._latency), "max": largest},
            "forward_ms": _percentiles(self._forward),
            "overhead_ms": _percentiles(self._overhead),
        }


class FoldedCounts:
    """Counters that go on when the process that counts is replaced and begins at zero."""

    def __init__(self) -> None:
        self._pid = 0
        self._before: Counts = {}
        self._now: Counts = {}

    def update(self, pid: int, counts: Counts) -> None:
        """Take over the counters of the process with this pid."""
        if pid != self._pid:
            self._before, self._pid = self.total(), pid
        self._now = counts

    def total(self) -> Counts:
        """Counters of all its lives together."""
        keys = sorted(self._before.keys() | self._now.keys())
        return {key: _sum(self._before.get(key, {}), self._now.get(key, {})) for key in keys}


class AgentStatistics:
    """What an agent has decided."""

    def __init__(self) -> None:
        self.samples = Samples()
        self.refused = 0
        self.first_ns = self._last_ns = 0
        """When its first and its last action were applied; 0 before."""

    @property
    def decided(self) -> bool:
        """It has proposed something, whether or not the valve let it through."""
        return self.samples.count + self.refused > 0

    def applied(self, message: Applied) -> None:
        """One of its proposals has become an action."""
        self.first_ns = self.first_ns or message.applied_ns
        self._last_ns = message.applied_ns
        self.samples.add((message.applied_ns - message.sensor_ns) / 1e6, message.forward_ns / 1e6)

    def report(self) -> Report:
        """Decisions applied, their rate over the whole run, and times."""
        seconds = (self._last_ns - self.first_ns) / 1e9
        rate = (self.samples.count - 1) / seconds if seconds > 0 else 0.0
        return {"decisions": self.samples.count, "rate_hz": round(rate, 3), **self.samples.report()}


class ActuatorStatistics:
    """What an actuator has been told, and why."""

    def __init__(self) -> None:
        self.valve = ""
        self.causes: Counter[str] = Counter()
        self._missed = 0
        self._seq: int | None = None

    def applied(self, message: Applied) -> None:
        """The actuator has been written to. A gap in the numbers is a message this side has missed."""
        if self._seq is not None and message.seq > self._seq + 1:
            self._missed += message.seq - self._seq - 1
        self._seq = message.seq
        self.causes[message.cause] += 1

    def report(self) -> Report:
        """Writes by cause; ``missed`` ones reached the actuator but not these statistics."""
        return {"valve": self.valve, "applied": dict(self.causes), "missed": self._missed}


class Statistics:
    """Statistics of a run.

    Args:
        config: says which agents and actuators there are.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self.agents = {name: AgentStatistics() for name in config.agents}
        self.actuators = {name: ActuatorStatistics() for name in config.actuators}
        self._worlds: dict[str, WorldState] = {}
        self._dropped: dict[str, FoldedCounts] = {}
        self._counted: dict[str, FoldedCounts] = {}

    def health(self, message: Health) -> None:
        """Take a process's counters, and an actuator's valve state."""
        self._dropped.setdefault(message.process, FoldedCounts()).update(message.pid, message.dropped)
        self._counted.setdefault(message.process, FoldedCounts()).update(message.pid, message.counts)
        actuator = self.actuators.get(message.process.removeprefix("actuate@"))
        if actuator is not None and message.process.startswith("actuate@"):
            actuator.valve = message.detail

    def applied(self, actuator: str, message: Applied | Refused) -> None:
        """Take what an actuator did with a proposal."""
        if isinstance(message, Applied):
            self.actuators[actuator].applied(message)
        agent = self.agents.get(message.agent)
        if agent is None:
            return
        if isinstance(message, Refused):
            agent.refused += 1
        elif message.cause in ("proposal", "clamped"):
            agent.applied(message)

    @property
    def first_action_ns(self) -> int | None:
        """CLOCK_MONOTONIC when the first action of any agent was applied; None before."""
        return min((agent.first_ns for agent in self.agents.values() if agent.first_ns), default=None)

    def world(self, world: str, message: WorldState) -> None:
        """Take a world's score."""
        self._worlds[world] = message

    def dropped(self, agent: str) -> dict[str, int]:
        """What has become of the agent's observations and proposals that led to no action, by reason."""
        total: dict[str, int] = {}
        for counts in self._dropped.values():
            total = _sum(total, counts.total().get(agent, {}))
        return total

    def process(self, identity: str) -> Report:
        """A process's own counters, and its drops that are not an agent's."""
        counted, dropped = self._counted.get(identity), self._dropped.get(identity)
        others = {key: value for key, value in (dropped.total() if dropped else {}).items() if key not in self.agents}
        return {"counts": counted.total() if counted else {}, "dropped": others}

    def report(self) -> Report:
        """Agents and actuators as they stand."""
        agents = {}
        for name, agent in self.agents.items():
            config = self._config.agents[name]
            valve = self.actuators[config.actuator].valve
            agents[name] = {"source": config.source, **agent.report(), "dropped": self.dropped(name), "valve": valve}
            agents[name] |= _score(self._worlds.get(config.source))
        return {"agents": agents, "actuators": {name: actuator.report() for name, actuator in self.actuators.items()}}


def _score(state: WorldState | None) -> Report:
    """The net points of a world's current or last game."""
    if state is None:
        return {"score": None, "game": None}
    own, opponent = [*state.points, 0, 0][:2]
    return {
        "score": own - opponent,
        "game": {"points": [own, opponent], "over": state.over, "finished": state.finished},
    }


def _sum(some: dict[str, int], more: dict[str, int]) -> dict[str, int]:
    return {name: some.get(name, 0) + more.get(name, 0) for name in sorted(some.keys() | more.keys())}


def _percentiles(durations: Distribution) -> dict[str, float | None]:
    p50, p99 = durations.percentiles(50, 99)
    return {"p50": p50, "p99": p99}
