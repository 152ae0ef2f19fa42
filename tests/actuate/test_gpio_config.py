"""What is wrong with pins is found in the configuration, by key and value, before anything is touched."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from daemon.config import ConfigError, parse
from daemon.pins import pin_complaints
from tests.actuate.pins import toml
from tests.actuate.running import ROOT

DISCRETE = {"actions": ["STOP", "GO"], "neutral": "STOP"}
STEERING = {"unit": "rad", "minimum": -0.5, "maximum": 0.5, "neutral": 0.0}
CONTINUOUS = {"channels": [STEERING]}
RELAY = {"kind": "digital", "pin": 17, "actions": {"STOP": False, "GO": True}}
MOTOR = {"kind": "pwm", "pin": 22, "actions": {"STOP": 0.0, "GO": 0.5}}
SERVO = {"kind": "servo", "pin": 18, "actions": {"STOP": 0.0, "GO": 45.0}}
STEER = {"kind": "servo", "pin": 18, "channel": 0, "curve": [[-0.5, -45.0], [0.5, 45.0]]}
THROTTLE = {"kind": "pwm", "pin": 22, "channel": 0, "curve": [[-0.5, 0.0], [0.0, 0.0], [0.5, 1.0]]}


def actuator(*outputs: dict[str, Any], **keys: Any) -> dict[str, Any]:
    kind = {} if "channels" in keys else DISCRETE
    return {"driver": "gpio", "deadman_ms": 200.0, **kind, "outputs": list(outputs), **keys}


def complaints(folder: Path, **actuators: dict[str, Any]) -> list[str]:
    """What parsing or the rules for pins have against a configuration with these actuators."""
    text = '[daemon]\nname = "t"\n[sources.cam]\nkind = "synthetic"\n'
    for name in actuators:
        text += f'[agents.of-{name}]\npackage = "p"\nsource = "cam"\nactuator = "{name}"\n'
    for name, keys in actuators.items():
        text += f"[actuators.{name}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items())
    file = folder / "robot.toml"
    file.write_text(text)
    try:
        config = parse(file)
    except ConfigError as error:
        return [str(error).removeprefix(f"{file}: ")]
    return list(pin_complaints(config))


def test_what_is_right(tmp_path: Path) -> None:
    two = [STEERING, {**STEERING, "unit": "m/s"}]
    assert complaints(tmp_path, arm=actuator(RELAY, MOTOR, SERVO)) == []
    assert complaints(tmp_path, arm=actuator(STEER, {**THROTTLE, "channel": 1}, channels=two)) == []
    assert complaints(tmp_path, arm=actuator(SERVO), leg=actuator({**SERVO, "pin": 13})) == []


def test_the_configurations_of_the_documentation_are_right(tmp_path: Path) -> None:
    tables = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "gpio.md").read_text(), re.DOTALL)
    found = {name: keys for table in tables for name, keys in tomllib.loads(table)["actuators"].items()}
    assert sorted(found) == ["car", "gate"]
    assert complaints(tmp_path, **found) == []


WRONG: list[tuple[dict[str, Any], str]] = [
    # keys and values by themselves
    (actuator({**RELAY, "pin": 28}), "outputs.0.pin = 28: Expected `int` <= 27"),
    (actuator({**RELAY, "pin": 1}), "outputs.0.pin = 1: Expected `int` >= 2"),
    (actuator({**RELAY, "pin": "P1"}), "outputs.0.pin = 'P1': Expected `int`, got `str`"),
    (actuator(RELAY, {**RELAY, "kind": "relay"}), "outputs.1.kind = 'relay': expected one of digital, pwm, servo"),
    (actuator({"pin": 3}), "outputs.0: Object missing required field `kind`; expected one of digital, pwm, servo"),
    (
        actuator({**RELAY, "frequency_hz": 50.0}),
        "outputs.0: Object contains unknown field `frequency_hz`; expected one of pin, actions, ch",
    ),
    (actuator({**MOTOR, "frequency_hz": 20000.0}), "outputs.0.frequency_hz = 20000.0: Expected `float` <= 10000.0"),
    (actuator({**SERVO, "frequency_hz": 400.0}), "outputs.0.frequency_hz = 400.0: Expected `float` <= 333.0"),
    (actuator({**SERVO, "pulse_us": [400, 2000]}), "outputs.0.pulse_us.0 = 400: Expected `float` >= 500.0"),
    (actuator({**SERVO, "pulse_us": [1000, 2600]}), "outputs.0.pulse_us.1 = 2600: Expected `float` <= 2500.0"),
    (actuator({**MOTOR, "actions": {"STOP": 0.0, "GO": 1.5}}), "outputs.0.actions.GO = 1.5: Expected `float` <= 1.0"),
    (actuator({**RELAY, "actions": {"STOP": False, "GO": 2}}), "outputs.0.actions.GO = 2: Expected `bool`, got `int`"),
    (
        actuator(RELAY, chip="gpiochip4"),
        "chip = 'gpiochip4': expected one of auto, pinctrl-rp1, pinctrl-bcm2711, pinctrl-bcm2835",
    ),
    # outputs and the driver
    (actuator(), "outputs: expected with driver = 'gpio' and only there, found 0"),
    (actuator(RELAY, driver="log"), "outputs: expected with driver = 'gpio' and only there, found 1"),
    (actuator(driver="log", chip="pinctrl-rp1"), "chip = 'pinctrl-rp1': expected only with driver = 'gpio'"),
    # actions
    (
        actuator({**RELAY, "actions": {"STOP": False}}),
        "outputs.0.actions: expected all of the actuator's, 'GO' is missing",
    ),
    (
        actuator({**RELAY, "actions": {"STOP": False, "GO": True, "FLY": True}}),
        "outputs.0.actions.FLY: expected one of the actuator's actions: STOP, GO",
    ),
    (
        actuator({**MOTOR, "curve": [[0, 0], [1, 1]]}),
        "outputs.0.channel = None: expected actions = { ... }: the actuator has no channels",
    ),
    (
        actuator({**SERVO, "actions": {"STOP": 0.0, "GO": 91.0}}),
        "outputs.0.actions.GO = 91: expected -90 to 90 degrees, as in degrees",
    ),
    (actuator({**MOTOR, "actions": {"STOP": 0.1, "GO": 0.5}}), "outputs.0.duty 0.1 at neutral: expected 0"),
    # channels
    (actuator(RELAY, **CONTINUOUS), "outputs.0.actions: expected channel: the actuator has channels and no actions"),
    (actuator({**STEER, "channel": 1}, **CONTINUOUS), "outputs.0.channel = 1: expected 0 to 0"),
    (
        actuator({**STEER, "curve": [[0.5, 0.0]]}, **CONTINUOUS),
        "outputs.0.curve = [[0.5, 0.0]]: expected two points or more, their values rising",
    ),
    (
        actuator({**STEER, "curve": [[0.5, 0.0], [-0.5, 1.0]]}, **CONTINUOUS),
        "outputs.0.curve = [[0.5, 0.0], [-0.5, 1.0]]: expected two points or more, their values rising",
    ),
    (
        actuator({**STEER, "curve": [[-0.4, 0.0], [0.5, 1.0]]}, **CONTINUOUS),
        "outputs.0.curve = [[-0.4, 0.0], [0.5, 1.0]]: expected values from -0.5 to 0.5 rad, which channel 0 takes",
    ),
    (
        actuator({**STEER, "curve": [[-0.5, -95.0], [0.5, 0.0]]}, **CONTINUOUS),
        "outputs.0.curve.0 = -95: expected -90 to 90 degrees, as in degrees",
    ),
    (
        actuator({**THROTTLE, "curve": [[-0.5, 0.0], [0.5, 1.0]]}, **CONTINUOUS),
        "outputs.0.duty 0.5 at neutral: expected 0",
    ),
    (
        actuator(STEER, channels=[STEERING, STEERING]),
        "channels.1: expected an output with channel = 1: nothing would move",
    ),
    # servos
    (actuator({**SERVO, "pin": 17}), "outputs.0.pin = 17: expected one with hardware PWM (12, 13, 18, 19)"),
    (
        actuator({**SERVO, "degrees": [90.0, -90.0]}),
        "outputs.0.degrees = [90.0, -90.0]: expected the smaller angle first (pulse_us may fall)",
    ),
    (
        actuator({**SERVO, "pulse_us": [1500.0, 1500.0]}),
        "outputs.0.pulse_us = [1500.0, 1500.0]: expected two different pulses",
    ),
    # beside one another
    (
        actuator(RELAY, {**MOTOR, "pin": 17}),
        "outputs.1.pin = 17: expected a pin of its own, actuators.arm.outputs.0.pin has it",
    ),
    (
        actuator(SERVO, {**SERVO, "pin": 12}),
        "outputs.1.pin = 12: expected a PWM channel of its own; on a Raspberry Pi 4 pins 12 and 18 carry the same",
    ),
]


@pytest.mark.parametrize(("arm", "text"), WRONG, ids=[text[:55] for _, text in WRONG])
def test_what_is_wrong_is_named_by_key_value_and_expectation(tmp_path: Path, arm: dict[str, Any], text: str) -> None:
    assert complaints(tmp_path, arm=arm)[0].startswith(f"actuators.arm.{text}")


def test_the_faulty_one_of_several_actuators_is_named(tmp_path: Path) -> None:
    bad = {"kind": "pwm", "pin": 3, "actions": {"STOP": 0.0, "GO": -1.0}}
    found = complaints(tmp_path, arm=actuator(RELAY), left_leg=actuator(MOTOR, bad), tail=actuator(bad))
    assert found == ["actuators.left_leg.outputs.1.actions.GO = -1.0: Expected `float` >= 0.0"]


def test_a_name_of_an_action_that_cannot_be_is_named(tmp_path: Path) -> None:
    long = "x" * 65
    (text,) = complaints(tmp_path, arm=actuator({**RELAY, "actions": {"STOP": False, long: True}}))
    assert text == f"actuators.arm.outputs.0.actions: name {long!r}: Expected `str` of length <= 64"


def test_a_pin_of_two_actuators(tmp_path: Path) -> None:
    found = complaints(tmp_path, arm=actuator(RELAY), leg=actuator(MOTOR, {**RELAY, "active_low": True}))
    assert found == [
        "actuators.leg.outputs.1.pin = 17: expected a pin of its own, actuators.arm.outputs.0.pin has it too"
    ]


def test_a_pwm_channel_of_two_actuators_matters_only_where_they_share_it(tmp_path: Path) -> None:
    arm, leg = actuator(SERVO), actuator({**SERVO, "pin": 12})
    (text,) = complaints(tmp_path, arm=arm, leg=leg)
    assert text.startswith("actuators.leg.outputs.0.pin = 12: expected a PWM channel of its own; on a Raspberry Pi 4")
    assert complaints(tmp_path, arm={**arm, "chip": "pinctrl-rp1"}, leg=leg) == []
    assert complaints(tmp_path, arm=arm, leg=actuator({**SERVO, "pin": 12, "software_pwm": True})) == []


def test_two_chips(tmp_path: Path) -> None:
    (text,) = complaints(tmp_path, arm=actuator(RELAY, chip="pinctrl-rp1"), leg=actuator(MOTOR, chip="pinctrl-bcm2711"))
    assert text.startswith("actuators.arm.chip = 'pinctrl-rp1', actuators.leg.chip = 'pinctrl-bcm2711': expected the")
