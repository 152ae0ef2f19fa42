"""Cameras: whether they are there and whether this user may open them. None is opened."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from daemon.capture.listing import is_part_of_pi
from daemon.doctor.finding import Finding, fail, ok, skip, warn
from daemon.doctor.machine import Machine, group_advice, may, text_of
from daemon.doctor.setup import Setup
from daemon.sources import Picamera2, V4l2

_SENSOR = re.compile(r"(\S+) (\d+-[0-9a-f]{4})")
"""The name of a sensor's subdevice ends with its I2C address."""


def cameras(machine: Machine, setup: Setup) -> Iterator[Finding]:
    """Video devices, sensors on the Pi's own connector, and the configured sources among them."""
    names = {node: text_of(node / "name") or "" for node in machine.glob("/sys/class/video4linux", "*")}
    yield from _usb(machine, names)
    yield from _sensors(names, setup)
    for source, table in setup.sources(V4l2).items():
        if not machine.path(table.device).exists():
            found = f"sources.{source}: {table.device} is not there"
            yield fail("camera", found, "plug it in; reflexd sources lists names that stay the same")


def _usb(machine: Machine, names: dict[Path, str]) -> Iterator[Finding]:
    own = {node.name: name for node, name in names.items() if node.name.startswith("video") and not is_part_of_pi(name)}
    for node, name in own.items():
        device = machine.path(f"/dev/{node}")
        if may(device):
            yield ok("camera", f"{node} ({name})")
        else:
            yield warn("camera", f"{node} ({name}): user {os.getuid()} may not open it", group_advice("video"))
    if not own:
        yield skip("camera", "no USB or other Video4Linux camera")


def _sensors(names: dict[Path, str], setup: Setup) -> Iterator[Finding]:
    found = [match[1] for name in names.values() if (match := _SENSOR.fullmatch(name))]
    wanted = setup.sources(Picamera2)
    if found:
        yield ok("camera", f"on the board's connector: {', '.join(found)}")
    elif wanted and not any(isinstance(table.camera, str) for table in wanted.values()):
        fix = "power off, seat the cable at both ends; camera_auto_detect=1 in /boot/firmware/config.txt; dmesg"
        yield fail("camera", f"sources.{', '.join(wanted)}: the kernel has found no sensor on the connector", fix)
    else:
        yield skip("camera", "no sensor on a camera connector")
