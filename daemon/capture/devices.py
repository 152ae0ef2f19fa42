"""Camera devices: where a stable path leads now, who holds a busy one, and what an error of one means."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from daemon.capture.source import SourceAbsent, SourceFailed

_GONE = (errno.ENODEV, errno.ENXIO, errno.ENOENT)


def present(device: str) -> Path:
    """The device node to which a stable path leads now: after a replug it may be another.

    Raises:
        SourceAbsent: it leads nowhere.
    """
    try:
        return Path(device).resolve(strict=True)
    except OSError:
        raise SourceAbsent(f"{device} is not there: unplugged, or named otherwise (see reflexd sources)") from None


def explained(error: OSError, device: str) -> OSError:
    """What an error of a device means: absent if it is gone, failed otherwise, with what to do."""
    if error.errno in _GONE:
        return SourceAbsent(f"{device} is gone: {error.strerror}")
    if error.errno == errno.EBUSY:
        return SourceFailed(f"{device} is busy: {holders_text([Path(device)])}")
    if error.errno in (errno.EACCES, errno.EPERM):
        return SourceFailed(f"{device}: {error.strerror}: the user of this process must be in group video")
    return SourceFailed(f"{device}: {error.strerror or error}")


def holders_text(devices: list[Path]) -> str:
    """Who has one of the devices open, for a message, with what to do."""
    found = sorted(set(holders(devices)))
    if not found:
        return "held by a process of another user: `sudo fuser -v DEVICE` names it"
    return f"held by {', '.join(f'{name} (pid {pid})' for pid, name in found)}: stop that first"


def holders(devices: list[Path]) -> Iterator[tuple[int, str]]:
    """Pid and name of the other processes that have one of these files open, as far as this user may look."""
    wanted = {_identity(device.stat()) for device in devices if device.exists()}
    for process in Path("/proc").glob("[0-9]*"):
        pid = int(process.name)
        if pid == os.getpid():
            continue
        try:
            descriptors = list((process / "fd").iterdir())
            name = (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            continue
        for descriptor in descriptors:
            try:
                found = _identity(descriptor.stat())
            except OSError:
                continue
            if found in wanted:
                yield pid, name


def mapped_here(device: Path) -> bool:
    """Whether this process has memory of a device mapped: it is busy then, though nothing here has it open."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    return any(line.split(maxsplit=5)[5:] == [str(device)] for line in maps.splitlines())


def _identity(status: os.stat_result) -> tuple[int, ...]:
    """Equal for two names of one device, whichever file systems they are on."""
    if stat.S_ISCHR(status.st_mode):
        return (status.st_rdev,)
    return status.st_dev, status.st_ino
