"""The check's process seen from its parent: polled without blocking, and every way not to answer is a refusal."""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from daemon.infer.verify import Verdict, Verification, verify_in_process
from daemon.workers import Worker
from tests.packages import tiny_package
from tests.peers import worker

REPOSITORY = Path(__file__).parents[2]
LIMIT_S = 60.0
PYTHON = worker("python")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return tiny_package(tmp_path / "package")


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Every test ends with the processes it found."""
    before = {child.pid for child in psutil.Process().children()}
    yield
    assert {child.pid for child in psutil.Process().children()} <= before


def until_verdict(check: Verification, limit_s: float = LIMIT_S) -> Verdict:
    """Wait as a main loop does: on the descriptor, with a tick."""
    end = time.monotonic() + limit_s
    with selectors.DefaultSelector() as selector:
        selector.register(check, selectors.EVENT_READ)
        while time.monotonic() < end:
            selector.select(0.05)
            if (verdict := check.poll()) is not None:
                return verdict
    raise AssertionError("no verdict")


def test_a_check_in_a_poller_gives_its_verdict_once_and_for_all(package: Path) -> None:
    check = Verification(PYTHON, package, threads=1, timeout_s=LIMIT_S)
    check.start()
    verdict = until_verdict(check)
    assert verdict.ok
    assert check.poll() is verdict
    check.kill()
    assert check.poll() is verdict


def test_a_check_that_takes_too_long_is_refused(package: Path) -> None:
    check = Verification(PYTHON, package, threads=1, timeout_s=0.5)
    check.start()
    began = time.monotonic()
    verdict = until_verdict(check)
    assert time.monotonic() - began < 5
    assert verdict.detail.startswith("the check process did not finish within 0.5 s")


def test_a_cancelled_check_is_refused_and_gone(package: Path) -> None:
    check = Verification(PYTHON, package, threads=1, timeout_s=LIMIT_S)
    check.start()
    check.kill()
    verdict = check.poll()
    assert verdict is not None
    assert "cancelled" in verdict.detail


def test_death_by_signal_says_which_and_when(package: Path) -> None:
    check = Verification(PYTHON, package, threads=1, timeout_s=LIMIT_S)
    before = psutil.Process().children()
    check.start()
    [child] = set(psutil.Process().children()) - set(before)
    while "torch" not in Path(f"/proc/{child.pid}/maps").read_text():
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGSEGV)
    detail = until_verdict(check).detail
    assert detail.startswith("the check process died by signal SIGSEGV while starting the runtime")


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo garbage", "left with status 0 and no readable answer"),
        ("true", "left with status 0 and no readable answer"),
        ('echo \'{"ok":true,"detail":""}\'; exit 3', "left with status 3 and answered ok = True"),
        ("echo '{\"ok\":true}'", "missing required field `detail`"),
        ("head -c 10000000 /dev/zero", "answered with more than 65536 bytes"),
        ("exec 1>&-; exec sleep 60", "closed its output and did not exit"),
        (
            "echo 'verify: loading the program' >&2; echo 'assert failed (x)' >&2; kill -ABRT $$",
            "SIGABRT while loading",
        ),
    ],
)
def test_any_other_answer_is_a_refusal(package: Path, tmp_path: Path, script: str, complaint: str) -> None:
    impostor = tmp_path / "worker"
    impostor.write_text(f"#!/bin/sh\n{script}\n")
    impostor.chmod(0o755)
    verdict = verify_in_process(Worker("native", str(impostor), "a test"), package, threads=1, timeout_s=LIMIT_S)
    assert not verdict.ok
    assert complaint in verdict.detail
