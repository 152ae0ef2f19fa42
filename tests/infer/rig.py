"""A worker pool and its poller, turned as infer does, for tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zmq

from daemon.frames import Frame
from daemon.infer.encode import Observation
from daemon.infer.pool import Job, WorkerPool
from daemon.infer.schedule import Waiting
from daemon.messages import InlineTensor, RunDone, RunFailed
from daemon.workers import Worker
from tests.infer.peer import load_message
from tests.packages import HISTORY, PADDING_TOKEN, SIDE

INPUTS: list[InlineTensor] = [
    InlineTensor("uint8", [1, 1, SIDE, SIDE], bytes(SIDE * SIDE)),
    InlineTensor("int64", [1, HISTORY], np.full(HISTORY, PADDING_TOKEN, np.int64).tobytes()),
]
WAITING = Waiting("one", Observation("cam", 1, [Frame(1, 1, 0)]), 2**62)


class Rig:
    """One worker; models take a stack of one frame."""

    def __init__(self, folder: Path, worker: Worker) -> None:
        self.poller = zmq.Poller()
        self.pool = WorkerPool(worker, 1, folder, self.poller, time.monotonic_ns())
        self.results: list[tuple[Job, RunDone | RunFailed]] = []

    def add(self, model: str, package: Path) -> None:
        """Have the package loaded, as if it had just been verified."""
        self.pool.add_model(load_message(model, package), time.monotonic_ns())

    def until(self, condition: Callable[[], bool], seconds: float = 40.0) -> None:
        """Turn until ``condition`` holds."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "did not happen in time"
            ready = {item for item, _ in self.poller.poll(20)}
            self.results += self.pool.collect(ready, time.monotonic_ns())

    def start(self, model: str) -> None:
        """Hand a request to the worker, which must be free."""
        self.pool.run(WAITING, model, list(INPUTS), time.monotonic_ns())

    def result(self, model: str) -> RunDone | RunFailed:
        """What one inference gives."""
        self.until(lambda: self.pool.can_run(model))
        known = len(self.results)
        self.start(model)
        self.until(lambda: len(self.results) > known)
        return self.results[-1][1]
