"""Heat and power: what slows a board down or resets it, now and since it was started."""

from __future__ import annotations

import re
from collections.abc import Iterator

from daemon.doctor.finding import Finding, fail, ok, skip, warn
from daemon.doctor.machine import Machine, number_of, text_of
from daemon.doctor.setup import Setup

FLAGS = "/sys/devices/platform/soc/soc:firmware/get_throttled"
"""The firmware's flags, hexadecimal; the same number as `vcgencmd get_throttled` has."""
BITS = {0: "under-voltage", 1: "clock capped", 2: "throttled", 3: "soft temperature limit"}
"""What holds now; 16 bits higher, what has been since the boot."""
SINCE_BOOT = 16
WARM_C, HOT_C = 70.0, 80.0
"""A Pi's firmware caps the clock from 80 degrees on (a 3B+ from 60), and stops at 85."""
FULL_SUPPLY_MA = 5000
"""A Pi 5 gives its USB ports their full current only on such a supply."""

_POWER = "a supply of the board's own (5 V at the board under load), a short thick cable, servos on a supply of theirs"
_COOL = "a heat sink or fan, air around the board, fewer decisions per second"


def throttling(machine: Machine, _: Setup) -> Iterator[Finding]:
    """The firmware's flags, with what it remembers since the boot."""
    flags = _flags(machine)
    if flags is None:
        why = "the firmware does not answer (vcgencmd needs group video)" if machine.is_pi() else "not a Raspberry Pi"
        yield skip("throttling", why)
        return
    now = [text for bit, text in BITS.items() if flags >> bit & 1]
    before = [text for bit, text in BITS.items() if flags >> (bit + SINCE_BOOT) & 1 and text not in now]
    found = f"0x{flags:x}: now: {', '.join(now) or 'nothing'}; earlier since the boot: {', '.join(before) or 'nothing'}"
    if not now and not before:
        yield ok("throttling", found)
        return
    fixes = [_POWER] if BITS[0] in now + before else []
    fixes += [_COOL] if {BITS[1], BITS[2], BITS[3]} & {*now, *before} else []
    judged = fail if BITS[0] in now else warn
    yield judged("throttling", found, "; ".join(fixes))


def _flags(machine: Machine) -> int | None:
    text = machine.text(FLAGS) or machine.answer("vcgencmd", "get_throttled") or ""
    found = re.fullmatch(r"(?:throttled=)?(?:0x)?([0-9a-fA-F]+)", text)
    return int(found[1], 16) if found else None


def temperature(machine: Machine, _: Setup) -> Iterator[Finding]:
    """The hottest zone, and the fan."""
    zones = machine.glob("/sys/class/thermal", "thermal_zone*")
    readings = {text_of(zone / "type") or zone.name: number_of(zone / "temp") for zone in zones}
    known = {name: milli / 1e3 for name, milli in readings.items() if milli is not None}
    if not known:
        yield skip("temperature", "this machine has no thermal zone that can be read")
        return
    name, degrees = max(known.items(), key=lambda reading: reading[1])
    found = f"{name} {degrees:.0f} °C{_fan(machine)}"
    if degrees < WARM_C:
        yield ok("temperature", found)
    else:
        slow = f"the firmware slows the clock from {HOT_C:.0f} °C on"
        yield warn("temperature", f"{found}; {slow}", _COOL)


def _fan(machine: Machine) -> str:
    for device in machine.glob("/sys/class/thermal", "cooling_device*"):
        if "fan" in (text_of(device / "type") or ""):
            return f", fan at step {text_of(device / 'cur_state')} of {text_of(device / 'max_state')}"
    return ""


def power(machine: Machine, _: Setup) -> Iterator[Finding]:
    """The kernel's own alarm, its log, and what the supply has said it can give."""
    alarms = [
        text_of(monitor / "in0_lcrit_alarm")
        for monitor in machine.glob("/sys/class/hwmon", "hwmon*")
        if text_of(monitor / "name") == "rpi_volt"
    ]
    if not machine.is_pi() and not alarms:
        yield skip("power", "not a Raspberry Pi: nothing here measures the supply")
        return
    logged = _logged(machine)
    found = (
        f"under-voltage alarm {'ON' if '1' in alarms else 'off' if alarms else 'not there'}{logged}{_supply(machine)}"
    )
    if "1" in alarms:
        yield fail("power", found, _POWER)
    elif logged:
        yield warn("power", found, _POWER)
    else:
        yield ok("power", found)


def _logged(machine: Machine) -> str:
    """Under-voltage in the kernel's log of the last week, as far as the journal keeps it and this user may read it."""
    lines = machine.answer(
        "journalctl",
        "-q",
        "_TRANSPORT=kernel",
        "--since=-7d",
        "-g",
        "Undervoltage detected",
        "-n",
        "20",
        "-o",
        "short-iso",
    )
    if not lines:
        return ""
    times = [line.split()[0] for line in lines.splitlines()]
    return f"; logged {len(times)} times in the last week, last at {times[-1]}"


def _supply(machine: Machine) -> str:
    """A Pi 5 asks its supply; the answer is a big-endian number of mA in the device tree."""
    try:
        current_ma = int.from_bytes(machine.path("/proc/device-tree/chosen/power/max_current").read_bytes(), "big")
    except OSError:
        return ""
    usb = "" if current_ma >= FULL_SUPPLY_MA else ": its USB ports together give 600 mA"
    return f"; the supply offers {current_ma} mA{usb}"
