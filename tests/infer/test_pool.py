"""The worker pool with real workers: stuck and dying ones are replaced, a model that takes them down is set aside."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.infer.pool import MAX_LOST_IN_A_ROW
from daemon.messages import RunDone, RunFailed
from daemon.workers import Worker
from tests.infer.rig import WAITING, Rig
from tests.packages import tiny_package
from tests.peers import BUILD_LIMIT_S, worker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(BUILD_LIMIT_S)]

MODEL = "tiny"


def strike(rig: Rig, sent: signal.Signals) -> RunDone | RunFailed:
    """Give the worker a request it cannot answer, and wait for what the pool makes of it."""
    known = len(rig.results)
    os.kill(rig.pool.pids()["worker0"], signal.SIGSTOP)
    rig.start(MODEL)
    os.kill(rig.pool.pids()["worker0"], sent)
    rig.until(lambda: len(rig.results) > known)
    return rig.results[-1][1]


def ready(rig: Rig) -> bool:
    return rig.pool.can_run(MODEL)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return tiny_package(tmp_path / "package")


@pytest.fixture(params=["python", "native"])
def rig(tmp_path: Path, package: Path, request: pytest.FixtureRequest) -> Iterator[Rig]:
    rig = Rig(tmp_path, worker(request.param))
    rig.add(MODEL, package)
    try:
        rig.until(lambda: ready(rig))
        yield rig
    finally:
        rig.pool.close()


def test_requests_are_answered_one_at_a_time(rig: Rig) -> None:
    rig.start(MODEL)
    assert not ready(rig)
    assert [job.waiting for job in rig.pool.running()] == [WAITING]
    rig.until(lambda: bool(rig.results))
    job, result = rig.results[0]
    assert job.waiting == WAITING
    assert isinstance(result, RunDone)
    assert ready(rig)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP], ids=lambda value: value.name)
def test_a_lost_worker_is_replaced_and_its_request_answered(rig: Rig, sent: signal.Signals) -> None:
    pid = rig.pool.pids()["worker0"]
    failed = strike(rig, sent)
    assert isinstance(failed, RunFailed)
    assert failed.reason == "worker_lost"
    assert not Path(f"/proc/{pid}").exists(), "the old one is ended and reaped"
    rig.until(lambda: ready(rig))
    assert rig.pool.replaced == 1
    rig.start(MODEL)
    rig.until(lambda: isinstance(rig.results[-1][1], RunDone))


def test_a_model_that_takes_down_worker_after_worker_is_set_aside(rig: Rig) -> None:
    for _ in range(MAX_LOST_IN_A_ROW):
        strike(rig, signal.SIGKILL)
        rig.until(lambda: ready(rig))
    strike(rig, signal.SIGKILL)
    assert f"took down {MAX_LOST_IN_A_ROW + 1} workers in a row" in rig.pool.load_failures[MODEL]
    rig.until(lambda: bool(rig.pool.pids()))
    assert not ready(rig)
    assert rig.pool.loaded(MODEL) is None


def test_a_package_changed_since_it_was_verified_is_not_loaded_by_the_next_worker(rig: Rig, package: Path) -> None:
    (package / "model.pte").write_bytes(b"something else")
    strike(rig, signal.SIGKILL)
    rig.until(lambda: MODEL in rig.pool.load_failures)
    assert "truncated or foreign" in rig.pool.load_failures[MODEL]
    assert not ready(rig)


def test_a_worker_whose_program_is_gone_is_a_case_for_the_supervisor(tmp_path: Path) -> None:
    """infer ends with it, and chooses anew when it is started again."""
    program = tmp_path / "worker"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    rig = Rig(tmp_path, Worker("native", str(program), "a test", {"worker": "0"}))
    try:
        program.unlink()
        os.kill(rig.pool.pids()["worker0"], signal.SIGKILL)
        with pytest.raises(FileNotFoundError):
            rig.until(lambda: False)
    finally:
        rig.pool.close()
