"""Real-time priority: granted, refused, injected refusals, and a loop that never sleeps."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daemon.actuate import realtime
from daemon.bus import Bus
from tests.actuate.running import ROOT, START_S, Peer, Setup, end, make_setup, running, start

FIFO = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, who may have real-time priority")


@needs_root
def test_granted_it_is_real_time_and_its_children_are_not(tmp_path: Path) -> None:
    setup = make_setup(tmp_path, realtime=True)
    process = start(setup)
    await_(lambda: os.sched_getscheduler(process.pid) == FIFO, "real-time priority")
    assert os.sched_getparam(process.pid).sched_priority == realtime.PRIORITY
    limits = resource.prlimit(process.pid, resource.RLIMIT_RTTIME)
    assert limits == (realtime.CPU_LIMIT_US, 2 * realtime.CPU_LIMIT_US)
    await_(lambda: locked_kib(process.pid) > 1024, "locked memory")
    assert "real-time priority 10, memory locked" in end(process)
    assert setup.causes() == ["start", "stop"]


def locked_kib(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().split("VmLck:")[1].split()[0])


def test_it_is_off_by_default(tmp_path: Path) -> None:
    with running(make_setup(tmp_path)) as (process, _):
        assert os.sched_getscheduler(process.pid) == os.SCHED_OTHER


def test_refused_it_goes_on_says_so_once_and_shows_it(tmp_path: Path) -> None:
    """As an ordinary user: RLIMIT_RTPRIO is 0, and less memory may be locked than Python takes."""
    setup = make_setup(tmp_path, realtime=True)
    no_power = ["setpriv", "--bounding-set=-sys_nice,-ipc_lock"] if os.getuid() == 0 else []
    ordinary = [*no_power, "prlimit", "--rtprio=0:0", "--memlock=65536:65536"]
    command = [*ordinary, sys.executable, "-P", "-m", "daemon.actuate", str(setup.config), "paddle"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    setup.runtime.create()
    with Bus(setup.runtime) as bus:
        peer = Peer(setup, bus)
        peer.link()
        assert peer.health is not None
        assert peer.health.detail.endswith("; ordinary priority instead of real-time, memory may be swapped out")
    assert os.sched_getscheduler(process.pid) == os.SCHED_OTHER
    log = end(process)
    assert log.count("ordinary priority instead of real-time: Operation not permitted: ") == 1
    assert log.count("memory may be swapped out: mlockall: Cannot allocate memory: ") == 1
    assert f"rtprio {realtime.PRIORITY}" in log
    assert setup.causes() == ["start", "stop"]


def refuse(*_: Any) -> None:
    raise PermissionError(1, "Operation not permitted")


@pytest.mark.parametrize(
    ("module", "name"), [("os", "sched_setscheduler"), ("resource", "setrlimit")], ids=["priority", "limit"]
)
def test_without_the_limit_there_is_no_priority_either(monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> None:
    asked: list[int] = []
    monkeypatch.setattr(os, "sched_setscheduler", lambda *call: asked.append(call[1]))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    monkeypatch.setattr(realtime, "_stay_in_memory", lambda: None)
    assert realtime.become_realtime() == []
    assert asked == [FIFO]
    monkeypatch.setattr(f"{module}.{name}", refuse)
    (text,) = realtime.become_realtime()
    assert text.startswith("ordinary priority instead of real-time: Operation not permitted: a service gets it")
    assert asked == [FIFO]


SPINNING = """
import sys
from daemon.actuate.service import Actuation
from daemon.plan import load_without_packages
from daemon.process import main

class Spinning(Actuation):
    def turn(self, ready, now_ns):
        while self._progress >= 0:
            pass

sys.exit(main("actuate", Spinning, read=load_without_packages))
"""


@needs_root
def test_a_loop_that_never_sleeps_is_ended_by_the_kernel_with_its_stack(tmp_path: Path) -> None:
    setup = make_setup(tmp_path, realtime=True)
    process = spin(setup)
    began = time.monotonic()
    log = process.communicate(timeout=START_S)[1]
    print(f"ended {time.monotonic() - began:.2f} s after its start")
    assert process.returncode == -signal.SIGXCPU
    assert "in turn" in log
    again = start(setup)
    await_(lambda: setup.causes() == ["start", "start"], "neutral by the next process")
    end(again)


def spin(setup: Setup) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SPINNING, str(setup.config), "paddle"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )


def await_(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + START_S
    while not condition():
        assert time.monotonic() < until, f"no {what} within {START_S} s"
        time.sleep(0.01)
