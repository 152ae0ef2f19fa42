"""The header: the GPIO chip by its label, hardware PWM and I2C. No pin is requested."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from daemon.actuate.drivers import DriverError
from daemon.actuate.drivers.gpio_chip import find_chip
from daemon.doctor.finding import Finding, fail, ok, skip, warn
from daemon.doctor.machine import Machine, group_advice, may
from daemon.doctor.setup import Setup
from daemon.outputs import Output, ServoOutput
from daemon.pins import BOARDS, OVERLAYS, boards

BOOT_CONFIG = ("/boot/firmware/config.txt", "/boot/config.txt")


def pins(machine: Machine, setup: Setup) -> Iterator[Finding]:
    """The chip that has the header's pins, by its label."""
    users = [name for name, table in setup.actuators.items() if table.driver == "gpio"]
    chips = [chip for chip in machine.glob("/dev", "gpiochip*") if not chip.is_symlink()]
    if not chips:
        found = "no /dev/gpiochip*: the kernel has no GPIO chip"
        fix = "actuators on pins need a Raspberry Pi; GPIOZERO_PIN_FACTORY=mock tries without (docs/gpio.md)"
        yield fail("pins", f"{found}, and actuators.{users[0]} needs one", fix) if users else skip("pins", found)
        return
    shut = [chip.name for chip in chips if not may(chip)]
    if shut:
        judged = fail if users else warn
        yield judged("pins", f"user {os.getuid()} may not open {', '.join(shut)}", group_advice("gpio"))
        return
    labels = _labels(setup)
    try:
        yield ok("pins", f"gpiochip{find_chip(labels, machine.path('/dev'))} is the header ({' or '.join(labels)})")
    except DriverError as error:
        yield (fail if users else warn)("pins", str(error), "see `chip` in docs/configuration.md")


def pwm(machine: Machine, setup: Setup) -> Iterator[Finding]:
    """The block that pulses servos, and what else would take it."""
    wanted = sorted({pin for table in setup.actuators.values() for pin in hardware_pwm_pins(table.outputs)})
    known = {device for board in BOARDS for device in board.pwm_devices}
    chips = machine.glob("/sys/class/pwm", "pwmchip*")
    block = next((chip for chip in chips if (chip / "device").resolve().name in known), None)
    if block is None:
        if wanted:
            lines = " and ".join(f"dtoverlay={OVERLAYS[pin]}" for pin in wanted)
            fix = f"{lines} in /boot/firmware/config.txt (for two pins: pwm-2chan), and reboot"
            yield fail("pwm", f"no hardware PWM on the header, and servos on pins {wanted} need it", fix)
        else:
            yield skip("pwm", "no hardware PWM on the header, and no servo that needs it")
    elif not may(block / "export", os.W_OK):
        yield (fail if wanted else warn)(
            "pwm", f"user {os.getuid()} may not write {block}/export", group_advice("gpio")
        )
    else:
        yield ok("pwm", f"{block.name} is the header's block")
    yield from _sound(machine, wanted)


def _sound(machine: Machine, wanted: list[int]) -> Iterator[Finding]:
    """Up to the Pi 4 the same block makes the analogue sound."""
    text = next(filter(None, (machine.text(path) for path in BOOT_CONFIG)), "")
    if wanted and re.search(r"^\s*dtparam=(?:.*,)?audio=on", text, re.MULTILINE):
        found = "dtparam=audio=on: the analogue sound takes the PWM block up to the Pi 4"
        yield warn("pwm", found, "dtparam=audio=off in /boot/firmware/config.txt, and reboot")


def buses(machine: Machine, _: Setup) -> Iterator[Finding]:
    """I2C, for boards that hang on it; no driver of reflexd's own needs it."""
    found = machine.glob("/dev", "i2c-*")
    shut = [bus.name for bus in found if not may(bus)]
    if not found:
        yield skip("i2c", "no /dev/i2c-*; no driver here needs one (dtparam=i2c_arm=on in config.txt turns it on)")
    elif shut:
        yield warn("i2c", f"user {os.getuid()} may not open {', '.join(shut)}", group_advice("i2c"))
    else:
        yield ok("i2c", ", ".join(bus.name for bus in found))


def hardware_pwm_pins(outputs: list[Output]) -> list[int]:
    """The pins of servos that are pulsed by the block."""
    return [output.pin for output in outputs if isinstance(output, ServoOutput) and not output.software_pwm]


def _labels(setup: Setup) -> list[str]:
    """Of the chips the configuration accepts."""
    chosen = {table.chip for table in setup.actuators.values() if table.driver == "gpio"} or {"auto"}
    return list(dict.fromkeys(board.label for chip in chosen for board in boards(chip)))
