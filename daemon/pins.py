"""The pins of the boards, and the rules for what hangs on them: found in the configuration, without the hardware."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from daemon.outputs import DigitalOutput, Output, PwmOutput, ServoOutput, level

if TYPE_CHECKING:
    from daemon.config import Actuator, Config

Chip = Literal["auto", "pinctrl-rp1", "pinctrl-bcm2711", "pinctrl-bcm2835"]


class Board(NamedTuple):
    """A family of boards.

    ``label`` is that of its gpiochip, ``pwm_devices`` the names of its PWM block in sysfs (the numbers of both change
    with the kernel), ``channels`` the PWM channel of each pin that has one.
    """

    label: Chip
    name: str
    pwm_devices: tuple[str, ...]
    channels: Mapping[int, int]


_TWO_CHANNELS = {12: 0, 13: 1, 18: 0, 19: 1}
BOARDS = (
    # RP1 peripherals, table 4 and section 3.6: PWM0 is on the header, PWM1 (1f0009c000) drives the fan.
    Board("pinctrl-rp1", "Raspberry Pi 5", ("1f00098000.pwm",), {12: 0, 13: 1, 18: 2, 19: 3}),
    # BCM2711 and BCM2835 peripherals, section "Pulse Width Modulator".
    Board("pinctrl-bcm2711", "Raspberry Pi 4", ("fe20c000.pwm",), _TWO_CHANNELS),
    Board("pinctrl-bcm2835", "Raspberry Pi 1 to 3 and Zero", ("3f20c000.pwm", "2020c000.pwm"), _TWO_CHANNELS),
)
HARDWARE_PWM = (12, 13, 18, 19)
OVERLAYS = {12: "pwm,pin=12,func=4", 13: "pwm,pin=13,func=4", 18: "pwm,pin=18,func=2", 19: "pwm,pin=19,func=2"}
"""What puts the PWM block on a pin, as ``dtoverlay=`` in ``/boot/firmware/config.txt``."""


def boards(chip: Chip) -> list[Board]:
    """The boards meant by the key ``chip``: one, or with ``auto`` any."""
    return [board for board in BOARDS if chip in ("auto", board.label)]


def pin_complaints(config: Config) -> Iterator[str]:
    """Yield ``key = value: what was expected`` for every output that cannot be, or not beside another."""
    for name, actuator in config.actuators.items():
        yield from (f"actuators.{name}.{text}" for text in _actuator_complaints(actuator))
    yield from _shared_pins(config)


def _actuator_complaints(actuator: Actuator) -> Iterator[str]:
    if (actuator.driver == "gpio") != bool(actuator.outputs):
        yield f"outputs: expected with driver = 'gpio' and only there, found {len(actuator.outputs)}"
    if actuator.driver != "gpio" and actuator.chip != "auto":
        yield f"chip = {actuator.chip!r}: expected only with driver = 'gpio'"
    for i, output in enumerate(actuator.outputs):
        complaints = list(_shape(output, actuator)) or list(_values(output, actuator))
        yield from (f"outputs.{i}.{text}" for text in complaints)
    followed = {output.channel for output in actuator.outputs}
    for i in range(len(actuator.channels)):
        if actuator.outputs and i not in followed:
            yield f"channels.{i}: expected an output with channel = {i}: nothing would move"


# --- one output --------------------------------------------------------------------------------------------


def _shape(output: Output, actuator: Actuator) -> Iterator[str]:
    """Whether the output says what it does for everything the actuator may be told."""
    if isinstance(output, ServoOutput):
        yield from _servo(output)
    if actuator.channels:
        yield from _channel_shape(output, actuator)
        return
    if output.channel is not None or (not isinstance(output, DigitalOutput) and output.curve):
        yield f"channel = {output.channel}: expected actions = {{ ... }}: the actuator has no channels"
    for action in actuator.actions:
        if action not in output.actions:
            yield f"actions: expected all of the actuator's, {action!r} is missing"
    for action in output.actions:
        if action not in actuator.actions:
            yield f"actions.{action}: expected one of the actuator's actions: {', '.join(actuator.actions)}"


def _channel_shape(output: Output, actuator: Actuator) -> Iterator[str]:
    if output.actions:
        yield "actions: expected channel: the actuator has channels and no actions"
    if output.channel is None or output.channel >= len(actuator.channels):
        yield f"channel = {output.channel}: expected 0 to {len(actuator.channels) - 1}"
        return
    if isinstance(output, DigitalOutput):
        return
    channel = actuator.channels[output.channel]
    values = [value for value, _ in output.curve]
    if len(values) < 2 or any(left >= right for left, right in pairwise(values)):
        yield f"curve = {_points(output.curve)}: expected two points or more, their values rising"
    elif values[0] > channel.minimum or values[-1] < channel.maximum:
        wanted = f"{channel.minimum:g} to {channel.maximum:g} {channel.unit}, which channel {output.channel} takes"
        yield f"curve = {_points(output.curve)}: expected values from {wanted}"


def _servo(servo: ServoOutput) -> Iterator[str]:
    if not servo.degrees[0] < servo.degrees[1]:
        yield f"degrees = {list(servo.degrees)}: expected the smaller angle first (pulse_us may fall)"
    if servo.pulse_us[0] == servo.pulse_us[1]:
        yield f"pulse_us = {list(servo.pulse_us)}: expected two different pulses"
    if not servo.software_pwm and servo.pin not in HARDWARE_PWM:
        wanted = f"one with hardware PWM ({', '.join(map(str, HARDWARE_PWM))})"
        yield f"pin = {servo.pin}: expected {wanted}, or software_pwm = true, with which the servo twitches"


def _values(output: Output, actuator: Actuator) -> Iterator[str]:
    """Whether what the output is told is within its limits. Its shape is right."""
    if isinstance(output, ServoOutput):
        low, high = output.degrees
        angles = {f"actions.{action}": angle for action, angle in output.actions.items()}
        angles |= {f"curve.{i}": angle for i, (_, angle) in enumerate(output.curve)}
        for key, angle in angles.items():
            if not low <= angle <= high:
                yield f"{key} = {angle:g}: expected {low:g} to {high:g} degrees, as in degrees"
    if isinstance(output, PwmOutput) and (actuator.channels or actuator.neutral in output.actions):
        neutral = level(output, actuator.neutral, [channel.neutral for channel in actuator.channels])
        if neutral != 0.0:
            # Software pulses end with the process; only a level is still there afterwards.
            yield f"duty {neutral:g} at neutral: expected 0, which holds without a process that pulses"


def _points(curve: list[tuple[float, float]]) -> str:
    return str([list(point) for point in curve])[:80]


# --- outputs beside one another ----------------------------------------------------------------------------


def _shared_pins(config: Config) -> Iterator[str]:
    gpio = {name: actuator for name, actuator in config.actuators.items() if actuator.driver == "gpio"}
    chips = {name: actuator.chip for name, actuator in gpio.items() if actuator.chip != "auto"}
    if len(set(chips.values())) > 1:
        found = ", ".join(f"actuators.{name}.chip = {chip!r}" for name, chip in chips.items())
        yield f"{found}: expected the same: a machine has one header"
        return
    outputs = [
        (f"actuators.{name}.outputs.{i}.pin = {output.pin}", output)
        for name, actuator in gpio.items()
        for i, output in enumerate(actuator.outputs)
    ]
    yield from _twice(outputs)
    yield from _shared_channels(outputs, boards(next(iter(chips.values()), "auto")))


def _twice(outputs: list[tuple[str, Output]]) -> Iterator[str]:
    owners: dict[int, str] = {}
    for key, output in outputs:
        if output.pin in owners:
            yield f"{key}: expected a pin of its own, {owners[output.pin].rpartition(' = ')[0]} has it too"
        owners.setdefault(output.pin, key)


def _shared_channels(outputs: list[tuple[str, Output]], possible: list[Board]) -> Iterator[str]:
    """Two pins on one PWM channel carry the same pulses, whatever each is told."""
    servos = [(key, output) for key, output in outputs if isinstance(output, ServoOutput) and not output.software_pwm]
    for board in possible:
        users: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for key, servo in servos:
            users[board.channels.get(servo.pin, -1)].append((key, servo.pin))
        for channel, found in users.items():
            pins = sorted({pin for _, pin in found})
            if channel >= 0 and len(pins) > 1:
                yield (
                    f"{found[1][0]}: expected a PWM channel of its own; on a {board.name} pins {pins[0]} and {pins[1]} "
                    f"carry the same pulses: take another, or set chip = 'pinctrl-rp1' if only a Pi 5 is meant"
                )
                return
