"""A policy learned from a real drive turns a servo: camera pictures in, pulses out, with every process real.

The pins are gpiozero's mock pins, which write down their history; all else is what runs on a car.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from daemon.messages import Applied
from daemon.plan import load
from daemon.sources import Frames, Picamera2
from models.drive import policy, tub
from models.drive.policy import HISTORY, PADDING_TOKEN
from tests.actuate.pins import Event, Trace, trace_pins
from tests.system import drive
from tests.system.drive import DRIVE, NEEDS_DRIVE, PIN, Replay, replay
from tests.system.game import ROOT, processes_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * drive.MODEL_TIME_S), NEEDS_DRIVE]

ACTIONS = ["L7", "L6", "L5", "L4", "L3", "L2", "L1", "STRAIGHT", "R1", "R2", "R3", "R4", "R5", "R6", "R7"]
DEGREES = [-30.0, -25.7, -21.4, -17.1, -12.9, -8.6, -4.3, 0.0, 4.3, 8.6, 12.9, 17.1, 21.4, 25.7, 30.0]
PULSES_US = {action: 1500.0 + 500.0 * angle / 90.0 for action, angle in zip(ACTIONS, DEGREES, strict=True)}
PULSES_PER_S = 50.0
STRAIGHT_US, NO_PULSES = 1500.0, 0.0
DEADMAN_NS = 250_000_000
SLACK_NS = 150_000_000
"""What a busy machine with two cores adds."""
EARLY_NS = 25_000_000
"""The pin moves so much before the write is stamped, at most."""
DECISIONS = 240


@pytest.fixture
def trace(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    drive.model()  # learned before its pins are traced
    return trace_pins(run_folder, monkeypatch)


def pulse_us(event: Event) -> float:
    """The pulse a pin carries, microseconds; 0 is none."""
    return round(event.state * 1e6 / PULSES_PER_S, 3)


def pulses_us(trace: Trace) -> list[float]:
    """The pulses the pin carried, microseconds, each once until another came; 0 is none."""
    events = [event for event in trace.events(PIN) if event.function == "output"]
    return [pulse for pulse, _ in groupby(map(pulse_us, events))]


def wanted_us(told: list[Applied]) -> list[float]:
    """The pulses for what was applied, each once until another comes."""
    return [pulse for pulse, _ in groupby(round(PULSES_US[str(one.action)], 3) for one in told)]


def is_neutral(event: Event) -> bool:
    """Straight ahead, or without pulses, which lets a servo go limp."""
    return pulse_us(event) in (STRAIGHT_US, NO_PULSES)


def test_the_servo_does_what_the_policy_decides_on_each_picture(run_folder: Path, trace: Trace) -> None:
    with replay(run_folder, trace) as run:
        run.wait_for_decisions(DECISIONS)
        told = list(run.told)
        assert run.stop() == 0
    assert_decided_by_the_policy(run, told)
    carried, wanted = pulses_us(trace), wanted_us(told)
    assert len(set(wanted)) >= 8, "a drive with hardly any steering shows nothing"
    assert carried[:2] == [NO_PULSES, STRAIGHT_US], "straight ahead comes first"
    assert holds(carried, wanted), f"applied {wanted}, carried {carried}"
    assert carried[-2:] == [STRAIGHT_US, NO_PULSES], "straight ahead, then no pulses, at the end"
    print(f"{len(told)} writes, {len(wanted)} changes of the pulse, {min(wanted):.0f} to {max(wanted):.0f} us")


def holds(carried: list[float], wanted: list[float]) -> bool:
    """``wanted`` is a part of ``carried``, with nothing in between: no step is missing and none came from elsewhere."""
    return any(carried[start : start + len(wanted)] == wanted for start in range(len(carried)))


def assert_decided_by_the_policy(run: Replay, told: list[Applied]) -> None:
    """The eager policy, given the tub's own pictures and what was executed, decides the same."""
    recorded = tub.read(drive.tub())
    eager = policy.load(drive.model() / "weights.pt")
    first = number_of_first(run, recorded)
    decided = [one for one in told if one.cause == "proposal"]
    others: list[str] = []
    bins_off: list[int] = []
    for at in range(HISTORY, len(decided)):
        seen = decided[at - HISTORY + 1 : at + 1]
        if any(after.frame_seq != before.frame_seq + 1 for before, after in pairwise(seen)):
            continue  # of a picture passed over on a busy machine nothing says whether it was decided on
        history = [in_force(told, one.sensor_ns) for one in seen]
        record = (decided[at].frame_seq - first) % len(recorded.tokens)
        with torch.no_grad():
            logits = eager(torch.from_numpy(recorded.frames[record : record + 1].copy()), torch.tensor([history]))
        token = int(logits.argmax())
        if ACTIONS[token] != decided[at].action:
            others.append(f"picture {record}, history {history}: {ACTIONS[token]}, applied was {decided[at].action}")
        bins_off.append(abs(token - int(recorded.tokens[record])))
    print(f"{len(bins_off)} of {len(decided)} decisions compared, {len(others)} differ; ", end="")
    print(f"{np.mean(bins_off):.2f} bins off the person's on average")
    assert len(bins_off) > len(decided) / 2
    # What is applied just before a picture may reach the policy's history just too late.
    assert len(others) <= 0.01 * len(bins_off), others
    assert np.mean(bins_off) < 2.0


def in_force(told: list[Applied], at_ns: int) -> int:
    """Token of what had last been applied at a moment."""
    before = [one for one in told if one.applied_ns <= at_ns]
    return ACTIONS.index(str(before[-1].action)) if before else PADDING_TOKEN


def number_of_first(run: Replay, recorded: tub.Drive) -> int:
    """The number, in the ring, of the tub's first picture; all pictures seen in the ring are the tub's, in order."""
    places = {frame.tobytes(): index for index, frame in enumerate(recorded.frames)}
    assert len(run.pictures) >= DECISIONS // 2
    assert len(places) > 0.95 * len(recorded.frames)
    seq, data = next(iter(run.pictures.items()))
    first = seq - places[data]
    for seq, data in run.pictures.items():
        assert recorded.frames[(seq - first) % len(recorded.frames)].tobytes() == data, f"picture {seq}"
    return first


def strike(run: Replay, process: str, number: signal.Signals) -> int:
    """Send a signal while the servo is turned to a side; when, CLOCK_MONOTONIC ns."""
    run.wait_for_decisions(10)
    pid = run.pid(process)
    run.until(lambda: not is_neutral(last_event(run.trace)), "a servo that is turned")
    os.kill(pid, number)
    return time.monotonic_ns()


def last_event(trace: Trace) -> Event:
    return [event for event in trace.events(PIN) if event.function == "output"][-1]


def assert_neutral_without_decisions(run: Replay, since_ns: int) -> float:
    """Wherever decisions stayed away, the pin was neutral within the dead-man time; the longest pause, s."""
    longest_ns = 0
    events = [event for event in run.trace.events(PIN) if event.function == "output"]
    for before, after in pairwise([one.applied_ns for one in run.decisions()]):
        if after <= since_ns:
            continue
        longest_ns = max(longest_ns, after - before)
        due = before + DEADMAN_NS + SLACK_NS
        if after > due:
            assert is_neutral([event for event in events if event.t_ns <= due][-1])
            assert all(is_neutral(event) for event in events if due < event.t_ns < after - EARLY_NS)
    return longest_ns / 1e9


def test_the_servo_stands_straight_while_the_camera_stalls(run_folder: Path, trace: Trace) -> None:
    with replay(run_folder, trace) as run:
        struck = strike(run, "capture@front", signal.SIGSTOP)
        run.wait_for_decisions(20)
        assert run.stop() == 0
    pause = assert_neutral_without_decisions(run, struck)
    assert pause > 1.0, "a stopped process is noticed only after some seconds"
    print(f"no pictures for {pause:.2f} s, straight ahead meanwhile")


@pytest.mark.parametrize("process", ["capture@front", "infer"])
def test_the_servo_goes_straight_when_a_process_is_killed(run_folder: Path, trace: Trace, process: str) -> None:
    """The supervisor is held up meanwhile: it would have replaced the process by the time the dead-man strikes."""
    with replay(run_folder, trace) as run:
        run.wait_for_decisions(10)
        os.kill(run.pid("run"), signal.SIGSTOP)
        struck = strike(run, process, signal.SIGKILL)
        run.until(lambda: is_neutral(last_event(trace)), "straight ahead", within_s=5.0)
        took_ns = last_event(trace).t_ns - run.decisions()[-1].applied_ns
        assert took_ns <= DEADMAN_NS + SLACK_NS
        os.kill(run.pid("run"), signal.SIGCONT)
        run.wait_for_decisions(20)
        assert run.stop() == 0
    pause = assert_neutral_without_decisions(run, struck)
    print(f"{process}: straight ahead {took_ns / 1e6:.0f} ms after the last decision, for {pause:.2f} s")


def test_nothing_but_the_policy_turns_the_servo_when_processes_are_killed(run_folder: Path, trace: Trace) -> None:
    with replay(run_folder, trace) as run:
        for process in ("capture@front", "infer", "worker0"):
            struck = strike(run, process, signal.SIGKILL)
            run.wait_for_decisions(20)
            pause = assert_neutral_without_decisions(run, struck)
            print(f"{process}: {pause:.2f} s without decisions")
        told = list(run.told)
        assert run.stop() == 0
    assert holds(pulses_us(trace), wanted_us(told))
    assert carries_nothing(trace)


def test_the_servo_goes_straight_first_of_all_after_its_actuator_was_killed(run_folder: Path, trace: Trace) -> None:
    with replay(run_folder, trace) as run:
        struck = strike(run, "actuate@steering", signal.SIGKILL)
        run.wait_for_decisions(20)
        assert run.stop() == 0
    after = [event for event in trace.events(PIN) if event.function == "output" and event.t_ns > struck]
    pulses = [pulse_us(event) for event in after]
    turned = pulses.index(next(pulse for pulse in pulses if pulse not in (NO_PULSES, STRAIGHT_US)))
    assert STRAIGHT_US in pulses[:turned]
    print(f"straight ahead {(after[pulses.index(STRAIGHT_US)].t_ns - struck) / 1e6:.0f} ms after kill -9")


def test_the_servo_goes_straight_when_the_supervisor_is_killed(run_folder: Path, trace: Trace) -> None:
    with replay(run_folder, trace) as run:
        struck = strike(run, "run", signal.SIGKILL)
        run.process.wait(5.0)
        run.until(lambda: carries_nothing(trace), "a servo that is straight ahead and let go", within_s=10.0)
        ended = last_event(trace).t_ns
        run.until(lambda: not processes_of(run_folder), "end of all processes", within_s=20.0)
    print(f"straight ahead {(ended - struck) / 1e6:.0f} ms after kill -9 of the supervisor")


def carries_nothing(trace: Trace) -> bool:
    """Straight ahead was the last pulse, and none came after it."""
    return pulses_us(trace)[-2:] == [STRAIGHT_US, NO_PULSES]


def test_the_page_s_own_run(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drive.model()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run_folder))
    monkeypatch.setenv("XDG_STATE_HOME", str(run_folder / "state"))
    command = drive.page_commands("Try it without a car")[-1]
    done = subprocess.run(
        ["bash", "-c", f"{command} --plain --for 12"], cwd=ROOT, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "steering: left at STRAIGHT" in done.stderr


@pytest.mark.parametrize("source", ["frames", "picamera2"])
def test_the_shipped_configuration_fits_the_model(tmp_path: Path, source: str) -> None:
    """As on a car, the servo on hardware PWM; also with the camera that it has in comments."""
    shutil.copytree(drive.model() / "package", tmp_path / "package")
    (tmp_path / "tub").symlink_to(drive.tub())
    text = (DRIVE / "drive.toml").read_text()
    if source == "picamera2":
        replayed, camera = re.findall(r"(?:^(?:# )?(?:\[sources.front\]|\w+ = .*)\n)+", text, re.MULTILINE)[1:3]
        text = text.replace(replayed, camera.replace("# ", ""))
    (tmp_path / "drive.toml").write_text(text)
    plan = load(tmp_path / "drive.toml")
    assert isinstance(plan.config.sources["front"], Frames if source == "frames" else Picamera2)
    assert plan.config.actuators["steering"].actions == ACTIONS == plan.manifests["driver"].actions
