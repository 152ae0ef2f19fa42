"""Finds the GPIO chip that has the header's pins, by its label: the numbers change with kernel and board."""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Sequence
from pathlib import Path

from daemon.actuate.drivers import DriverError

DEV = Path("/dev")
GROUP_ADVICE = (
    f"expected user {os.getuid()} to be in the group gpio: sudo usermod -aG gpio USER and log in anew; for a service, "
    "SupplementaryGroups=gpio"
)
_CHIPINFO_IOCTL = 0x8044B401
"""``GPIO_GET_CHIPINFO_IOCTL`` of linux/gpio.h: name and label, 32 bytes each, and the number of lines."""
_CHIPINFO_BYTES = 68


def find_chip(labels: Sequence[str], dev: Path = DEV) -> int:
    """The number of the first chip with one of the labels.

    Raises:
        DriverError: there is none, or it may not be opened.
    """
    found = []
    for path in sorted(dev.glob("gpiochip*"), key=lambda path: (len(path.name), path.name)):
        if path.is_symlink():  # Raspberry Pi OS keeps an old number alive this way
            continue
        try:
            label = _label(path)
        except OSError as error:
            advice = f": {GROUP_ADVICE}" if error.errno in (errno.EACCES, errno.EPERM) else ""
            raise DriverError(f"{path}: {error.strerror}{advice}") from None
        if label in labels:
            return int(re.sub(r"\D", "", path.name))
        found.append(f"{path.name} is {label}")
    raise DriverError(
        f"{dev}: expected a GPIO chip with the label {' or '.join(labels)}, found {', '.join(found) or 'none'}: "
        "is this a Raspberry Pi, and does chip in the configuration name its chip?"
    )


def _label(path: Path) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        info = fcntl.ioctl(fd, _CHIPINFO_IOCTL, bytes(_CHIPINFO_BYTES))
    finally:
        os.close(fd)
    return info[32:64].split(b"\0")[0].decode(errors="replace")
