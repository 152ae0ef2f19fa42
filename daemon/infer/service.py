"""The infer process: observations in, proposals out, by way of the scheduler and the workers."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import Literal

import zmq

from daemon.bus import Bus
from daemon.desk import CommandDesk
from daemon.frames import Frame
from daemon.infer.agent import AgentRun, Model
from daemon.infer.choice import Choices
from daemon.infer.control import AgentControl
from daemon.infer.decode import Decision, Undecidable
from daemon.infer.encode import Observation
from daemon.infer.gate import Gate
from daemon.infer.pool import Job, WorkerPool
from daemon.infer.schedule import Scheduler, Waiting
from daemon.infer.source import SourceReader, ViewReader
from daemon.infer.swap import Swaps, chosen
from daemon.messages import ActionProposal, AgentCommand, Applied, Refused, RunDone, RunFailed
from daemon.plan import Plan
from daemon.process import Ready, Report
from daemon.runtime import RuntimeFolder
from daemon.workers import choose_worker

COMMANDS_PER_TURN = 4
"""More wait for the next turn."""
FUTURE_NS = 10_000_000
"""A frame stamped further ahead than this is not decided on: one clock serves all processes."""


class Infer:
    """All agents of a configuration."""

    def __init__(self, plan: Plan, runtime: RuntimeFolder, name: str, bus: Bus, poller: zmq.Poller) -> None:
        self._config = plan.config
        self._agents = {agent.name: agent for agent in _agents(plan, Choices(runtime.state, runtime.models))}
        worker = choose_worker(self._config.infer.worker)
        self._pool = WorkerPool(worker, self._config.infer.workers, runtime.rings, poller, time.monotonic_ns())
        self._gate = Gate(self._config, worker, self._all(), self._pool, poller)
        self._scheduler = Scheduler(self._config.agents, round(self._config.infer.ageing_ms * 1e6))
        choices = Choices(runtime.state, runtime.models)
        self._refused: dict[str, Counter[str]] = {agent: Counter() for agent in self._agents}
        """Proposals that valves have refused, by agent and reason."""
        self._swaps = Swaps(
            lambda: control.config,
            worker,
            self._pool,
            poller,
            choices,
            self._gate.p99_ms,
            self._refused.__getitem__,
        )
        control = AgentControl(
            self._config, self._agents, self._scheduler, self._gate.p99_ms, self._swaps, plan.package
        )
        self._desk = CommandDesk[AgentCommand](int.from_bytes(os.urandom(7)), control.operate, control.describe)
        self._commands = bus.command_server("agents", name)
        poller.register(self._commands.socket, zmq.POLLIN)
        self._sources = [
            _source(plan, runtime, bus, source) for source in {agent.source for agent in self._config.agents.values()}
        ]
        self._looking: dict[tuple[str, str], list[AgentRun]] = {}
        for agent in self._all():
            self._looking.setdefault((agent.config.source, agent.acting.manifest.frame.view.name), []).append(agent)
        actuators = {agent.actuator for agent in self._config.agents.values()}
        self._applied = {actuator: bus.subscriber("applied", actuator) for actuator in actuators}
        self._proposals = {actuator: bus.publisher("proposal", actuator) for actuator in actuators}
        for topic in (*self._applied.values(), *(source.topic for source in self._sources)):
            poller.register(topic.socket, zmq.POLLIN)
        self._late: set[int] = set()
        """Requests whose deadline passed while they were computed: their results no longer count."""
        self._progress = 0

    def turn(self, ready: Ready, now_ns: int) -> int:
        """Results first, they are oldest; then what was executed, then new frames, then the next inference."""
        if self._commands.socket in ready:
            self._commands.serve(self._desk.answer, COMMANDS_PER_TURN)
        for job, result in self._pool.collect(ready, now_ns):
            self._progress += 1
            self._finish(job, result, now_ns)
        self._gate.turn(now_ns)
        self._swaps.turn(now_ns)
        self._take_applied(ready)
        for source in self._sources:
            if source.topic.socket in ready:
                self._take_frames(source, now_ns)
        self._expire(now_ns)
        self._dispatch(now_ns)
        return self._due_ns(now_ns)

    def report(self) -> Report:
        """Agents and links."""
        now_ns = time.monotonic_ns()
        silent = [s.name for s in self._sources if now_ns - s.last_ns > s.stall_ns]
        texts = [agent.text for agent in self._all() if agent.state != "ready" or agent.paused]
        texts += [f"no frames from {name}" for name in silent] + ([self._gate.warning] if self._gate.warning else [])
        return Report(
            state=self._state(bool(silent)),
            progress=self._progress,
            detail="; ".join(texts),
            children=self._pool.pids(),
            counts={agent.name: agent.counts for agent in self._all()}
            | {s.name: {"frames": s.frames, "skipped": s.skipped} for s in self._sources}
            | {"(workers)": {"replaced": self._pool.replaced}},
            dropped={agent.name: dict(agent.dropped) for agent in self._all()},
        )

    def shutdown(self) -> None:
        """End workers and checks."""
        self._swaps.close()
        self._gate.close()
        self._pool.close()

    def _all(self) -> list[AgentRun]:
        return list(self._agents.values())

    def _state(self, silent: bool) -> Literal["starting", "running", "waiting", "degraded"]:
        states = {agent.state for agent in self._all()}
        if states & {"verifying", "loading"}:
            return "starting"
        if silent or all(agent.paused or agent.state == "refused" for agent in self._all()):
            return "waiting"  # also with a refused agent: no frame, no progress, which is no hang
        return "degraded" if "refused" in states or self._gate.warning else "running"

    def _take_applied(self, ready: Ready) -> None:
        for actuator, topic in self._applied.items():
            for message in topic.receive() if topic.socket in ready else ():
                if isinstance(message, Refused) and message.agent in self._refused:
                    self._refused[message.agent][message.reason] += 1
                elif isinstance(message, Applied):
                    for agent in self._all():
                        if agent.config.actuator == actuator:
                            agent.history.applied(message)

    def _take_frames(self, source: SourceReader, now_ns: int) -> None:
        found = source.observe(now_ns)
        if found is None:
            return
        view, observation = found
        self._progress += 1
        if self._gate.open:
            for agent in self._looking.get((source.name, view), ()):
                if agent.state == "ready" and not agent.paused:
                    self._look(agent, source, view, observation, now_ns)

    def _look(self, agent: AgentRun, source: SourceReader, view: str, observation: Observation, now_ns: int) -> None:
        newest = observation.newest
        if newest.sensor_ns > now_ns + FUTURE_NS:
            agent.drop("stale", f"a frame stamped {(newest.sensor_ns - now_ns) / 1e6:.1f} ms in the future")
        elif observation.after is None and not self._scheduler.due(agent.name, newest.sensor_ns):
            agent.not_due += 1
        elif agent.gate is None or observation.after is not None:
            self._offer(agent, observation, now_ns)
        else:
            pixels = source.pixels(view, newest)
            held = None if pixels is None else agent.gate.look(pixels, newest.sensor_ns)
            if held is None:
                self._offer(agent, observation, now_ns)
            else:
                self._propose(agent, newest, held, 0)

    def _offer(self, agent: AgentRun, observation: Observation, now_ns: int) -> None:
        if self._scheduler.offer(agent.name, observation, now_ns):
            agent.drop("superseded", "a newer frame came first")

    def _expire(self, now_ns: int) -> None:
        for waiting in self._scheduler.expired(now_ns):
            self._agents[waiting.agent].drop("deadline", "not started in time")
        for job in self._pool.running():
            if now_ns >= job.waiting.deadline_ns and job.request not in self._late:
                self._late.add(job.request)
                self._agents[job.waiting.agent].drop("deadline", "still being computed")

    def _dispatch(self, now_ns: int) -> None:
        while (waiting := self._scheduler.take(now_ns, self._can_start)) is not None:
            agent = self._agents[waiting.agent]
            self._pool.run(waiting, agent.model, agent.inputs(waiting.observation), now_ns)

    def _can_start(self, waiting: Waiting) -> bool:
        agent = self._agents[waiting.agent]
        return self._pool.can_run(agent.model) and agent.may_decide(waiting.observation)

    def _finish(self, job: Job, result: RunDone | RunFailed, now_ns: int) -> None:
        agent = self._agents[job.waiting.agent]
        if agent.paused or job.request in self._late:
            self._late.discard(job.request)
            return
        if now_ns >= job.waiting.deadline_ns:
            agent.drop("deadline", "computed too late")
            return
        if job.model != agent.model:
            agent.drop("superseded", "another model acts now")
            return
        if isinstance(result, RunFailed):
            agent.drop(result.reason, result.detail)
            return
        try:
            decision = agent.decision(result.outputs)
        except Undecidable as error:
            agent.drop(error.reason, str(error))
            return
        agent.decided += 1
        if agent.gate is not None:
            agent.gate.decided(decision, job.waiting.observation.newest.sensor_ns)
        self._propose(agent, job.waiting.observation.newest, decision, result.forward_ns)

    def _propose(self, agent: AgentRun, frame: Frame, decision: Decision, forward_ns: int) -> None:
        self._proposals[agent.config.actuator].send(
            ActionProposal(
                agent=agent.name,
                sensor_ns=frame.sensor_ns,
                frame_seq=frame.seq,
                action=decision.action,
                values=decision.values,
                confidence=decision.confidence,
                forward_ns=forward_ns,
            )
        )

    def _due_ns(self, now_ns: int) -> int:
        running = [job.waiting.deadline_ns for job in self._pool.running() if job.request not in self._late]
        due = [
            self._pool.due_ns(now_ns),
            self._scheduler.next_deadline_ns(),
            self._gate.due_ns(now_ns),
            self._swaps.due_ns(now_ns),
            *running,
        ]
        return min(time_ns for time_ns in due if time_ns is not None)


def _agents(plan: Plan, choices: Choices) -> list[AgentRun]:
    models: dict[Path, str] = {}
    agents = []
    for name, config in plan.config.agents.items():
        package, manifest = chosen(choices, name, plan.package(name), plan.manifests[name])
        model = models.setdefault(package, f"{manifest.name[:24]}-{len(models)}")
        period_ns = round(1e9 / plan.frame_rate(config.source))
        agents.append(AgentRun(name, config, Model(package, manifest, model), period_ns))
    return agents


def _source(plan: Plan, runtime: RuntimeFolder, bus: Bus, source: str) -> SourceReader:
    stacked = any(
        len(plan.manifests[name].frame.offsets_ms) > 1
        for name, agent in plan.config.agents.items()
        if agent.source == source
    )
    depth = plan.slots(source) if stacked else 1
    views = {view.name: ViewReader(runtime, source, view, depth) for view in plan.views(source)}
    return SourceReader(source, bus.subscriber("frame", source), views, plan.stall_ns(source))
