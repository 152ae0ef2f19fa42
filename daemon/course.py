"""One run as it goes: the supervisor, what its children report, and when it is over."""

from __future__ import annotations

import os
import time

import zmq

from daemon.bus import Bus
from daemon.display import Display, agent_text
from daemon.messages import Applied, Refused, WorldState
from daemon.plan import Plan
from daemon.process import Ready
from daemon.statistics import Report, Statistics
from daemon.supervise import TURN_NS, Supervisor
from daemon.table import Entry
from daemon.usage import Usage, process_start_ns

_SAMPLE_EVERY_NS = 1_000_000_000
_SETTLE_NS = 300_000_000
"""After the last world or source has said it is done: time for its last messages to come in."""


class Course:
    """One run: the supervisor, what its children report, and when it is over."""

    def __init__(self, plan: Plan, table: list[Entry], bus: Bus, display: Display) -> None:
        self._plan, self._table, self._display = plan, table, display
        self._poller = zmq.Poller()
        self._supervisor = Supervisor(table, bus, self._poller, display.say)
        self._statistics = Statistics(plan.config)
        self._applied = {name: bus.subscriber("applied", name) for name in plan.config.actuators}
        self._worlds = {name: bus.subscriber("world", name) for name in plan.config.worlds}
        for topic in (*self._applied.values(), *self._worlds.values()):
            self._poller.register(topic.socket, zmq.POLLIN)
        self._workers: dict[str, dict[str, int]] = {}
        self._usage: dict[str, Usage] = {}
        self._start_ns = self._sample_due_ns = time.monotonic_ns()
        self._launched_ns = process_start_ns()
        self._done_ns: int | None = None
        self.report: Report = {}
        """The newest report; complete after :meth:`shutdown`."""

    def main_loop(self, wake: int, seconds: float | None) -> None:
        """Turn until ``wake`` is readable, ``seconds`` are over, what ends has ended, or the supervisor gives up."""
        self._poller.register(wake, zmq.POLLIN)
        ready: Ready = set()
        end_ns = None if seconds is None else self._start_ns + round(seconds * 1e9)
        while wake not in ready and not self._supervisor.failure:
            now_ns = time.monotonic_ns()
            self._turn(now_ns)
            if (end_ns is not None and now_ns >= end_ns) or self._ended(now_ns):
                return
            ready = {item for item, _ in self._poller.poll(TURN_NS // 1_000_000)}

    def shutdown(self) -> None:
        """Take stock and stop the children."""
        now_ns = time.monotonic_ns()
        self._sample(now_ns)
        self.report = self._stock(now_ns)
        self._display.show(self.report)
        self._supervisor.shutdown()
        lasted_s = time.monotonic() - now_ns / 1e9
        self._display.say(f"INFO run: ran {self.report['seconds']} s, stopped in {lasted_s:.2f} s")
        for name, agent in self.report["agents"].items():
            self._display.say(f"INFO run: {agent_text(name, agent)}")
        self._say_last_writes()

    def _say_last_writes(self) -> None:
        """What each actuator was left with, by its own word."""
        for actuator, topic in self._applied.items():
            last = [message for message in topic.receive() if isinstance(message, Applied)]
            if last:
                left = last[-1].action if last[-1].action is not None else last[-1].values
                self._display.say(f"INFO run: {actuator}: left at {left} ({last[-1].cause})")

    @property
    def failure(self) -> str:
        """Why the run could not go on; empty if it could."""
        return self._supervisor.failure

    def complaints(self) -> list[str]:
        """What was not as it should be when the run ended."""
        found = [f"given up: {self.failure}"] if self.failure else []
        down = [name for name in self._supervisor.watched if self._is_down(name)]
        found += [f"{name} does not keep running: see its log lines above" for name in down]
        if self.report["seconds"] > max(entry.start_limit_s for entry in self._table):
            idle = [name for name, agent in self._statistics.agents.items() if not agent.decided]
            found += [f"agent {name} never decided: see the log of infer and of its source" for name in idle]
        return found

    def _turn(self, now_ns: int) -> None:
        for health in self._supervisor.turn(now_ns):
            self._statistics.health(health)
            self._workers[health.process] = health.children
        for actuator, topic in self._applied.items():
            for message in topic.receive():
                if isinstance(message, Applied | Refused):
                    self._statistics.applied(actuator, message)
        for world, topic in self._worlds.items():
            for message in topic.receive():
                if isinstance(message, WorldState):
                    self._statistics.world(world, message)
        if now_ns >= self._sample_due_ns:
            self._sample_due_ns = now_ns + _SAMPLE_EVERY_NS
            self._sample(now_ns)
            self._display.show(self._stock(now_ns))

    def _ended(self, now_ns: int) -> bool:
        """Every world, and every source that ends, is done; cameras never are."""
        config = self._plan.config
        sources = [f"capture@{name}" for name, source in config.sources.items() if source.ends]
        if not sources and not any(world.games for world in config.worlds.values()):
            return False
        states = {self._state(identity) for identity in (*(f"simulate@{name}" for name in config.worlds), *sources)}
        if not states <= {"done", "finished"}:
            return False
        self._done_ns = self._done_ns or now_ns
        return now_ns - self._done_ns >= _SETTLE_NS

    def _state(self, identity: str) -> str:
        """A process's own word for its state while it runs, the supervisor's otherwise."""
        watched = self._supervisor.watched.get(identity)
        if watched is None:
            return "absent"
        return watched.state if watched.phase == "running" else watched.phase

    def _is_down(self, identity: str) -> bool:
        policy = self._supervisor.watched[identity].policy
        return policy.phase in ("down", "killed") or (policy.phase == "starting" and policy.restarts > 0)

    def _sample(self, now_ns: int) -> None:
        """Look at this process, at every child and at the workers each has named."""
        pids = {"run": os.getpid()}
        for identity, watched in self._supervisor.watched.items():
            if watched.child is None:
                continue
            pids[identity] = watched.child.pid
            pids |= {f"{identity}/{worker}": pid for worker, pid in self._workers.get(identity, {}).items()}
        for name in self._usage.keys() - pids.keys():
            self._usage[name].lost()
        for name, pid in pids.items():
            self._usage.setdefault(name, Usage(now_ns / 1e9)).sample(pid, now_ns / 1e9)

    def _stock(self, now_ns: int) -> Report:
        processes = {}
        for name, usage in sorted(self._usage.items()):
            watched = self._supervisor.watched.get(name)
            state = self._state(name) if watched else "running" if usage.alive else "down"
            restarts = watched.policy.restarts if watched else usage.lives - 1
            processes[name] = {**usage.report(), "restarts": restarts, "state": state}
            if watched:
                processes[name] |= self._statistics.process(name)
        seconds = round((now_ns - self._start_ns) / 1e9, 3)
        first_ns = self._statistics.first_action_ns
        first_ms = None if first_ns is None else round((first_ns - self._launched_ns) / 1e6)
        return {
            "seconds": seconds,
            "first_action_ms": first_ms,
            **self._statistics.report(),
            "processes": processes,
        }
