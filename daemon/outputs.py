"""What hangs on an actuator's pins: the tables ``[[actuators.NAME.outputs]]``, and what each output is told.

An output follows the actuator's discrete actions (``actions``) or one of its continuous channels (``channel``). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated

import msgspec

from daemon.messages import ActionName
from daemon.section import Section

Pin = Annotated[int, msgspec.Meta(ge=2, le=27)]
"""GPIO number on the 40-pin header. 0 and 1 are not offered: the firmware reads the EEPROM of a HAT there."""
Duty = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Degrees = Annotated[float, msgspec.Meta(ge=-180.0, le=180.0)]
Pulse = Annotated[float, msgspec.Meta(ge=500.0, le=2500.0)]
"""Microseconds. No hobby servo or speed controller takes more or less."""
PulsesPerSecond = Annotated[float, msgspec.Meta(ge=40.0, le=333.0)]
SoftwareHertz = Annotated[float, msgspec.Meta(ge=0.1, le=10_000.0)]
"""What lgpio's ``tx_pwm`` takes."""
Input = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]
ChannelIndex = Annotated[int, msgspec.Meta(ge=0, le=31)]


class DigitalOutput(Section, frozen=True, kw_only=True, tag_field="kind", tag="digital"):
    """``[[actuators.NAME.outputs]]`` with ``kind = "digital"``: a pin that is on or off.

    Attributes:
        pin: GPIO number (not the number on the header).
        actions: for each action of the vocabulary: on (true) or off.
        channel: the channel it follows instead, 0 the first one.
        on_above: with a channel: on while the value is above this, in the channel's unit.
        active_low: on is the low level, as on many relay boards.
    """

    pin: Pin
    actions: dict[ActionName, bool] = {}
    channel: ChannelIndex | None = None
    on_above: Input = 0.0
    active_low: bool = False


class PwmOutput(Section, frozen=True, kw_only=True, tag_field="kind", tag="pwm"):
    """``[[actuators.NAME.outputs]]`` with ``kind = "pwm"``: a pin pulsed in software, for a motor driver or a lamp.

    Attributes:
        pin: GPIO number (not the number on the header).
        actions: for each action of the vocabulary: the duty, 0 to 1. That of the neutral action must be 0.
        channel: the channel it follows instead, 0 the first one.
        curve: with a channel: points ``[value, duty]``, straight lines between them; from the channel's minimum to its
            maximum, 0 at its neutral.
        frequency_hz: pulses per second.
    """

    pin: Pin
    actions: dict[ActionName, Duty] = {}
    channel: ChannelIndex | None = None
    curve: Annotated[list[tuple[Input, Duty]], msgspec.Meta(max_length=32)] = []
    frequency_hz: SoftwareHertz = 200.0


class ServoOutput(Section, frozen=True, kw_only=True, tag_field="kind", tag="servo"):
    """``[[actuators.NAME.outputs]]`` with ``kind = "servo"``: a servo or a speed controller, which takes pulses.

    Attributes:
        pin: GPIO number (not the number on the header). Hardware PWM is on 12, 13, 18 and 19.
        actions: for each action of the vocabulary: the angle, degrees.
        channel: the channel it follows instead, 0 the first one.
        curve: with a channel: points ``[value, degrees]``, straight lines between them; from the channel's minimum to
            its maximum.
        degrees: the angles at the two ends of ``pulse_us``; no angle beyond them is taken.
        pulse_us: the pulse at each of these angles, microseconds; no other pulse is ever sent. The default is that of
            gpiozero's servos; the first may be the longer one.
        frequency_hz: pulses per second; analogue servos take 50.
        software_pwm: true pulses any pin in software. The servo then twitches, the more the busier the machine is, and
            wears; it says so at start and in the status.
    """

    pin: Pin
    actions: dict[ActionName, Degrees] = {}
    channel: ChannelIndex | None = None
    curve: Annotated[list[tuple[Input, Degrees]], msgspec.Meta(max_length=32)] = []
    degrees: tuple[Degrees, Degrees] = (-90.0, 90.0)
    pulse_us: tuple[Pulse, Pulse] = (1000.0, 2000.0)
    frequency_hz: PulsesPerSecond = 50.0
    software_pwm: bool = False


Output = DigitalOutput | PwmOutput | ServoOutput
OUTPUT_KINDS: Mapping[str, type[Section]] = {"digital": DigitalOutput, "pwm": PwmOutput, "servo": ServoOutput}
"""The tables by the word of ``kind``."""


def level(output: Output, action: str | None, values: Sequence[float]) -> float:
    """What an output is told for an action or for the channels' values.

    Returns:
        0 or 1 for ``digital``, a duty of 0 to 1 for ``pwm``, microseconds for ``servo``: always within its limits,
        whatever the arguments.

    Raises:
        KeyError, IndexError: no such action or channel, which a checked configuration rules out.
    """
    if isinstance(output, DigitalOutput):
        on = output.actions[str(action)] if output.channel is None else values[output.channel] > output.on_above
        return float(on)
    asked = output.actions[str(action)] if output.channel is None else along(output.curve, values[output.channel])
    return pulse_us(output, asked) if isinstance(output, ServoOutput) else min(max(asked, 0.0), 1.0)


def pulse_us(servo: ServoOutput, degrees: float) -> float:
    """The pulse for an angle; an angle beyond the ends is that of the end."""
    (low, high), (first, last) = servo.degrees, servo.pulse_us
    part = (min(max(degrees, low), high) - low) / (high - low)
    return first + part * (last - first)


def along(curve: Sequence[tuple[float, float]], value: float) -> float:
    """The curve at ``value``; beyond its ends, that of the end. The curve has two points or more, values rising."""
    at = min(max(curve[0][0], value), curve[-1][0])  # in this order: not a number becomes the first end
    (left, before), (right, after) = next(line for line in pairwise(curve) if at <= line[1][0])
    return before + (after - before) * (at - left) / (right - left)
