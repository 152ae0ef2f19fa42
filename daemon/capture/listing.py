"""``reflexd sources``: which cameras there are, what they offer, what is missing, and why."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from daemon.capture.devices import holders_text
from daemon.capture.open import importing, unusable

DEVICES, NAMES = Path("/dev"), Path("/sys/class/video4linux")
_FORMATS = {"mjpeg": "mjpeg", "yuyv422": "yuyv", "nv12": "nv12"}
"""FFmpeg's names of the formats a ``v4l2`` source takes, and ours."""
_NAMELESS = "Unsupported"
_OF_LIBCAMERA = ("unicam", "rp1-cfe", "bcm2835-isp", "bcm2835-codec", "pispbe", "rpivid", "rpi-hevc")
"""How the names of a Pi's own video devices begin: parts of its camera and its decoders."""


class Offer(NamedTuple):
    """A format of a camera and the sizes it has in it; or ``not read`` and the names of all other formats."""

    format: str
    sizes: str


def report() -> list[str]:
    """Everything, in lines."""
    return [*_v4l2(), *_picamera2(), *_screen(), *_files()]


def v4l2_lines(devices: Path, names: Path, offers: Callable[[Path], list[Offer]]) -> list[str]:
    """The Video4Linux cameras.

    Args:
        devices: ``/dev``.
        names: ``/sys/class/video4linux``.
        offers: asks a device for its formats; raises OSError, also for a device that is no camera.
    """
    nodes = sorted(devices.glob("video[0-9]*"), key=lambda node: int(node.name.removeprefix("video")))
    own, lines = 0, []
    for node in nodes:
        name = _text(names / node.name / "name")
        if is_part_of_pi(name):
            own += 1
            continue
        lines += _device_lines(node, name, _stable(devices, node), offers)
    if own:
        lines.append(f"  ({own} devices of the Pi's own camera and decoders left out: see picamera2)")
    if not nodes:
        lines.append(
            f"  none: there is no {devices}/video*: nothing is plugged in, or its driver is not loaded (dmesg)"
        )
    return lines


def is_part_of_pi(name: str) -> bool:
    """Whether a video device of this name is a part of a Pi's own camera or a decoder: no camera by itself."""
    return name.startswith(_OF_LIBCAMERA)


def _device_lines(node: Path, name: str, stable: Path, offers: Callable[[Path], list[Offer]]) -> list[str]:
    head = f"  {stable} ({node.name}, {name or 'without a name'})"
    if not os.access(node, os.R_OK | os.W_OK):
        return [f"{head}: no permission: the user must be in group video (sudo usermod -aG video $USER)"]
    try:
        found = offers(node)
    except OSError as error:
        if error.errno == errno.EBUSY:
            return [f"{head}: busy: {holders_text([node])}"]
        return [f"{head}: not a camera that can be read: {error.strerror or error}"]
    return [head, *(f"    {offer.format}: {offer.sizes}" for offer in found)]


def parse_offers(log: str) -> list[Offer]:
    """The formats that a ``v4l2`` source takes in what FFmpeg's ``list_formats`` says, and last the others in one.

    A line is ``Raw|Compressed : NAME : DESCRIPTION : SIZE SIZE ...``; NAME is ``Unsupported`` if FFmpeg has none.
    """
    found = re.findall(r"(?:Raw|Compressed)\s*:\s*(\S*)\s*:.* :(.*)", log)
    read = [Offer(_FORMATS[name], " ".join(sizes.split())) for name, sizes in found if name in _FORMATS]
    others = [name for name, _ in found if name not in _FORMATS]
    if not others:
        return read
    named = sorted(set(others) - {_NAMELESS})
    nameless = others.count(_NAMELESS)
    return [*read, Offer("not read", " ".join([*named, f"({nameless} without a name)"] if nameless else named))]


def _v4l2() -> list[str]:
    head = 'kind = "v4l2": USB and other Video4Linux cameras'
    try:
        with importing("av"):
            from daemon.capture.v4l2 import offered
    except ImportError as error:
        return [head, f"  missing: {unusable(error)}"]
    return [head, *v4l2_lines(DEVICES, NAMES, lambda node: parse_offers(offered(node)))]


def _picamera2() -> list[str]:
    head = 'kind = "picamera2": cameras of libcamera'
    try:
        with importing("picamera2"):
            from daemon.capture.picamera2 import cameras
    except ImportError as error:
        return [head, f"  missing: {unusable(error)}"]
    found = [f"  {line}" for line in cameras()]
    return [head, *(found or ["  none: libcamera finds none: cable seated? (dmesg; rpicam-hello --list-cameras)"])]


def _screen() -> list[str]:
    head = 'kind = "screen": a part of an X11 screen'
    try:
        with importing("mss"):
            from daemon.capture.screen import screen_size
    except ImportError as error:
        return [head, f"  missing: {unusable(error)}"]
    display = os.environ.get("DISPLAY", "")
    if not display:
        return [head, "  none: $DISPLAY is not set: no X server in this session (set display in the configuration)"]
    try:
        width, height = screen_size(display)
    except OSError as error:
        return [head, f"  none: {error}"]
    return [head, f"  display {display}: {width}x{height}"]


def _files() -> list[str]:
    head = 'kind = "video": video files'
    try:
        with importing("av"):
            import av
    except ImportError as error:
        return [head, f"  missing: {unusable(error)}"]
    others = 'kind = "frames": folders of pictures and donkeycar tubs; kind = "synthetic": a test picture'
    return [head, f"  PyAV {av.__version__}", others, "  always there"]


def _stable(devices: Path, node: Path) -> Path:
    """The name of a device that stays with its camera, if it has one."""
    for folder in ("by-id", "by-path"):
        for link in sorted((devices / "v4l" / folder).glob("*")):
            if link.resolve() == node.resolve():
                return link
    return node


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
