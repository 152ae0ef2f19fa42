"""Pins through gpiozero on lgpio: levels, and pulses in software. The only file that needs either library.

No other pin library is ever fallen back to. The environment variable ``GPIOZERO_PIN_FACTORY`` chooses one of
gpiozero's others by name, such as ``mock`` for a try without pins; the driver then says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import gpiozero
import lgpio
from gpiozero.pins.lgpio import LGPIOFactory, LGPIOPin

from daemon.actuate.drivers import DriverError
from daemon.actuate.drivers.gpio_chip import find_chip

FACTORY_VARIABLE = "GPIOZERO_PIN_FACTORY"
_FAILURES = (gpiozero.GPIOZeroError, lgpio.error, OSError, ImportError)


class SteadyPin(LGPIOPin):  # type: ignore[misc]  # gpiozero has no types
    """A pin of gpiozero's that jumps neither when it is claimed nor when it is let go.

    gpiozero 2.0.1 claims an output low before it sets the level, cuts a duty to whole percents (a servo at 50 Hz
    would have six positions, gpiozero issue 1209), and makes a closed pin an input, whatever hangs on it.
    """

    _pwm: tuple[float, float] | None

    def output_with_state(self, state: float) -> None:
        """Become an output at that level, in one step."""
        lgpio.gpio_claim_output(self.factory._handle, self._number, int(state))

    def close(self) -> None:
        """Stay as written last. What the level is when the process is gone is the kernel's choice."""

    def _set_state(self, value: float) -> None:
        if self._pwm is None:
            super()._set_state(value)
        else:
            self._pwm = (self._pwm[0], value * 100.0)
            lgpio.tx_pwm(self.factory._handle, self._number, *self._pwm)


class ChipFactory(LGPIOFactory):  # type: ignore[misc]  # gpiozero has no types
    """Pins of the chip with this number. Up to gpiozero 2.0.1 its own factory opens 0 or 4, whatever it is told."""

    def __init__(self, chip: int) -> None:
        super(LGPIOFactory, self).__init__()
        self._handle = lgpio.gpiochip_open(chip)
        self._chip = chip
        self.pin_class = SteadyPin


class Pins:
    """The header's pins, opened by the first line that needs them.

    Args:
        labels: GPIO chips that may have them.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self._labels = labels
        self._factory: Any = None
        chosen = os.environ.get(FACTORY_VARIABLE, "lgpio")
        self.foreign = chosen if chosen != "lgpio" else ""
        """Name of the pin library chosen by the environment, if it is not lgpio."""

    def factory(self) -> Any:
        """The pin factory of gpiozero.

        Raises:
            DriverError: no such chip, or not allowed.
        """
        if self._factory is None:
            with _named("pins"):
                self._factory = self._foreign() if self.foreign else ChipFactory(find_chip(self._labels))
        return self._factory

    def close(self) -> None:
        """Let go of the chip; its lines keep what was written last as far as the kernel lets them."""
        if self._factory is not None and not self.foreign:
            with suppress(*_FAILURES):
                self._factory.close()
        self._factory = None

    def _foreign(self) -> Any:
        gpiozero.Device.ensure_pin_factory()
        return gpiozero.Device.pin_factory


class Line:
    """A pin that is high, low, or pulses in software.

    Args:
        pins: the header.
        number: GPIO number.
        frequency_hz: pulses per second for a level between 0 and 1.
        scale: what a level is multiplied with to give a duty.
        active_low: 1 is the low level.
    """

    def __init__(
        self, pins: Pins, number: int, frequency_hz: float = 0.0, scale: float = 1.0, active_low: bool = False
    ) -> None:
        self._pins, self._number, self._frequency_hz, self._scale = pins, number, frequency_hz, scale
        self._active_low = active_low
        self._device: Any = None

    def open(self, level: float) -> None:
        """Claim the pin, at that level from the first moment.

        Raises:
            DriverError: not possible; names the pin.
        """
        factory = self._pins.factory()
        with _named(f"pin {self._number}"):
            high = not self._active_low
            self._device = gpiozero.OutputDevice(
                self._number, active_high=high, initial_value=level * self._scale >= 1.0, pin_factory=factory
            )
        self.write(level)

    def write(self, level: float) -> None:
        """Put a level into force. 0 and 1 need no thread that pulses, and hold without one.

        Raises:
            DriverError: not certain; names the pin.
        """
        if self._device is None:
            self.open(level)
            return
        duty = level * self._scale
        with _named(f"pin {self._number}"):
            if duty in (0.0, 1.0):
                self._still(duty)
            else:
                pin = self._device.pin
                if pin.frequency is None:
                    pin.frequency = self._frequency_hz
                pin.state = duty

    def close(self) -> None:
        """Stop pulsing, low, and let go; a level stays."""
        if self._device is None:
            return
        with suppress(*_FAILURES):
            if self._device.pin.frequency is not None:
                self._still(0.0)
            self._device.close()
        self._device = None

    def _still(self, duty: float) -> None:
        # In this order: lgpio stops pulsing at whatever level it was, and a level written before would be overwritten.
        if self._device.pin.frequency is not None:
            self._device.pin.frequency = None
        self._device.value = duty


@contextmanager
def _named(what: str) -> Iterator[None]:
    try:
        yield
    except DriverError:
        raise
    except _FAILURES as error:
        text = f"{type(error).__name__}: {error}"
        advice = ": another program has it: `gpioinfo` names that" if "busy" in str(error).lower() else ""
        raise DriverError(f"{what}: {text}{advice}") from None
