"""What a process costs and when it began, as the kernel has it."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from daemon.usage import Usage


def test_memory_and_processor_time_are_the_kernel_s() -> None:
    usage = Usage(0.0)
    usage.sample(os.getpid(), 1.0)
    times = psutil.Process().cpu_times()
    found = usage.report()
    assert found["rss_mb"] == pytest.approx(psutil.Process().memory_info().rss / 1e6, rel=0.1)
    assert found["cpu_percent"] == pytest.approx(100 * (times.user + times.system), rel=0.1)
    assert (usage.alive, usage.lives) == (True, 1)


def test_a_dead_process_has_no_memory_and_its_time_goes_on_in_the_next() -> None:
    usage = Usage(0.0)
    usage.sample(os.getpid(), 1.0)
    spent = usage.report()["cpu_percent"]
    dead = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)  # a zombie
    usage.sample(dead.pid, 1.0)
    assert (usage.alive, usage.lives) == (False, 2)
    dead.wait()
    usage.sample(dead.pid, 1.0)
    assert usage.report()["rss_mb"] == 0.0
    assert usage.report()["cpu_percent"] >= spent


def test_a_program_s_name_may_look_like_the_line_it_stands_in() -> None:
    name = b") R 1 2"
    with subprocess.Popen(
        [sys.executable, "-c", f"open('/proc/self/comm', 'wb').write({name!r}); print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        usage = Usage(0.0)
        usage.sample(process.pid, 1.0)
        process.communicate(b"\n")
    assert usage.report()["rss_mb"] > 1.0


def test_a_process_knows_when_it_was_started() -> None:
    code = "from daemon.usage import process_start_ns; print(process_start_ns())"
    before_ns = time.monotonic_ns()
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        after_ns = time.monotonic_ns()  # the program has been started by now, and has not said anything yet
        answer = process.communicate()[0]
    tick_ns = 10_000_000
    assert before_ns - tick_ns <= int(answer) <= after_ns
