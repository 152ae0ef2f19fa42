"""The worker pool with real workers: stuck and dying ones are replaced, a model that takes them down is set aside."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zmq

from daemon.frames import Frame
from daemon.infer.encode import Observation
from daemon.infer.pool import MAX_LOST_IN_A_ROW, Job, WorkerPool
from daemon.infer.schedule import Waiting
from daemon.messages import InlineTensor, LoadModel, RunDone, RunFailed
from daemon.package import MANIFEST_FILE, file_sha256
from tests.packages import HISTORY, PADDING_TOKEN, SIDE, tiny_package
from tests.peers import BUILD_LIMIT_S, worker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(BUILD_LIMIT_S)]

MODEL = "tiny"
INPUTS: list[InlineTensor] = [
    InlineTensor("uint8", [1, 1, SIDE, SIDE], bytes(SIDE * SIDE)),
    InlineTensor("int64", [1, HISTORY], np.full(HISTORY, PADDING_TOKEN, np.int64).tobytes()),
]
WAITING = Waiting("one", Observation("cam", 1, [Frame(1, 1, 0)]), 2**62)


class Rig:
    """A pool and its poller, turned as infer does."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.poller = zmq.Poller()
        self.pool = WorkerPool(worker(kind), 1, folder, self.poller, time.monotonic_ns())
        package = tiny_package(folder / "package")
        self.model = LoadModel(
            model=MODEL, package=str(package), manifest_sha256=file_sha256(package / MANIFEST_FILE), threads=1
        )
        self.pool.add_model(self.model, time.monotonic_ns())
        self.results: list[tuple[Job, RunDone | RunFailed]] = []

    def until(self, condition: Callable[[], bool], seconds: float = 40.0) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "did not happen in time"
            ready = {item for item, _ in self.poller.poll(20)}
            self.results += self.pool.collect(ready, time.monotonic_ns())

    def ready(self) -> bool:
        return self.pool.can_run(MODEL)

    def run(self) -> None:
        self.pool.run(WAITING, MODEL, list(INPUTS), time.monotonic_ns())

    def strike(self, sent: signal.Signals) -> RunDone | RunFailed:
        """Give the worker a request it cannot answer, and wait for what the pool makes of it."""
        known = len(self.results)
        os.kill(self.pool.pids()["worker0"], signal.SIGSTOP)
        self.run()
        os.kill(self.pool.pids()["worker0"], sent)
        self.until(lambda: len(self.results) > known)
        return self.results[-1][1]


@pytest.fixture(params=["python"])
def rig(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Rig]:
    rig = Rig(tmp_path, request.param)
    try:
        rig.until(rig.ready)
        yield rig
    finally:
        rig.pool.close()


def test_requests_are_answered_one_at_a_time(rig: Rig) -> None:
    rig.run()
    assert not rig.ready()
    assert [job.waiting for job in rig.pool.running()] == [WAITING]
    rig.until(lambda: bool(rig.results))
    job, result = rig.results[0]
    assert job.waiting == WAITING
    assert isinstance(result, RunDone)
    assert rig.ready()


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP], ids=lambda value: value.name)
def test_a_lost_worker_is_replaced_and_its_request_answered(rig: Rig, sent: signal.Signals) -> None:
    pid = rig.pool.pids()["worker0"]
    failed = rig.strike(sent)
    assert isinstance(failed, RunFailed)
    assert failed.reason == "worker_lost"
    assert not Path(f"/proc/{pid}").exists(), "the old one is ended and reaped"
    rig.until(rig.ready)
    assert rig.pool.replaced == 1
    rig.run()
    rig.until(lambda: isinstance(rig.results[-1][1], RunDone))


def test_a_model_that_takes_down_worker_after_worker_is_set_aside(rig: Rig) -> None:
    for _ in range(MAX_LOST_IN_A_ROW):
        rig.strike(signal.SIGKILL)
        rig.until(rig.ready)
    rig.strike(signal.SIGKILL)
    assert f"took down {MAX_LOST_IN_A_ROW + 1} workers in a row" in rig.pool.load_failures[MODEL]
    rig.until(lambda: bool(rig.pool.pids()))
    assert not rig.ready()
    assert rig.pool.loaded(MODEL) is None


def test_a_package_changed_since_it_was_verified_is_not_loaded_by_the_next_worker(rig: Rig) -> None:
    (Path(rig.model.package) / "model.pte").write_bytes(b"something else")
    rig.strike(signal.SIGKILL)
    rig.until(lambda: MODEL in rig.pool.load_failures)
    assert "truncated or foreign" in rig.pool.load_failures[MODEL]
    assert not rig.ready()
