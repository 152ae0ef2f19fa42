"""What an output is told: the mapping from actions and values to levels, duties and pulses."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon import outputs
from daemon.outputs import DigitalOutput, Output, PwmOutput, ServoOutput

FLOATS = st.floats(allow_nan=True, allow_infinity=True)
CURVE = [(-1.0, 0.75), (0.0, 0.0), (2.0, 1.0)]


@pytest.mark.parametrize(
    ("degrees", "pulse"), [(-90.0, 1000.0), (0.0, 1500.0), (45.0, 1750.0), (90.0, 2000.0), (91.0, 2000.0)]
)
def test_the_default_servo_is_that_of_gpiozero(degrees: float, pulse: float) -> None:
    assert outputs.pulse_us(ServoOutput(pin=18), degrees) == pulse


def test_a_servo_the_other_way_round() -> None:
    servo = ServoOutput(pin=18, degrees=(0.0, 60.0), pulse_us=(2200.0, 800.0))
    assert [outputs.pulse_us(servo, degrees) for degrees in (-5.0, 0.0, 30.0, 60.0)] == [2200.0, 2200.0, 1500.0, 800.0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(-5.0, 0.75), (-1.0, 0.75), (-0.5, 0.375), (0.0, 0.0), (1.0, 0.5), (2.0, 1.0), (2.5, 1.0)],
)
def test_a_curve_has_straight_lines_and_ends(value: float, expected: float) -> None:
    assert outputs.along(CURVE, value) == expected


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (DigitalOutput(pin=4, actions={"STOP": False, "GO": True}), 1.0),
        (PwmOutput(pin=4, actions={"STOP": 0.0, "GO": 0.6}), 0.6),
        (ServoOutput(pin=18, actions={"STOP": 0.0, "GO": -45.0}), 1250.0),
    ],
)
def test_an_action_is_what_its_table_says(output: Output, expected: float) -> None:
    assert outputs.level(output, "GO", []) == expected


def test_a_channel_is_followed() -> None:
    values = [0.25, -1.0]
    assert outputs.level(DigitalOutput(pin=4, channel=0, on_above=0.2), None, values) == 1.0
    assert outputs.level(DigitalOutput(pin=4, channel=0, on_above=0.25), None, values) == 0.0
    assert outputs.level(PwmOutput(pin=4, channel=1, curve=CURVE), None, values) == 0.75
    steering = ServoOutput(pin=18, channel=0, curve=[(-0.5, 30.0), (0.5, -30.0)])
    assert outputs.level(steering, None, values) == pytest.approx(1416.667, abs=0.001)


@pytest.mark.parametrize(("value", "expected"), [(0.0, 0.0), (1.0, 1.0)])
def test_a_curve_that_nobody_checked_is_cut_to_a_duty(value: float, expected: float) -> None:
    assert outputs.level(PwmOutput(pin=4, channel=0, curve=[(0.0, -0.5), (1.0, 1.5)]), None, [value]) == expected


@given(
    FLOATS, st.lists(st.floats(-180.0, 180.0), min_size=2, max_size=2, unique=True), st.permutations([700.0, 2300.0])
)
def test_no_value_at_all_leads_beyond_the_pulse_limits(value: float, angles: list[float], ends: list[float]) -> None:
    servo = ServoOutput(
        pin=18,
        channel=0,
        curve=[(-1.0, -170.0), (1.0, 170.0)],
        degrees=(min(angles), max(angles)),
        pulse_us=(ends[0], ends[1]),
    )
    assert 700.0 <= outputs.level(servo, None, [value]) <= 2300.0


@given(FLOATS, st.lists(st.tuples(st.floats(-1e9, 1e9), st.floats(0.0, 1.0)), min_size=2, unique_by=lambda x: x[0]))
def test_no_value_at_all_leads_to_more_than_a_whole_duty(value: float, points: list[tuple[float, float]]) -> None:
    duty = outputs.level(PwmOutput(pin=4, channel=0, curve=sorted(points)), None, [value])
    assert 0.0 <= duty <= 1.0
    assert not math.isnan(duty)
