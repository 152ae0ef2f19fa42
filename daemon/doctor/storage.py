"""Storage: room for frames and state, file systems that forget or have errors, and how worn a card is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from daemon.doctor.finding import Finding, fail, ok, skip, warn
from daemon.doctor.machine import Machine, bytes_text, number_of, text_of
from daemon.doctor.setup import Setup
from daemon.frames import ring_bytes
from daemon.runtime import SERVICES_STATE

LEAST_FREE = 256 * 2**20
"""On the file system of the state folder, for logs, updates and model packages."""
SECTOR = 512
GB = 1e9
BUSY_GB_A_DAY = 10.0
"""More than that wears an ordinary 32 GB card out within some years."""
LIFE = {"0x01": "up to 10 % of its life used", "0x0a": "90 to 100 % of its life used", "0x0b": "beyond its life"}
"""JEDEC 84-B51: each step of DEVICE_LIFE_TIME_EST is a tenth."""
_RENEW = "copy the card now and put in a new one, made for endurance"
_QUIETER = "find who writes: sudo iotop -ao; logs in memory: Storage=volatile in /etc/systemd/journald.conf"


def space(machine: Machine, setup: Setup) -> Iterator[Finding]:
    """Room in memory for frame rings, and on storage for the rest."""
    need = ring_need(setup)
    for folder in ("/run", "/dev/shm"):  # noqa: S108 - looked at, not written to
        yield from room(machine.path(folder), folder, need, "free memory, or smaller views: frame rings are kept there")
    state = str(SERVICES_STATE) if machine.path(str(SERVICES_STATE)).exists() else "/"
    yield from room(machine.path(state), state, LEAST_FREE, "sudo apt clean; sudo journalctl --vacuum-size=50M")


def ring_need(setup: Setup) -> int:
    """Bytes of all frame rings of the configuration; 0 where they are not known."""
    plan = setup.plan
    if plan is None or not plan.manifests:
        return 0
    sources = [*plan.config.sources, *plan.config.worlds]
    return sum(ring_bytes(view, plan.slots(source)) for source in sources for view in plan.views(source))


def room(path: Path, name: str, need: int, fix: str) -> Iterator[Finding]:
    """Whether a file system has room for so many bytes."""
    try:
        found = os.statvfs(path)
    except OSError as error:
        yield skip("space", f"{name}: {error.strerror}")
        return
    free, total = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    text = f"{name}: {bytes_text(free)} of {bytes_text(total)} free"
    text += f", {bytes_text(need)} wanted" if need else ""
    if free < need or free == 0:
        yield fail("space", text, fix)
    else:
        yield ok("space", text)


def file_systems(machine: Machine, _: Setup) -> Iterator[Finding]:
    """One that forgets at power-off forgets an emergency stop too; a damaged one ends read-only."""
    mounts = [line.split() for line in (machine.text("/proc/mounts") or "").splitlines()]
    over_state = [mount for mount in mounts if len(mount) > 3 and SERVICES_STATE.is_relative_to(mount[1])]
    if not over_state:
        yield skip("file system", "/proc/mounts cannot be read")
        return
    _device, point, kind, options, *_rest = max(reversed(over_state), key=lambda mount: len(mount[1]))
    if kind in ("overlay", "tmpfs"):
        found = f"{point} is {kind}: unless that is on storage, a latched emergency stop is gone at the next start"
        yield warn("file system", found, f"a partition of its own at {SERVICES_STATE}")
    elif "ro" in options.split(","):
        fix = f"if that is not meant: dmesg, and fsck at the next start; {SERVICES_STATE} must be writable"
        yield warn("file system", f"{point} is read-only ({kind})", fix)
    else:
        yield ok("file system", f"{point} is {kind}, writable")
    yield from _errors(machine)


def _errors(machine: Machine) -> Iterator[Finding]:
    for device in machine.glob("/sys/fs/ext4", "*"):
        count = number_of(device / "errors_count")
        if count:
            yield fail("file system", f"{device.name}: the kernel has found {count} errors in it", _RENEW)


def wear(machine: Machine, _: Setup) -> Iterator[Finding]:
    """What the card says of itself, and how much is written to it."""
    cards = [block for block in machine.glob("/sys/block", "mmcblk*") if re.fullmatch(r"mmcblk\d+", block.name)]
    if not cards:
        yield skip("card", "no SD card or eMMC")
    uptime = re.match(r"[\d.]+", machine.text("/proc/uptime") or "")
    uptime_s = float(uptime[0]) if uptime else 0.0
    for block in cards:
        yield from _card(machine, block, uptime_s)


def _card(machine: Machine, block: Path, uptime_s: float) -> Iterator[Finding]:
    kind, name = text_of(block / "device/type") or "card", text_of(block / "device/name") or "without a name"
    life = [
        LIFE.get(value.lower(), f"{int(value, 16) * 10} % of its life used at most")
        for value in _hex(block, "life_time")
    ]
    end = [int(value, 16) for value in _hex(block, "pre_eol_info")]
    per_day = _written(block) / GB / uptime_s * 86_400 if uptime_s > 3600 else None
    parts = [f"{block.name} ({kind} {name})", *dict.fromkeys(life)]
    parts += [f"{per_day:.1f} GB a day written since the boot"] if per_day is not None else []
    parts += [f"{_lifetime_gb(machine, block):.0f} GB written to its file systems in their life"]
    found = ", ".join(parts)
    if max(end, default=0) >= 2 or "beyond its life" in life:
        yield fail("card", f"{found}; its spare blocks are nearly used up", _RENEW)
    elif per_day is not None and per_day > BUSY_GB_A_DAY:
        yield warn("card", found, _QUIETER)
    else:
        yield ok("card", found if life else f"{found} (an SD card does not tell its wear)")


def _hex(block: Path, attribute: str) -> list[str]:
    """Values of an eMMC's attribute; 0x00 is not defined."""
    values = (text_of(block / "device" / attribute) or "").split()
    return [value for value in values if re.fullmatch(r"0x[0-9a-fA-F]+", value) and int(value, 16)]


def _written(block: Path) -> int:
    """Bytes since the boot: the seventh number of a block device's statistics counts sectors."""
    numbers = re.findall(r"\d+", text_of(block / "stat") or "")
    return int(numbers[6]) * SECTOR if len(numbers) > 6 else 0


def _lifetime_gb(machine: Machine, block: Path) -> float:
    parts = machine.glob("/sys/fs/ext4", f"{block.name}p*")
    return sum(number_of(part / "lifetime_write_kbytes") or 0 for part in parts) * 1024 / GB
