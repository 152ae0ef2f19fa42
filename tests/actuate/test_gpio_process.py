"""Pins under the real process: they follow proposals, and are neutral at start, stop, stall, and after kill -9."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from daemon.actuate import neutral
from daemon.bus import Bus
from daemon.cli import main
from daemon.commander import command
from daemon.messages import Operation
from tests.actuate import gpio_process
from tests.actuate.pins import FakeSysfs, Trace, make_gpio_setup, trace_pins
from tests.actuate.running import START_S, Peer, Setup, end, make_setup, running, start

RELAY, MOTOR, SERVO = 17, 22, 18
OUTPUTS = (
    {"kind": "digital", "pin": RELAY, "actions": {"NOOP": False, "LEFT": True, "RIGHT": True, "JUMP": False}},
    {"kind": "pwm", "pin": MOTOR, "actions": {"NOOP": 0.0, "LEFT": 0.25, "RIGHT": 0.5, "JUMP": 1.0}},
)
STEERING = {"kind": "servo", "pin": SERVO, "actions": {"NOOP": 0.0, "LEFT": -45.0, "RIGHT": 45.0, "JUMP": 90.0}}
DEADMAN_MS = 250.0
SLACK_MS = 250.0
"""Allowed on top of a declared time on a busy test machine."""
ON_FILES = "tests.actuate.gpio_process"


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    return trace_pins(tmp_path, monkeypatch)


def gpio_setup(folder: Path, **keys: object) -> Setup:
    defaults: dict[str, object] = {"arm_on_start": True, "after_deadman": "resume", "deadman_ms": DEADMAN_MS}
    return make_gpio_setup(folder, *OUTPUTS, **{**defaults, **keys})


def move(peer: Peer, action: str) -> None:
    """Propose until the action is applied."""

    def applied() -> bool:
        peer.propose(action, "high")
        return bool(peer.applied) and peer.applied[-1].action == action

    peer.wait(applied, f"applied {action}")


def eventually(condition: Callable[[], bool], what: str, within_s: float = START_S) -> None:
    until = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until, f"no {what} within {within_s} s"
        time.sleep(0.005)


# --- levels and software pulses ----------------------------------------------------------------------------


def test_pins_follow_the_proposals_and_are_neutral_at_both_ends(tmp_path: Path, trace: Trace) -> None:
    with running(gpio_setup(tmp_path, deadman_ms=2000.0)) as (process, peer):
        assert trace.outputs(RELAY)[0] == 0.0
        assert trace.outputs(MOTOR)[0] == 0.0
        for action in ("LEFT", "RIGHT", "JUMP"):
            move(peer, action)
        process.send_signal(signal.SIGTERM)
        assert process.wait(5.0) == 0
    assert trace.outputs(RELAY) == [0.0, 1.0, 0.0]
    assert [duty for duty in trace.outputs(MOTOR) if duty] == [0.25, 0.5, 1.0]
    assert trace.outputs(MOTOR)[-1] == 0.0


def test_every_applied_action_is_what_the_pin_carries(tmp_path: Path, trace: Trace) -> None:
    duties = OUTPUTS[1]["actions"]
    assert isinstance(duties, dict)
    with running(gpio_setup(tmp_path, deadman_ms=2000.0)) as (_, peer):
        for action in ("LEFT", "JUMP", "RIGHT", "LEFT", "NOOP", "RIGHT"):
            move(peer, action)
            applied = peer.applied[-1]
            before = [event for event in trace.events(MOTOR) if event.t_ns <= applied.applied_ns]
            assert before[-1].state == duties[action]


def test_neutral_within_the_deadman_when_proposals_stay_away(tmp_path: Path, trace: Trace) -> None:
    with running(gpio_setup(tmp_path)) as (_, peer):
        move(peer, "LEFT")
        applied_ns = peer.applied[-1].applied_ns
        eventually(lambda: (trace.now(RELAY), trace.now(MOTOR)) == (0.0, 0.0), "neutral")
        released = trace.events(RELAY)[-1]
        assert (released.t_ns - applied_ns) / 1e6 < DEADMAN_MS + SLACK_MS


def test_neutral_first_of_all_when_the_process_was_stopped(tmp_path: Path, trace: Trace) -> None:
    with running(gpio_setup(tmp_path, deadman_ms=1000.0)) as (process, peer):
        move(peer, "LEFT")
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.2)
        assert trace.now(RELAY) == 1.0, "nothing in a stopped process can let go"
        process.send_signal(signal.SIGCONT)
        eventually(lambda: trace.now(RELAY) == 0.0, "neutral")


def test_killed_it_leaves_the_pins_and_begins_neutral_again(tmp_path: Path, trace: Trace) -> None:
    setup = gpio_setup(tmp_path, deadman_ms=2000.0)
    with running(setup) as (process, peer):
        move(peer, "RIGHT")
        process.kill()
        process.wait()
        assert (trace.now(RELAY), trace.now(MOTOR)) == (1.0, 0.5)
    before = len(trace.events(RELAY))
    process = start(setup)
    try:
        eventually(lambda: (trace.now(RELAY), trace.now(MOTOR)) == (0.0, 0.0), "neutral")
        assert {event.state for event in trace.events(RELAY)[before:]} == {0.0}
    finally:
        end(process)


def test_a_servo_in_software_warns_at_start_and_in_the_status(tmp_path: Path, trace: Trace) -> None:
    setup = make_gpio_setup(tmp_path, {**STEERING, "software_pwm": True}, arm_on_start=True)
    process = start(setup)
    with Bus(setup.runtime) as bus:
        peer = Peer(setup, bus)
        peer.link()
        move(peer, "LEFT")
        assert peer.health is not None
        assert "pin 18: servo pulsed in software (software_pwm): it twitches and wears" in peer.health.detail
        assert [event.frequency for event in trace.events(SERVO)][-1] == 50.0
        assert trace.now(SERVO) == pytest.approx(0.0625)
    log = end(process)
    assert "WARNING actuate@paddle: pin 18: servo pulsed in software" in log
    assert trace.now(SERVO) == 0.0, "no pulses any more"


# --- a servo on the PWM block ------------------------------------------------------------------------------


class Servo:
    """The file whose content a servo would follow, of a channel that was exported by an earlier process."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        sysfs = FakeSysfs(folder, pwmchip0="1f0009c000.pwm", pwmchip2="1f00098000.pwm")
        self.channel = sysfs.export("pwmchip2", 2, period=20_000_000, duty_cycle=2_000_000, enable=1)
        patch.setenv("REFLEXD_TEST_SYSFS", str(sysfs.path))
        patch.setattr(neutral, "make_driver", gpio_process.make_driver)

    @property
    def pulse_us(self) -> float:
        text = (self.channel / "duty_cycle").read_text().strip()
        return int(text) / 1e3 if text else self.pulse_us  # between truncation and writing, which sysfs does not have


@pytest.fixture
def servo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Servo:
    return Servo(tmp_path, monkeypatch)


def servo_setup(folder: Path, **keys: object) -> Setup:
    defaults: dict[str, object] = {"arm_on_start": True, "after_deadman": "resume", "deadman_ms": DEADMAN_MS}
    return make_gpio_setup(folder, STEERING, **{**defaults, **keys})


def test_a_servo_follows_and_is_neutral_at_start_stall_and_stop(tmp_path: Path, servo: Servo) -> None:
    assert servo.pulse_us == 2000.0
    with running(servo_setup(tmp_path, deadman_ms=1000.0), program=ON_FILES) as (process, peer):
        assert servo.pulse_us == 1500.0
        for action, pulse_us in (("LEFT", 1250.0), ("RIGHT", 1750.0), ("JUMP", 2000.0)):
            move(peer, action)
            assert servo.pulse_us == pulse_us
        eventually(lambda: servo.pulse_us == 1500.0, "neutral by the dead-man")
        move(peer, "JUMP")
        process.send_signal(signal.SIGTERM)
        assert process.wait(5.0) == 0
        assert servo.pulse_us == 1500.0
    assert (servo.channel / "enable").read_text().strip() == "1", "it holds neutral when nobody is there any more"


@contextmanager
def killed(setup: Setup, servo: Servo) -> Iterator[None]:
    """A process that was killed while it moved the servo."""
    with running(setup, program=ON_FILES) as (process, peer):
        move(peer, "JUMP")
        process.kill()
        process.wait()
        assert servo.pulse_us == 2000.0, "the block pulses on by itself"
        yield


def test_killed_and_started_again_a_servo_is_neutral(tmp_path: Path, servo: Servo) -> None:
    setup = servo_setup(tmp_path, deadman_ms=2000.0)
    with killed(setup, servo):
        process = start(setup, program=ON_FILES)
        try:
            eventually(lambda: servo.pulse_us == 1500.0, "neutral")
        finally:
            end(process)


def test_killed_for_good_the_guard_writes_neutral(
    tmp_path: Path, servo: Servo, capsys: pytest.CaptureFixture[str]
) -> None:
    setup = servo_setup(tmp_path, deadman_ms=2000.0)
    (tmp_path / "package" / "manifest.json").write_text("no package at all")
    with killed(setup, servo):
        assert main(["neutral", str(setup.config)]) == 0
        assert servo.pulse_us == 1500.0
        assert capsys.readouterr().out == "paddle: NOOP written\n"


# --- the guard ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stopped", [False, True])
def test_the_guard_leaves_an_actuator_alone_whose_process_is_there(
    tmp_path: Path, servo: Servo, capsys: pytest.CaptureFixture[str], stopped: bool
) -> None:
    setup = servo_setup(tmp_path, deadman_ms=2000.0)
    with running(setup, program=ON_FILES) as (process, peer):
        move(peer, "JUMP")
        if stopped:
            process.send_signal(signal.SIGSTOP)
        assert main(["neutral", str(setup.config), "paddle"]) == 1
        assert servo.pulse_us == 2000.0
        text = capsys.readouterr().err
        assert text.startswith(f"reflexd: paddle: NOT neutral: process {process.pid} has the actuator and answers for")
        assert f"kill -9 {process.pid}" in text


def test_the_guard_as_a_command_by_itself(tmp_path: Path, trace: Trace) -> None:
    setup = gpio_setup(tmp_path)
    done = guard(setup, "paddle", "wheel")
    assert done.returncode == 1
    assert done.stdout == "paddle: NOOP written; pins are gpiozero's 'mock' (GPIOZERO_PIN_FACTORY), not lgpio's\n"
    assert done.stderr == "reflexd: wheel: NOT neutral: actuators: expected one named 'wheel', found paddle\n"
    assert (trace.outputs(RELAY), trace.outputs(MOTOR)) == ([0.0], [0.0])


def test_the_guard_says_what_it_could_not_reach(
    tmp_path: Path, servo: Servo, capsys: pytest.CaptureFixture[str]
) -> None:
    (servo.channel / "period").unlink()
    assert main(["neutral", str(servo_setup(tmp_path).config)]) == 1
    text = capsys.readouterr().err
    assert text.startswith("reflexd: paddle: NOT neutral: driver: outputs.0: ")
    assert text.endswith("pwm2/period: No such file or directory: look at the actuator\n")


def test_the_guard_refuses_pins_that_cannot_be(tmp_path: Path, trace: Trace) -> None:
    setup = gpio_setup(tmp_path)
    setup.config.write_text(setup.config.read_text().replace(f"pin = {MOTOR}", f"pin = {RELAY}"))
    done = guard(setup)
    assert done.returncode == 1
    assert "outputs.1.pin = 17: expected a pin of its own" in done.stderr
    process = start(setup)
    assert process.wait(START_S) == 78
    assert "outputs.1.pin = 17: expected a pin of its own" in end(process)
    assert trace.events(RELAY) == []


def guard(setup: Setup, *names: str) -> subprocess.CompletedProcess[str]:
    argv = [str(Path(sys.executable).with_name("reflexd")), "neutral", str(setup.config), *names]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)


def test_other_drivers_have_the_guard_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setup = make_setup(tmp_path)
    assert main(["neutral", str(setup.config)]) == 0
    assert setup.causes() == ["stop"]
    (tmp_path / "other").mkdir()
    assert main(["neutral", str(make_setup(tmp_path / "other", driver="simulated").config)]) == 0
    assert "world field falls back to neutral by itself" in capsys.readouterr().out


def ask(setup: Setup, operation: Operation) -> str:
    return command(setup.runtime, "paddle", operation, 3000).status


def test_an_estop_is_neutral_on_the_pins_when_it_is_answered(tmp_path: Path, trace: Trace) -> None:
    setup = gpio_setup(tmp_path, deadman_ms=2000.0)
    with running(setup) as (_, peer):
        move(peer, "RIGHT")
        assert ask(setup, "estop") == "done"
        assert (trace.now(RELAY), trace.now(MOTOR)) == (0.0, 0.0)
