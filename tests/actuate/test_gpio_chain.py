"""The whole chain: a source, a policy, the valve, and what the pins carry. ``reflexd run`` with every process real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import pytest

from daemon.bus import Bus
from daemon.config import Daemon
from daemon.messages import Applied
from daemon.runtime import RuntimeFolder
from tests.actuate.pins import Trace, toml, trace_pins
from tests.actuate.running import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ACTIONS = ["NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE"]
DUTIES = dict(zip(ACTIONS, (0.0, 0.1, 0.2, 0.3, 0.4, 0.5), strict=True))
PIN = 22
CONFIG = f"""
[daemon]
name = "chain"
runtime = "FOLDER/run"
state = "FOLDER/state"
[sources.camera]
kind = "synthetic"
width = 160
height = 210
[agents.driver]
package = "{ROOT}/models/pong/package"
source = "camera"
actuator = "wheels"
[actuators.wheels]
driver = "gpio"
actions = {toml(ACTIONS)}
neutral = "NOOP"
deadman_ms = 250.0
arm_on_start = true
after_deadman = "resume"
[[actuators.wheels.outputs]]
kind = "pwm"
pin = {PIN}
actions = {toml(DUTIES)}
[[actuators.wheels.outputs]]
kind = "digital"
pin = 17
actions = {toml({action: action != "NOOP" for action in ACTIONS})}
"""
START_S = 90.0


class Run:
    """A running daemon, what its actuator was told, and the pins."""

    def __init__(self, folder: Path, bus: Bus, trace: Trace) -> None:
        self.trace, self.runtime = trace, runtime_folder(folder)
        self.told: list[Applied] = []
        self._applied = bus.subscriber("applied", "wheels")

    def until(self, condition: Callable[[], bool], what: str, within_s: float = START_S) -> None:
        until = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < until, f"no {what} within {within_s} s"
            self.told += [message for message in self._applied.receive() if isinstance(message, Applied)]
            time.sleep(0.005)

    def decisions(self) -> int:
        return sum(one.cause in ("proposal", "clamped") for one in self.told)

    @property
    def actuator(self) -> int:
        return int(self.runtime.lock("actuate@wheels").read_text())


def runtime_folder(folder: Path) -> RuntimeFolder:
    return RuntimeFolder(Daemon(name="chain", runtime=f"{folder}/run", state=f"{folder}/state"))


@pytest.fixture
def trace(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    return trace_pins(run_folder, monkeypatch)


@contextmanager
def daemon(folder: Path, trace: Trace) -> Iterator[tuple[subprocess.Popen[bytes], Run]]:
    config = folder / "chain.toml"
    config.write_text(CONFIG.replace("FOLDER", str(folder)))
    command = [str(Path(sys.executable).with_name("reflexd")), "run", str(config), "--plain"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        with Bus(runtime_folder(folder)) as bus:
            yield process, Run(folder, bus, trace)
    finally:
        process.terminate()
        process.wait(20.0)


def test_the_pins_carry_what_the_policy_decides_and_are_neutral_after_a_kill(run_folder: Path, trace: Trace) -> None:
    with daemon(run_folder, trace) as (process, run):
        run.until(lambda: run.decisions() >= 100, "a hundred decisions")
        wanted = [DUTIES[str(one.action)] for one in run.told]
        carried = trace.outputs(PIN)
        steps = [duty for duty, _ in groupby(wanted)]
        assert_ends_with(carried, steps)
        print(f"{len(wanted)} writes, {len(steps)} changes, duties {sorted(set(wanted))}")

        run.until(lambda: trace.now(PIN) != 0.0, "a moving pin")
        struck = time.monotonic_ns()
        os.kill(run.actuator, signal.SIGKILL)
        run.until(lambda: neutral_since(trace, struck) is not None, "neutral")
        print(f"neutral {((neutral_since(trace, struck) or 0) - struck) / 1e6:.0f} ms after kill -9")
        before = run.decisions()
        run.until(lambda: run.decisions() > before + 10, "decisions after the kill")
        process.terminate()
        assert process.wait(20.0) == 0
    assert (trace.now(PIN), trace.now(17)) == (0.0, 0.0)


def assert_ends_with(carried: list[float], steps: list[float]) -> None:
    """The pin may be a few writes ahead of what was heard; none may be missing in between."""
    for ahead in range(len(carried)):
        if carried[len(carried) - ahead - len(steps) : len(carried) - ahead] == steps:
            return
    pytest.fail(f"the pin carried {carried}, the actuator was told {steps}")


def neutral_since(trace: Trace, since_ns: int) -> int | None:
    """When a new process had the pin as an output, which must be at neutral."""
    found = [event for event in trace.events(PIN) if event.t_ns > since_ns and event.function == "output"]
    assert not found or found[0].state == 0.0
    return found[0].t_ns if found else None
