"""Moves pins of a Raspberry Pi: levels and software pulses through gpiozero, servos on the board's PWM block.

What an output carries once this process is gone: a servo on the PWM block goes on with its last pulse; a level stays
or becomes an input, as the kernel is set (Raspberry Pi OS: it stays); software pulses end. So a process that ends
writes neutral before, and one that is killed leaves what was last in force, until it starts again or
``reflexd neutral`` writes neutral in its place.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from daemon.actuate.drivers import DriverError
from daemon.actuate.drivers.gpio_pwm import SYSFS, HardwarePwm
from daemon.config import Actuator
from daemon.messages import Applied
from daemon.outputs import DigitalOutput, Output, ServoOutput, level
from daemon.pins import boards

if TYPE_CHECKING:
    from daemon.actuate.drivers.gpio_lines import Line, Pins


class Wire(Protocol):
    """One output's hardware. Levels are those of :func:`daemon.outputs.level`."""

    def open(self, level: float) -> None:
        """Take hold, at ``level`` at once."""

    def write(self, level: float) -> None:
        """Put a level into force."""

    def close(self) -> None:
        """Let go; the last level was neutral."""


class GpioDriver:
    """The outputs of one actuator.

    Args:
        actuator: a checked table with outputs.
        folder: where lgpio may put its pipe.
        sysfs: the kernel's PWM folder.
    """

    def __init__(self, actuator: Actuator, folder: Path, sysfs: Path = SYSFS) -> None:
        self._actuator, self._folder, self._sysfs = actuator, folder, sysfs
        self._neutral = self._levels(actuator.neutral, [channel.neutral for channel in actuator.channels])
        self._pins: Pins | None = None
        self._wires: list[Wire] = []
        self.complaint = ""
        self.lost = 0

    def open(self) -> None:
        """Take hold of every output, each neutral from the first moment.

        Raises:
            DriverError: one of them cannot be had, and none is held.
        """
        try:
            self._wires = [self._wire(output) for output in self._actuator.outputs]
            self._each(lambda wire, value: wire.open(value), self._neutral)
        except DriverError:
            self.close()
            raise
        self.complaint = "; ".join(self._caveats())

    def write(self, order: Applied) -> None:
        """Set every output. When one fails the others go to neutral at once: half a movement is none anybody asked for.

        Raises:
            DriverError: an output did not take its level; names each that did not.
        """
        try:
            self._each(lambda wire, value: wire.write(value), self._levels(order.action, order.values))
        except DriverError:
            with suppress(DriverError):
                self._each(lambda wire, value: wire.write(value), self._neutral)
            raise

    def close(self) -> None:
        """Let go."""
        for wire in self._wires:
            wire.close()
        if self._pins is not None:
            self._pins.close()
        self._wires, self._pins = [], None

    def _levels(self, action: str | None, values: list[float]) -> list[float]:
        return [level(output, action, values) for output in self._actuator.outputs]

    def _each(self, do: Callable[[Wire, float], None], levels: list[float]) -> None:
        """Do it to every output, whatever becomes of the ones before."""
        failures = []
        for i, (wire, value) in enumerate(zip(self._wires, levels, strict=True)):
            try:
                do(wire, value)
            except DriverError as error:
                failures.append(f"outputs.{i}: {error}")
        if failures:
            raise DriverError("; ".join(failures))

    def _wire(self, output: Output) -> Wire:
        if isinstance(output, ServoOutput) and not output.software_pwm:
            return HardwarePwm(output.pin, output.frequency_hz, boards(self._actuator.chip), self._sysfs)
        return self._line(output)

    def _line(self, output: Output) -> Line:
        try:
            _import_lgpio(self._folder)
            from daemon.actuate.drivers.gpio_lines import Line, Pins
        except (ImportError, OSError) as error:
            raise DriverError(
                f"pin {output.pin}: expected the packages gpiozero and lgpio ({error}): apt install python3-gpiozero "
                "python3-lgpio, or pip install 'reflexd[gpio]'"
            ) from None
        if self._pins is None:
            self._pins = Pins([board.label for board in boards(self._actuator.chip)])
        if isinstance(output, DigitalOutput):
            return Line(self._pins, output.pin, active_low=output.active_low)
        scale = output.frequency_hz / 1e6 if isinstance(output, ServoOutput) else 1.0
        return Line(self._pins, output.pin, output.frequency_hz, scale)

    def _caveats(self) -> list[str]:
        """What a person should know although everything works."""
        found = []
        twitching = [
            str(output.pin)
            for output in self._actuator.outputs
            if isinstance(output, ServoOutput) and output.software_pwm
        ]
        if twitching:
            found.append(f"pin {', '.join(twitching)}: servo pulsed in software (software_pwm): it twitches and wears")
        if self._pins is not None and self._pins.foreign:
            found.append(f"pins are gpiozero's {self._pins.foreign!r} (GPIOZERO_PIN_FACTORY), not lgpio's")
        return found


def _import_lgpio(folder: Path) -> None:
    """Import lgpio, which makes a pipe then, and leaves the process standing where it has made it.

    That is in ``LG_WD``, or else wherever the process stood: ``/`` in a service.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    here = Path.cwd()
    os.environ["LG_WD"] = str(folder.resolve())
    try:
        import lgpio  # noqa: F401
    finally:
        del os.environ["LG_WD"]
        os.chdir(here)
