"""The inference workers: start, load, hand out one request each, replace those that die or get stuck."""

from __future__ import annotations

import logging
import subprocess
from collections import Counter
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import zmq

from daemon.infer.link import Link, LinkClosed
from daemon.infer.schedule import Waiting
from daemon.messages import (
    FROM_WORKER,
    InlineTensor,
    LoadModel,
    ModelLoaded,
    RingFrames,
    RunDone,
    RunFailed,
    RunModel,
    WorkerHello,
    WorkerLog,
)
from daemon.process import StageFailed
from daemon.wire import WireError
from daemon.workers import Worker

logger = logging.getLogger(__name__)

START_LIMIT_NS = 60_000_000_000
"""A worker must have said hello, or have loaded a model, within this: importing torch from an SD card is slow."""
STUCK_FLOOR_NS = 250_000_000
STUCK_FACTOR = 20
"""A worker is stuck when an inference takes this many times its measured p99, and at least the floor."""
MAX_LOST_IN_A_ROW = 3
"""Workers a model may take down without one result in between; beyond that it is not given to another. Workers lost
that way with no model at work make infer give up and let its supervisor start it anew."""


RETIRED_MOST = 4
"""Models nobody needs that a worker may hold."""

Result = RunDone | RunFailed
"""How a request ends."""


class Job(NamedTuple):
    """A request on its way through a worker, and the observation it is about."""

    request: int
    model: str
    waiting: Waiting


class WorkerProcess:
    """One worker: its process, its link and what it is doing."""

    def __init__(self, worker: Worker, index: int, rings: Path, now_ns: int) -> None:
        ours, theirs = Link.pair()
        ours.setblocking(False)
        command = worker.serve_command(theirs.fileno(), rings)
        self.index = index
        with theirs:
            try:
                self.process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)  # noqa: S603
            except OSError:
                ours.close()
                raise
        self.link = Link(ours, FROM_WORKER)
        self.descriptor = self.link.fileno()
        self.said_hello = False
        self.loading: list[LoadModel] = []
        self.loaded: dict[str, ModelLoaded] = {}
        self.job: Job | None = None
        self.limit_ns = now_ns + START_LIMIT_NS

    @property
    def idle(self) -> bool:
        """Ready for a request."""
        return self.said_hello and not self.loading and self.job is None

    def kill(self) -> None:
        """End the process at once and reap it."""
        self.process.kill()
        with suppress(subprocess.TimeoutExpired):  # stuck in the kernel: it must not hold up the others
            self.process.wait(timeout=1.0)
        self.link.close()


class WorkerPool:
    """All workers of one infer.

    Args:
        worker: what they are.
        count: how many.
        rings: folder of the frame rings.
        poller: gets the workers' links.
        now_ns: CLOCK_MONOTONIC.

    Raises:
        OSError: a worker's program could not be started; so do the methods that may replace one.
    """

    def __init__(self, worker: Worker, count: int, rings: Path, poller: zmq.Poller, now_ns: int) -> None:
        self._worker, self._rings, self._poller = worker, rings, poller
        self._models: dict[str, LoadModel] = {}
        self._requests = 0
        self._lost: Counter[str | None] = Counter()
        self.replaced = 0
        self.load_failures: dict[str, str] = {}
        logger.info("%s", worker.line)
        self._workers = [self._start(index, now_ns) for index in range(count)]

    def add_model(self, model: LoadModel, now_ns: int) -> None:
        """Have every worker load a verified model."""
        self._models[model.model] = model
        for worker in self._workers:
            worker.loading.append(model)
            if len(worker.loading) == 1:
                self._load_next(worker, now_ns)

    def loaded(self, model: str) -> ModelLoaded | None:
        """What the first worker that has the model measured."""
        return next((worker.loaded[model] for worker in self._workers if model in worker.loaded), None)

    def loaded_by_all(self, model: str) -> ModelLoaded | None:
        """What was measured, once every worker has the model."""
        return self.loaded(model) if all(model in worker.loaded for worker in self._workers) else None

    def retire(self, model: str) -> None:
        """The model is not needed any more: workers that start anew do not load it.

        Those that have it keep its memory until :meth:`recycle`: ExecuTorch's is freed with the process alone.
        """
        self._models.pop(model, None)
        self.load_failures.pop(model, None)

    def recycle(self, now_ns: int) -> bool:
        """Replace one idle worker that holds too many models nobody needs; True once there is none to replace."""
        full = [worker for worker in self._workers if len(worker.loaded.keys() - self._models.keys()) > RETIRED_MOST]
        idle = next((worker for worker in full if worker.idle), None)
        if idle is not None and all(worker.said_hello for worker in self._workers):
            logger.info("worker %d: started anew to free the models it no longer needs", idle.index)
            self._restart(idle, now_ns)
        return not full

    def can_run(self, model: str) -> bool:
        """A worker is free and has the model."""
        return self._free(model) is not None

    def run(self, waiting: Waiting, model: str, inputs: list[InlineTensor | RingFrames], now_ns: int) -> None:
        """Hand a request to a free worker; ask :meth:`can_run` first."""
        worker = self._free(model)
        assert worker is not None  # noqa: S101
        self._requests += 1
        p99_ns = round(worker.loaded[model].p99_ms * 1e6)
        worker.job = Job(self._requests, model, waiting)
        worker.limit_ns = now_ns + max(STUCK_FLOOR_NS, STUCK_FACTOR * p99_ns)
        try:
            worker.link.send(RunModel(request=self._requests, model=model, inputs=inputs))
        except LinkClosed as error:
            logger.warning("worker %d: request not sent: %s", worker.index, error)

    def collect(self, ready: Container[object], now_ns: int) -> Iterator[tuple[Job, Result]]:
        """Yield every result that has come, and a failure for every request whose worker was lost.

        Args:
            ready: file descriptors that can be read, the workers' links among them.
            now_ns: CLOCK_MONOTONIC.

        Raises:
            StageFailed: the workers cannot be kept alive.
        """
        for worker in list(self._workers):
            stuck = now_ns > worker.limit_ns and not worker.idle
            if not stuck and worker.descriptor not in ready:
                continue
            try:
                while (message := worker.link.receive()) is not None:
                    yield from self._take(worker, message, now_ns)
                if stuck and not worker.idle:
                    raise LinkClosed(f"no answer for {(now_ns - worker.limit_ns) / 1e6:.0f} ms beyond its limit")
            except (LinkClosed, WireError) as error:
                yield from self._replace(worker, str(error), now_ns)

    def due_ns(self, now_ns: int) -> int:
        """When a worker is next found stuck."""
        return min((w.limit_ns for w in self._workers if not w.idle), default=now_ns + START_LIMIT_NS)

    def running(self) -> list[Job]:
        """The requests under way."""
        return [worker.job for worker in self._workers if worker.job is not None]

    def pids(self) -> dict[str, int]:
        """Process ids by worker name."""
        return {f"worker{worker.index}": worker.process.pid for worker in self._workers}

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.kill()

    def _start(self, index: int, now_ns: int) -> WorkerProcess:
        worker = WorkerProcess(self._worker, index, self._rings, now_ns)
        worker.loading = list(self._models.values())
        self._poller.register(worker.descriptor, zmq.POLLIN)
        return worker

    def _restart(self, worker: WorkerProcess, now_ns: int) -> None:
        self._poller.unregister(worker.descriptor)
        worker.kill()
        self._workers[self._workers.index(worker)] = self._start(worker.index, now_ns)

    def _free(self, model: str) -> WorkerProcess | None:
        for worker in self._workers:
            if worker.idle and model in worker.loaded:
                return worker
        return None

    def _take(self, worker: WorkerProcess, message: object, now_ns: int) -> Iterator[tuple[Job, Result]]:
        if worker.job and _answers(message, worker.job.request, worker.job.model):
            assert isinstance(message, Result)  # noqa: S101 - what answers a request
            job, worker.job = worker.job, None
            self._lost[job.model] = 0
            yield job, message
        elif isinstance(message, WorkerLog):
            level = logging.getLevelNamesMapping()[message.level.upper()]
            logger.log(level, "worker %d: %s", worker.index, message.text)
        elif isinstance(message, WorkerHello):
            worker.said_hello = True
            logger.info("worker %d: %s, %s", worker.index, message.kind, message.versions)
            self._load_next(worker, now_ns)
        elif worker.loading and _answers(message, 0, worker.loading[0].model):
            self._take_load(worker, message, now_ns)
        else:
            raise WireError(f"{type(message).__name__}: nobody asked for it")

    def _take_load(self, worker: WorkerProcess, message: object, now_ns: int) -> None:
        if isinstance(message, ModelLoaded):
            worker.loaded[message.model] = message
            self.load_failures.pop(message.model, None)
            self._lost[None] = 0
        elif isinstance(message, RunFailed):
            self.load_failures[message.model] = message.detail
        worker.loading.pop(0)
        self._load_next(worker, now_ns)

    def _load_next(self, worker: WorkerProcess, now_ns: int) -> None:
        """Send the first of the models still to be loaded."""
        if worker.said_hello and worker.loading:
            worker.limit_ns = now_ns + START_LIMIT_NS
            with suppress(LinkClosed):  # found, and the worker replaced, with the next collect
                worker.link.send(worker.loading[0])

    def _replace(self, worker: WorkerProcess, why: str, now_ns: int) -> Iterator[tuple[Job, RunFailed]]:
        logger.warning("worker %d (pid %d) lost: %s", worker.index, worker.process.pid, why)
        self.replaced += 1
        self._blame(worker, why)
        self._restart(worker, now_ns)
        if worker.job is not None:
            job = worker.job
            yield job, RunFailed(request=job.request, model=job.model, reason="worker_lost", detail=why)

    def _blame(self, worker: WorkerProcess, why: str) -> None:
        """Count the loss for the model at work; one that takes down worker after worker is given to none any more."""
        loading = worker.loading[0].model if worker.said_hello and worker.loading else None
        model = worker.job.model if worker.job else loading
        self._lost[model] += 1
        if self._lost[model] <= MAX_LOST_IN_A_ROW:
            return
        if model is None:
            raise StageFailed(f"{self._lost[None]} workers lost in a row, the last: {why}")
        self.load_failures[model] = f"it took down {self._lost[model]} workers in a row, the last: {why}"
        self._models.pop(model, None)
        for other in self._workers:
            other.loaded.pop(model, None)


def _answers(message: object, request: int, model: str) -> bool:
    """``message`` is the answer to a request about ``model``; request 0 is its load."""
    if isinstance(message, ModelLoaded):
        return request == 0 and message.model == model
    return isinstance(message, Result) and (message.request, message.model) == (request, model)
