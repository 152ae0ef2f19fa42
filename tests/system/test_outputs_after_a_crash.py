"""Pins of a daemon whose processes are killed: neutral again by the supervisor, by its end, or by the guard alone.

Case by case of what may survive: the supervisor, the actuator, neither of them, nothing at all.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from daemon.runtime import owner_of
from tests.actuate.pins import Trace, trace_pins
from tests.configs import acting
from tests.packages import tiny_package
from tests.system.game import REFLEXD, START_SECONDS, processes_of

PIN = 17
NEUTRAL_WITHIN_S = 3.0
"""Of a kill, on a busy test machine: most of it is Python's start."""
OUTPUT = f"""
[[actuators.lamp.outputs]]
kind = "digital"
pin = {PIN}
actions = {{ LEFT = true, STAY = false, RIGHT = true }}
"""


class Run:
    """A daemon that looks at a moving test picture and moves a pin."""

    def __init__(self, folder: Path, trace: Trace) -> None:
        self.folder, self.trace = folder, trace
        self.config = folder / "lamp.toml"
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        """Start `reflexd run`."""
        with (self.folder / "log").open("a") as log:
            return subprocess.Popen([REFLEXD, "run", str(self.config), "--plain"], stderr=log)

    def pid(self, process: str) -> int:
        """The pid of one of its processes."""
        found = owner_of(self.folder / "run" / "locks" / process)
        assert found is not None
        return found

    def hold_while_on(self) -> int:
        """Stop the actuator's process while its pin is on; return its pid."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            await_(lambda: bool(self.trace.outputs(PIN)) and self.trace.now(PIN) == 1.0, "moved pin", START_SECONDS)
            pid = self.pid("actuate@lamp")
            os.kill(pid, signal.SIGSTOP)
            if self.trace.now(PIN) == 1.0:
                return pid
            os.kill(pid, signal.SIGCONT)
        raise AssertionError("the pin was never on")

    def kill_all(self) -> None:
        """Kill every process, the supervisor first: it has no time to start one anew."""
        self.process.kill()
        for pid in processes_of(self.folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def next_level(self, seen: int) -> float:
        """What the pin became first after so many events, soon."""
        await_(lambda: len(self.trace.events(PIN)) > seen, "new level", NEUTRAL_WITHIN_S)
        return self.trace.events(PIN)[seen].state


def await_(condition: Callable[[], bool], what: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"no {what} within {seconds} s"
        time.sleep(0.005)


@pytest.fixture
def run(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    trace = trace_pins(run_folder, monkeypatch)
    tiny_package(run_folder / "package")
    (run_folder / "lamp.toml").write_text(
        f'[daemon]\nname = "lamp"\nruntime = "{run_folder}/run"\nstate = "{run_folder}/state"\n'
        '[sources.cam]\nkind = "synthetic"\n'
        + acting("player", "lamp").replace('driver = "log"', 'driver = "gpio"')
        + OUTPUT
    )
    running = Run(run_folder, trace)
    yield running
    running.kill_all()


def test_the_actuator_alone(run: Run) -> None:
    """The supervisor starts it anew, and it begins with neutral."""
    pid = run.hold_while_on()
    seen = len(run.trace.events(PIN))
    os.kill(pid, signal.SIGKILL)
    assert run.next_level(seen) == 0.0
    await_(lambda: run.trace.now(PIN) == 1.0, "action again", START_SECONDS)
    assert run.pid("actuate@lamp") != pid


def test_the_supervisor_alone(run: Run) -> None:
    """Its processes see it go, and end as they do when they are told to."""
    await_(lambda: bool(run.trace.outputs(PIN)) and run.trace.now(PIN) == 1.0, "moved pin", START_SECONDS)
    run.process.kill()
    await_(lambda: processes_of(run.folder) == [], "end of all", NEUTRAL_WITHIN_S)
    assert run.trace.now(PIN) == 0.0


@pytest.mark.parametrize("whole", [False, True], ids=["actuator and supervisor", "every process"])
def test_nothing_that_could_write_is_left_and_the_guard_writes(run: Run, whole: bool) -> None:
    pid = run.hold_while_on()
    if whole:
        run.kill_all()
    else:
        for victim in (run.process.pid, pid):
            os.kill(victim, signal.SIGKILL)
        run.process.wait()
    await_(lambda: owner_of(run.folder / "run/locks/actuate@lamp") is None, "end of the actuator", NEUTRAL_WITHIN_S)
    assert run.trace.now(PIN) == 1.0, "what nobody writes stays, which is why there is a guard"
    done = subprocess.run(
        [REFLEXD, "neutral", str(run.config)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, run.trace.now(PIN)) == (0, 0.0), done.stderr


def test_a_start_after_a_crash_of_everything_begins_with_neutral(run: Run) -> None:
    run.hold_while_on()
    run.kill_all()
    seen = len(run.trace.events(PIN))
    run.process = run.start()
    await_(lambda: len(run.trace.events(PIN)) > seen, "new level", START_SECONDS)
    assert run.trace.events(PIN)[seen].state == 0.0
