"""Arbiter, valve, writer and latch together, with a driver and a disk that fail when told to. No process."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from daemon.actuate import control
from daemon.actuate.control import Control
from daemon.actuate.drivers import DriverError
from daemon.actuate.latch import Latch
from daemon.actuate.writer import Writer
from daemon.messages import ActionProposal, Applied, Command, Operation, Refused
from tests.actuate.setups import CONTINUOUS, DISCRETE, HIGH, LOW, MS, NOW, drive, proposal


class FakeDriver:
    """Remembers what it was told; fails the next ``failing`` writes."""

    def __init__(self) -> None:
        self.complaint, self.lost, self.failing = "", 0, 0
        self.orders: list[Applied] = []
        self.error: OSError = DriverError("bus error 121")

    def open(self) -> None:
        pass

    def write(self, order: Applied) -> None:
        if self.failing:
            self.failing -= 1
            raise self.error
        self.orders.append(order)

    def close(self) -> None:
        pass


class Rig:
    """A Control on a fake driver, armed."""

    def __init__(self, folder: Path, limits: Any = DISCRETE) -> None:
        self.driver = FakeDriver()
        self.writer = Writer(self.driver)
        self.writer.write("start", limits.neutral)
        self.latch = folder / "paddle.estop"
        self.published: list[Applied | Refused] = []
        self.control = Control(limits, self.writer, Latch(self.latch), self.published.append, NOW)
        self.control.arm()
        self.now_ns = NOW + 1000 * MS

    def propose(self, *proposals: ActionProposal, after_ms: int = 50) -> None:
        """Propose with observations of just now, ``after_ms`` after the last time."""
        self.now_ns += after_ms * MS
        fresh = [replace(one, sensor_ns=self.now_ns - MS + i) for i, one in enumerate(proposals)]
        self.control.propose(fresh, self.now_ns)

    def operate(self, operation: Operation, who: str = "a test") -> str:
        command = Command(id="command-1", epoch=1, expires_ns=1, operation=operation, who=who)
        outcome = self.control.operate(command, self.now_ns)
        return f"{outcome.status}: {outcome.detail}"

    @property
    def told(self) -> list[tuple[str, str | None]]:
        return [(order.cause, order.action) for order in self.driver.orders]

    @property
    def reasons(self) -> list[tuple[str, str]]:
        return [(one.agent, one.reason) for one in self.published if isinstance(one, Refused)]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_applied_carries_the_observation_and_the_time_after_the_write(rig: Rig) -> None:
    rig.propose(proposal(frame_seq=9, forward_ns=7))
    [applied] = rig.published
    assert isinstance(applied, Applied)
    assert (applied.seq, applied.cause, applied.agent, applied.action) == (2, "proposal", LOW, "JUMP")
    assert (applied.sensor_ns, applied.frame_seq, applied.forward_ns) == (rig.now_ns - MS, 9, 7)
    assert applied.applied_ns > rig.driver.orders[-1].applied_ns
    assert rig.control.counts == {LOW: {"applied": 1, "clamped": 0}, HIGH: {"applied": 0, "clamped": 0}}
    assert rig.control.dropped == {}


def test_clamped_is_counted_and_said(tmp_path: Path) -> None:
    rig = Rig(tmp_path, CONTINUOUS)
    rig.propose(drive(throttle=9.0))
    assert rig.driver.orders[-1].values == [0.125, 1.0]
    assert rig.driver.orders[-1].cause == "clamped"
    assert rig.control.counts[LOW] == {"applied": 0, "clamped": 1}


def test_one_of_several_moves_and_the_others_are_told(rig: Rig) -> None:
    rig.propose(proposal(frame_seq=1), proposal(agent=HIGH, action="LEFT"), proposal(agent="x"), proposal(frame_seq=2))
    assert rig.told == [("start", "NOOP"), ("proposal", "LEFT")]
    assert sorted(rig.reasons) == [("low", "outranked"), ("low", "superseded"), ("x", "foreign")]
    assert rig.control.dropped == {LOW: {"superseded": 1, "outranked": 1}, control.UNKNOWN: {"foreign": 1}}


def test_foreign_names_do_not_fill_the_memory(rig: Rig) -> None:
    rig.propose(*(proposal(agent=f"agent-{i}") for i in range(500)))
    assert rig.control.dropped == {control.UNKNOWN: {"foreign": 500}}


def test_rules_of_motion_are_asked_of_the_winner_only(rig: Rig) -> None:
    rig.propose(proposal(action="LEFT"))
    rig.propose(proposal(action="NOOP"), proposal(agent=HIGH, action="RIGHT"))
    assert rig.reasons == [(HIGH, "transition"), (LOW, "outranked")]


def test_deadman_writes_neutral_once_and_disarms(rig: Rig) -> None:
    rig.propose(proposal())
    assert rig.control.due_ns() == rig.now_ns + 250 * MS
    rig.control.watch(rig.now_ns + 250 * MS - 1)
    assert rig.told[-1] == ("proposal", "JUMP")
    rig.control.watch(rig.now_ns + 250 * MS)
    rig.control.watch(rig.now_ns + 900 * MS)
    assert rig.told == [("start", "NOOP"), ("proposal", "JUMP"), ("deadman", "NOOP")]
    assert rig.control.due_ns() is None
    rig.propose(proposal(), after_ms=1000)
    assert rig.reasons == [(LOW, "disarmed")]


def test_a_new_claim_is_needed_after_a_deadman(tmp_path: Path) -> None:
    patient = replace(DISCRETE, hold_ns=10_000 * MS, disarm_after_deadman=False)
    rig = Rig(tmp_path, patient)
    rig.propose(proposal(agent=HIGH))
    rig.propose(proposal())
    assert rig.reasons == [(LOW, "outranked")]
    rig.control.watch(rig.now_ns + 250 * MS)
    rig.propose(proposal(), after_ms=300)
    assert rig.driver.orders[-1].agent == LOW


@pytest.mark.parametrize("error", [DriverError("no"), OSError(errno.ETIMEDOUT, "timed out"), OSError(121, "remote")])
def test_a_failing_write_is_a_drop_and_neutral_follows(rig: Rig, error: OSError) -> None:
    rig.driver.error, rig.driver.failing = error, 1
    rig.propose(proposal())
    assert rig.told == [("start", "NOOP"), ("driver", "NOOP")]
    assert rig.control.dropped == {LOW: {"driver": 1}}
    assert rig.control.counts[LOW] == {"applied": 0, "clamped": 0}
    assert rig.control.due_ns() is None, "neutral, and no dead-man runs"
    rig.propose(proposal())
    assert rig.told[-1] == ("proposal", "JUMP"), "the observation was not acted on, so it may be again"


def test_neutral_is_tried_until_the_driver_takes_it(rig: Rig) -> None:
    rig.propose(proposal())
    rig.driver.failing = 3
    rig.control.watch(rig.now_ns + 250 * MS)
    assert "bus error 121" in rig.control.describe(rig.now_ns)
    for _ in range(3):
        due_ns = rig.control.due_ns()
        assert due_ns is not None
        rig.control.watch(due_ns - 1)
        rig.control.watch(due_ns)
    assert rig.told[2:] == [("driver", "NOOP")]
    assert rig.control.due_ns() is None
    assert rig.control.dropped == {control.DRIVER: {"driver": 3}}
    assert "bus error" not in rig.control.describe(rig.now_ns)


def test_a_start_that_could_not_write_neutral_goes_on_trying(tmp_path: Path) -> None:
    driver = FakeDriver()
    driver.failing = 1
    writer = Writer(driver)
    assert writer.write("start", DISCRETE.neutral) is None
    late = Control(DISCRETE, writer, Latch(tmp_path / "latch"), lambda _: None, NOW)
    assert late.due_ns() == NOW
    late.watch(NOW)
    assert [order.cause for order in driver.orders] == ["driver"]


def test_finish_tries_more_than_once_and_then_says_so(rig: Rig) -> None:
    rig.driver.failing = control.STOP_TRIES - 1
    assert rig.control.finish(rig.now_ns)
    assert rig.told[-1] == ("stop", "NOOP")
    rig.driver.failing = control.STOP_TRIES
    assert not rig.control.finish(rig.now_ns)


# --- commands ----------------------------------------------------------------------------------------------


def test_estop_is_neutral_first_then_on_disk_then_answered(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.propose(proposal())
    order: list[str] = []
    latch_set = Latch.set

    def watched(latch: Latch, why: str) -> None:
        order.append(rig.told[-1][0])
        latch_set(latch, why)

    monkeypatch.setattr(Latch, "set", watched)
    assert rig.operate("estop", "someone\nin a hurry") == "done: stopped; neutral; latched on disk"
    assert order == ["estop"]
    assert rig.latch.read_text() == "by someone?in a hurry\n"
    rig.propose(proposal())
    assert rig.reasons == [(LOW, "estop")]


def test_estop_holds_without_a_disk(rig: Rig) -> None:
    rig.latch.mkdir()
    answer = rig.operate("estop")
    assert answer.startswith("partial: stopped; neutral; latched in memory, NOT on disk (")
    assert "Is a directory): a restart would forget it" in answer
    rig.propose(proposal())
    assert rig.reasons == [(LOW, "estop")]
    assert rig.operate("arm").startswith("refused: the e-stop is latched: by a test")
    assert rig.operate("clear").startswith("refused: still latched: ")
    rig.latch.rmdir()
    assert rig.operate("estop", "another") == "done: stopped; neutral; latched on disk"
    assert rig.latch.read_text() == "by a test\n", "the first reason is kept"


def test_estop_says_when_neutral_was_not_written(rig: Rig) -> None:
    rig.driver.failing = 1
    assert rig.operate("estop", "") == (
        "done: stopped; neutral NOT written, trying again (driver: bus error 121); latched on disk"
    )
    assert rig.latch.read_text() == "by somebody\n"


def test_clear_and_arm_are_two_steps(rig: Rig) -> None:
    rig.operate("estop")
    assert rig.operate("clear") == "done: cleared; disarmed until the arm command"
    assert not rig.latch.exists()
    rig.propose(proposal())
    assert rig.reasons == [(LOW, "disarmed")]
    assert rig.operate("arm") == "done: armed: the next good proposal moves the actuator"
    rig.propose(proposal())
    assert rig.told[-1] == ("proposal", "JUMP")
    assert rig.operate("clear") == "done: nothing was latched"
    assert rig.control.state.live, "and nothing was changed"


def test_disarm_is_neutral_at_once(rig: Rig) -> None:
    rig.propose(proposal())
    assert rig.operate("disarm") == "done: disarmed; neutral"
    assert rig.told[-1] == ("disarm", "NOOP")
    assert rig.operate("status") == "done: 1 applied, 0 refused since start"


def test_a_latch_from_before_keeps_it_disarmed(tmp_path: Path) -> None:
    (tmp_path / "paddle.estop").write_bytes(b"\0\0")
    rig = Rig(tmp_path)
    assert not rig.control.state.armed
    assert "2 bytes that are not its text" in rig.control.describe(NOW)
