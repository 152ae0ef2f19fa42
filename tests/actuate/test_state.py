"""Transitions of the valve's state, and the dead-man to the nanosecond."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from daemon.actuate import state
from daemon.actuate.limits import Setting
from daemon.actuate.state import State
from daemon.actuate.verdict import Passed
from tests.actuate.setups import DISCRETE, LOW, MS, NOW, armed, proposal

JUMP = Setting("JUMP", ())
NOOP = Setting("NOOP", ())


def jumping(at_ns: int = NOW) -> State:
    return state.applied(armed(DISCRETE), Passed(proposal(), JUMP, False), at_ns)


def test_begins_neutral_and_disarmed() -> None:
    first = state.initial(DISCRETE, NOW, None)
    assert (first.armed, first.estop, first.in_force, first.live) == (False, None, NOOP, False)
    assert first.written_ns == first.since_ns == NOW


def test_arming_needs_a_clear_latch() -> None:
    assert state.arm(state.initial(DISCRETE, 0, None)).armed
    latched = state.initial(DISCRETE, 0, "by a test")
    assert not state.arm(latched).armed
    cleared = state.clear(latched)
    assert (cleared.estop, cleared.armed) == (None, False), "clearing does not arm"


def test_applied_remembers_what_and_when() -> None:
    after = jumping()
    assert (after.in_force, after.since_ns, after.written_ns, after.cause) == (JUMP, NOW, NOW, "proposal")
    assert after.observed == {LOW: proposal().sensor_ns}
    again = state.applied(after, Passed(proposal(), JUMP, True), NOW + 1)
    assert (again.since_ns, again.written_ns, again.cause, again.live) == (NOW, NOW + 1, "clamped", True)


@pytest.mark.parametrize("late_ns", [-1, 0, 1])
def test_deadman_is_due_after_its_time_and_acts_once(late_ns: int) -> None:
    now_ns = NOW + DISCRETE.deadman_ns + late_ns
    assert state.deadman_due_ns(DISCRETE, jumping()) == NOW + 250 * MS
    after = state.deadman(DISCRETE, jumping(), now_ns)
    if late_ns < 0:
        assert after is None
        return
    assert after is not None
    assert (after.in_force, after.cause, after.armed, after.since_ns) == (NOOP, "deadman", False, now_ns)
    assert state.deadman(DISCRETE, after, now_ns + 10**12) is None
    assert state.deadman_due_ns(DISCRETE, after) is None


def test_deadman_may_stay_armed() -> None:
    lenient = replace(DISCRETE, disarm_after_deadman=False)
    after = state.deadman(lenient, jumping(), NOW + 250 * MS)
    assert after is not None
    assert after.armed


def test_deadman_watches_a_proposed_neutral_too() -> None:
    idle = state.applied(armed(DISCRETE), Passed(proposal(), NOOP, False), NOW)
    assert state.deadman(DISCRETE, idle, NOW + 250 * MS) is not None


def test_deadman_does_not_run_before_the_first_action() -> None:
    assert state.deadman(DISCRETE, armed(DISCRETE), NOW) is None


def test_stop_and_disarm() -> None:
    stopped = state.stop(DISCRETE, jumping(), "by a", NOW + 1)
    assert (stopped.armed, stopped.estop, stopped.in_force, stopped.cause) == (False, "by a", NOOP, "estop")
    assert state.stop(DISCRETE, stopped, "by b", NOW + 2).estop == "by a", "the first reason is kept"
    unarmed = state.disarm(DISCRETE, jumping(), NOW + 1)
    assert (unarmed.armed, unarmed.in_force, unarmed.cause) == (False, NOOP, "disarm")
    assert unarmed.observed == jumping().observed, "what was acted on stays acted on"


def test_description_for_people() -> None:
    later = NOW + 120 * MS
    assert state.describe(jumping(), later) == "armed, JUMP in force 120 ms"
    stopped = state.stop(DISCRETE, jumping(), "by a", NOW)
    assert (
        state.describe(stopped, later)
        == "e-stop latched: by a (to go on: reflexd clear, then reflexd arm); NOOP in force 120 ms"
    )
    assert state.describe(armed(DISCRETE, NOW), later) == "armed, waiting for a proposal; NOOP in force 120 ms (start)"
    unarmed = state.disarm(DISCRETE, jumping(), NOW)
    assert state.describe(unarmed, later) == "disarmed (to go on: reflexd arm); NOOP in force 120 ms (disarm)"
    for lasting, words in ((9_999_999_999, "9999 ms"), (10_000_000_000, "10 s"), (3_599_999_999_999, "3599 s")):
        assert state.describe(jumping(), NOW + lasting) == f"armed, JUMP in force {words}"
    assert str(Setting(None, (0.5, -1.0))) == "[0.5, -1]"
