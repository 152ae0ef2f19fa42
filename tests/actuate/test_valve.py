"""The valve, limit by limit: just inside, at, and just outside each of them, and everything that is not a number."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec.structs import replace

from daemon.actuate import state, valve
from daemon.actuate.limits import Limits, Setting
from daemon.actuate.state import State
from daemon.actuate.verdict import Passed, Refusal
from daemon.messages import ActionProposal
from tests.actuate.setups import CONTINUOUS, DISCRETE, HIGH, LOW, MS, NOW, armed, drive, proposal


def judge(proposed: ActionProposal, limits: Limits = DISCRETE, at: State | None = None, now_ns: int = NOW) -> str:
    """The verdict in one word: the reason, or ``proposal``, or ``clamped``."""
    verdict = valve.judge(limits, armed(limits) if at is None else at, proposed, now_ns)
    return verdict.reason if isinstance(verdict, Refusal) else verdict.cause


def put(limits: Limits, setting: Setting, at_ns: int) -> State:
    """``setting`` of agent ``low`` in force since ``at_ns``."""
    source = proposal(sensor_ns=at_ns - 5 * MS)
    return state.applied(armed(limits), Passed(source, setting, False), at_ns)


def up(value: float) -> float:
    return math.nextafter(value, math.inf)


def down(value: float) -> float:
    return math.nextafter(value, -math.inf)


def test_what_is_right_passes_unchanged() -> None:
    assert valve.judge(DISCRETE, armed(DISCRETE), proposal(), NOW) == Passed(proposal(), Setting("JUMP", ()), False)
    wanted = drive(0.25, 0.5)
    passed = valve.judge(CONTINUOUS, armed(CONTINUOUS), wanted, NOW)
    assert passed == Passed(wanted, Setting(None, (0.25, 0.5)), False)


# --- structure and finite numbers --------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["stranger", "", "LOW", None, 3, b"low", ["low"]])
def test_unknown_agent_is_foreign(agent: Any) -> None:
    assert judge(proposal(agent=agent)) == "foreign"


@pytest.mark.parametrize(
    "changes",
    [
        {"action": None},
        {"action": 3},
        {"action": b"JUMP"},
        {"action": ["JUMP"]},
        {"values": [0.0]},
        {"values": None},
        {"action": None, "values": [1.0]},
        {"sensor_ns": float(NOW)},
        {"sensor_ns": None},
        {"sensor_ns": -1},
        {"sensor_ns": True},
        {"frame_seq": -1},
        {"frame_seq": "1"},
        {"confidence": True},
        {"confidence": 1},
        {"confidence": "0.9"},
        {"confidence": [0.9]},
    ],
)
def test_wrong_structure_is_malformed(changes: dict[str, Any]) -> None:
    assert judge(proposal(**changes)) == "malformed"


@pytest.mark.parametrize(
    "changes",
    [
        {"values": []},
        {"values": [0.1]},
        {"values": [0.1, 0.1, 0.1]},
        {"values": (0.1, 0.1)},
        {"values": "00"},
        {"values": {0.1: 0.1}},
        {"values": [0.1, 1]},
        {"values": [0.1, True]},
        {"values": [0.1, None]},
        {"values": [0.1, "0"]},
        {"values": [0.1, 10**400]},
        {"values": [0.1, [0.1]]},
        {"action": "JUMP"},
        {"action": ""},
        {"action": 0},
    ],
)
def test_wrong_values_are_malformed(changes: dict[str, Any]) -> None:
    assert judge(drive(**changes), CONTINUOUS) == "malformed"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused_everywhere(bad: float) -> None:
    assert judge(drive(steering=bad), CONTINUOUS) == "nonfinite"
    assert judge(drive(throttle=bad), CONTINUOUS) == "nonfinite", "a clamping channel must not clamp it"
    assert judge(drive(confidence=bad), CONTINUOUS) == "nonfinite"
    assert judge(proposal(confidence=bad)) == "nonfinite"


def test_an_action_with_nothing_to_move_is_malformed() -> None:
    nothing = replace(DISCRETE, actions=frozenset())
    assert judge(proposal(), nothing) == "malformed"


# --- power, vocabulary, range ------------------------------------------------------------------------------


def test_estop_comes_before_disarmed_and_both_before_the_vocabulary() -> None:
    resting = state.initial(DISCRETE, 0, None)
    assert judge(proposal(action="FLY"), at=replace(resting, estop="by a test")) == "estop"
    assert judge(proposal(action="FLY"), at=resting) == "disarmed"
    assert judge(proposal(), at=replace(armed(DISCRETE), estop="")) == "estop", "an empty reason is a reason"


def test_structure_comes_before_estop() -> None:
    assert judge(proposal(sensor_ns=-1), at=state.initial(DISCRETE, 0, "x")) == "malformed"


@pytest.mark.parametrize("action", ["FLY", "", "jump", "JUMP ", "JUMP\0", "6", "N" * 64])
def test_action_outside_the_vocabulary_is_refused(action: str) -> None:
    assert judge(proposal(action=action)) == "unknown_action"


@pytest.mark.parametrize(
    ("number", "shown"), [(7, "A5, A6"), (8, "A6, A7"), (9, "A7 and 1 more"), (10, "A7 and 2 more")]
)
def test_the_vocabulary_is_named_but_not_at_any_length(number: int, shown: str) -> None:
    many = replace(DISCRETE, actions=frozenset(f"A{i}" for i in range(number)))
    text = judge_text(proposal(action="FLY"), many)
    assert text.startswith("action 'FLY'; expected one of A0, A1")
    assert text.endswith(shown)


@pytest.mark.parametrize("limit", [-0.5, 0.75])
def test_range_without_clamp_refuses_one_step_outside(limit: float) -> None:
    outside, inside = (down, up) if limit < 0 else (up, down)
    assert judge(drive(limit), _still(CONTINUOUS)) == "proposal"
    assert judge(drive(inside(limit)), _still(CONTINUOUS)) == "proposal"
    assert judge(drive(outside(limit)), _still(CONTINUOUS)) == "range"


@pytest.mark.parametrize(
    ("asked", "given"), [(0.0, 0.0), (down(0.0), 0.0), (-1e300, 0.0), (3.0, 3.0), (up(3.0), 3.0), (1e300, 3.0)]
)
def test_range_with_clamp_brings_back_to_the_limit(asked: float, given: float) -> None:
    limits = _still(CONTINUOUS)
    passed = valve.judge(limits, armed(limits), drive(throttle=asked), NOW)
    assert isinstance(passed, Passed)
    assert passed.setting.values == (0.125, given)
    assert passed.clamped == (asked != given)


# --- confidence, age, replay -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("confidence", "verdict"),
    [
        (down(0.25), "confidence"),
        (0.25, "proposal"),
        (up(0.25), "proposal"),
        (1.0, "proposal"),
        (up(1.0), "confidence"),
        (-0.9, "confidence"),
        (None, "confidence"),
    ],
)
def test_confidence_floor(confidence: float | None, verdict: str) -> None:
    assert judge(proposal(confidence=confidence)) == verdict


@pytest.mark.parametrize(
    ("confidence", "verdict"), [(None, "proposal"), (0.0, "proposal"), (down(0.0), "confidence"), (2.0, "confidence")]
)
def test_without_a_floor_confidence_may_be_absent_but_not_absurd(confidence: float | None, verdict: str) -> None:
    assert judge(proposal(agent=HIGH, confidence=confidence)) == verdict


@pytest.mark.parametrize(
    ("age_ns", "verdict"),
    [
        (100 * MS - 1, "proposal"),
        (100 * MS, "proposal"),
        (100 * MS + 1, "stale"),
        (NOW, "stale"),
        (0, "proposal"),
        (-valve.FUTURE_TOLERANCE_NS, "proposal"),
        (-valve.FUTURE_TOLERANCE_NS - 1, "stale"),
        (-NOW, "stale"),
    ],
)
def test_age_of_the_observation(age_ns: int, verdict: str) -> None:
    assert judge(proposal(sensor_ns=NOW - age_ns)) == verdict


def test_each_agent_has_its_own_age() -> None:
    assert judge(proposal(sensor_ns=NOW - 51 * MS, agent=HIGH)) == "stale"
    assert judge(proposal(sensor_ns=NOW - 51 * MS, agent=LOW)) == "proposal"


@pytest.mark.parametrize(("newer_ns", "verdict"), [(-1, "replayed"), (0, "replayed"), (1, "proposal")])
def test_an_observation_is_acted_on_once(newer_ns: int, verdict: str) -> None:
    before = put(DISCRETE, Setting("JUMP", ()), NOW - 50 * MS)
    again = proposal(sensor_ns=before.observed[LOW] + newer_ns)
    assert judge(again, at=before) == verdict
    assert judge(replace(again, agent=HIGH, sensor_ns=NOW), at=before) == "proposal", "each agent by itself"


# --- motion ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after_ns", "verdict"), [(20 * MS - 1, "rate"), (20 * MS, "proposal"), (20 * MS + 1, "proposal")]
)
def test_rate_limit(after_ns: int, verdict: str) -> None:
    assert judge(proposal(), at=put(DISCRETE, Setting("JUMP", ()), NOW - after_ns)) == verdict


@pytest.mark.parametrize(
    ("after_ns", "verdict"), [(40 * MS - 1, "dwell"), (40 * MS, "proposal"), (40 * MS + 1, "proposal")]
)
def test_dwell(after_ns: int, verdict: str) -> None:
    before = put(DISCRETE, Setting("LEFT", ()), NOW - after_ns)
    assert judge(proposal(), at=before) == verdict
    assert judge(proposal(action="LEFT"), at=before) == "proposal", "holding on is no change"


def test_dwell_counts_from_the_change_and_not_from_the_last_write() -> None:
    before = put(DISCRETE, Setting("LEFT", ()), NOW - 40 * MS)
    again = state.applied(before, Passed(proposal(), Setting("LEFT", ()), False), NOW - 20 * MS)
    assert judge(proposal(sensor_ns=NOW), at=again) == "proposal"


def test_time_that_runs_backwards_refuses() -> None:
    timeless = replace(DISCRETE, min_interval_ns=0, min_dwell_ns=0)
    later = put(timeless, Setting("LEFT", ()), NOW + 1)
    assert judge(proposal(sensor_ns=NOW), timeless, later) == "rate"


def test_forbidden_transition() -> None:
    left = put(DISCRETE, Setting("LEFT", ()), NOW - 100 * MS)
    assert judge(proposal(action="RIGHT"), at=left) == "transition"
    right = put(DISCRETE, Setting("RIGHT", ()), NOW - 100 * MS)
    assert judge(proposal(action="LEFT"), at=right) == "proposal", "the pair has a direction"
    own = replace(DISCRETE, forbidden=frozenset({("LEFT", "LEFT")}))
    assert judge(proposal(action="LEFT"), own, left) == "proposal", "holding on is no change"


def test_the_way_to_neutral_is_never_barred() -> None:
    strict = replace(DISCRETE, forbidden=frozenset({("LEFT", "NOOP")}), min_dwell_ns=NOW, min_interval_ns=NOW)
    assert (
        judge(proposal(action="NOOP", sensor_ns=NOW), strict, put(strict, Setting("LEFT", ()), NOW - 1)) == "proposal"
    )
    stiff = replace(CONTINUOUS, min_dwell_ns=NOW, min_interval_ns=NOW)
    fast = put(stiff, Setting(None, (0.75, 0.0)), NOW - 1)
    assert judge(drive(0.125, 0.0, sensor_ns=NOW), stiff, fast) == "proposal", "an unclamped channel goes at once"
    assert judge(drive(0.125, 0.1, sensor_ns=NOW), stiff, fast) == "rate", "all channels or none"


def test_neutral_must_be_fresh_and_sure_like_any_other() -> None:
    assert judge(proposal(action="NOOP", sensor_ns=NOW - 101 * MS)) == "stale"
    assert judge(proposal(action="NOOP", confidence=0.1)) == "confidence"


@pytest.mark.parametrize("direction", [1.0, -1.0])
def test_slew_without_clamp_refuses_one_step_too_far(direction: float) -> None:
    quick = replace(CONTINUOUS, min_dwell_ns=0)
    before = put(quick, Setting(None, (0.125, 0.0)), NOW - 31_250_000)  # 1/32 s: the step is exactly 1/16
    edge = 0.125 + direction * 0.0625
    inside, outside = (down, up) if direction > 0 else (up, down)
    assert judge(drive(edge, 0.01), quick, before) == "proposal"
    assert judge(drive(inside(edge), 0.01), quick, before) == "proposal"
    assert judge(drive(outside(edge), 0.01), quick, before) == "slew"


@pytest.mark.parametrize(
    ("asked", "given"),
    [(1.125, 1.125), (up(1.125), 1.125), (3.0, 1.125), (0.875, 0.875), (down(0.875), 0.875), (0.01, 0.875)],
)
def test_slew_with_clamp_goes_as_far_as_it_may(asked: float, given: float) -> None:
    quick = replace(CONTINUOUS, min_dwell_ns=0)
    before = put(quick, Setting(None, (0.125, 1.0)), NOW - 31_250_000)  # the step is exactly 1/8
    passed = valve.judge(quick, before, drive(throttle=asked), NOW)
    assert isinstance(passed, Passed)
    assert (passed.setting.values[1], passed.clamped) == (given, asked != given)


def test_a_clamping_channel_slows_down_to_neutral_within_its_slew() -> None:
    moving = put(CONTINUOUS, Setting(None, (0.125, 1.0)), NOW - 31_250_000)
    passed = valve.judge(CONTINUOUS, moving, drive(0.125, 0.0), NOW)
    assert isinstance(passed, Passed)
    assert passed.setting.values == (0.125, 0.875)
    assert passed.clamped


@pytest.mark.parametrize(("rest_ns", "reach"), [(250 * MS - 1, 4.0 * 0.249999999), (250 * MS, 1.0), (NOW, 1.0)])
def test_a_long_rest_buys_no_jump(rest_ns: int, reach: float) -> None:
    before = put(CONTINUOUS, CONTINUOUS.neutral, NOW - rest_ns)
    passed = valve.judge(CONTINUOUS, before, drive(throttle=3.0), NOW)
    assert isinstance(passed, Passed)
    assert passed.setting.values[1] == reach


def test_range_comes_before_slew() -> None:
    passed = valve.judge(CONTINUOUS, armed(CONTINUOUS, NOW - 500 * MS), drive(throttle=1e9), NOW)
    assert isinstance(passed, Passed)
    assert passed.setting.values[1] == 1.0


def test_when_time_runs_backwards_neutral_does_not_run_ahead_of_its_slew() -> None:
    moving = put(CONTINUOUS, Setting(None, (0.125, 1.0)), NOW + 1000 * MS)
    passed = valve.judge(CONTINUOUS, moving, drive(0.125, 0.0, agent=HIGH), NOW)
    assert isinstance(passed, Passed)
    assert passed.setting.values == (0.125, 1.0)


def test_a_refusal_states_the_numbers() -> None:
    cases = {
        "observed 100.000001 ms ago; expected 100 ms at most": judge_text(proposal(sensor_ns=NOW - 100 * MS - 1)),
        "channel 0: 0.8; expected -0.5 to 0.75 rad": judge_text(drive(0.8), CONTINUOUS),
        "0.1; expected 0.25 to 1": judge_text(proposal(confidence=0.1)),
        "2 values; expected 0": judge_text(proposal(values=[0.0, 0.0])),
        "action = None; expected an action and no values": judge_text(proposal(action=None)),
        "action = 'JUMP'; expected values and no action": judge_text(drive(action="JUMP"), CONTINUOUS),
        "observation 5 ms older than the last one acted on; expected a newer one": judge_text(
            proposal(sensor_ns=NOW - 55 * MS), at=put(DISCRETE, Setting("JUMP", ()), NOW - 45 * MS)
        ),
    }
    for wanted, found in cases.items():
        assert found == wanted


def judge_text(proposed: ActionProposal, limits: Limits = DISCRETE, at: State | None = None) -> str:
    """The text of a refusal."""
    verdict = valve.judge(limits, armed(limits) if at is None else at, proposed, NOW)
    assert isinstance(verdict, Refusal)
    return verdict.detail


def _still(limits: Limits) -> Limits:
    """The same without a slew limit, to look at the range alone."""
    return replace(limits, channels=tuple(replace(channel, slew_per_s=None) for channel in limits.channels))
