"""A picture as a source has it: planes of bytes with strides, in the pixel format of the camera or decoder.

Layouts are those of V4L2 and libcamera. ``rgb24`` has red first in memory (libcamera calls that ``BGR888``), ``bgr24``
blue first; ``rgbx`` and ``bgrx`` have a fourth byte without meaning. ``yuyv`` is packed 4:2:2, ``nv12`` 4:2:0 with
interleaved chroma, ``i420``, ``i422`` and ``i444`` are planar.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from daemon.pixels import Pixels

RawFormat = Literal["gray8", "rgb24", "bgr24", "rgbx", "bgrx", "yuyv", "nv12", "i420", "i422", "i444"]
Refusal = Literal[
    "empty",  # no bytes at all
    "short",  # fewer bytes than the size and format need: half written
    "broken",  # the decoder could not make a picture of it
    "size",  # another size than the source's
    "repeated",  # the sensor time of the picture before
    "backward",  # a sensor time before that
    "future",  # a sensor time that is still to come: another clock
    "old",  # a sensor time long past: another clock, or pictures that have queued
    "identical",  # the same picture to the last bit, again and again: a camera that hangs
    "settling",  # good, but the source has just been opened or was at fault a moment ago
]
"""Why a picture of a source goes no further; each is counted."""


class Layout(NamedTuple):
    """One plane of a format: ``bytes`` hold ``pixels`` of a row; it has every ``rows``-th row of the picture."""

    bytes: int
    pixels: int = 1
    rows: int = 1


_FULL, _HALF_ROWS, _QUARTER = Layout(1), Layout(1, 2), Layout(1, 2, 2)
LAYOUTS: dict[RawFormat, tuple[Layout, ...]] = {
    "gray8": (_FULL,),
    "rgb24": (Layout(3),),
    "bgr24": (Layout(3),),
    "rgbx": (Layout(4),),
    "bgrx": (Layout(4),),
    "yuyv": (Layout(4, 2),),
    "nv12": (_FULL, Layout(2, 2, 2)),
    "i420": (_FULL, _QUARTER, _QUARTER),
    "i422": (_FULL, _HALF_ROWS, _HALF_ROWS),
    "i444": (_FULL, _FULL, _FULL),
}


def raw_bytes(form: RawFormat, width: int, height: int) -> int:
    """Bytes of a picture without padding, all planes together."""
    return sum(-(-width // plane.pixels) * plane.bytes * -(-height // plane.rows) for plane in LAYOUTS[form])


class BadPicture(ValueError):
    """A picture that goes no further.

    Args:
        reason: what it is counted as.
        detail: for a person.
        step_ns: the time its place in a file takes, see :class:`RawPicture`.
    """

    def __init__(self, reason: Refusal, detail: str, step_ns: int = 0) -> None:
        super().__init__(detail)
        self.reason: Refusal = reason
        self.step_ns = step_ns


class Plane(NamedTuple):
    """Bytes of one plane, ``stride`` of them from row to row."""

    data: bytes | memoryview
    stride: int


class RawPicture(NamedTuple):
    """A picture and when it was taken; good until the source is asked for the next one.

    ``sensor_ns`` is CLOCK_MONOTONIC; None if the picture comes from a file: it is then shown, and stamped, ``step_ns``
    after the one before. For YUV formats ``matrix`` and ``full_range`` say how they were made: limited
    range has luma 16 to 235 and chroma 16 to 240, full range 0 to 255.
    """

    format: RawFormat
    width: int
    height: int
    planes: tuple[Plane, ...]
    sensor_ns: int | None
    matrix: Literal["bt601", "bt709"] = "bt601"
    full_range: bool = False
    step_ns: int = 0

    def rows(self, index: int) -> Pixels:
        """Plane ``index`` in place, without the padding of its rows: ``uint8``, shape (rows, bytes in a row).

        Raises:
            BadPicture: there are fewer bytes than that.
        """
        layout, plane = LAYOUTS[self.format][index], self.planes[index]
        rows, row_bytes = -(-self.height // layout.rows), -(-self.width // layout.pixels) * layout.bytes
        data = np.frombuffer(plane.data, np.uint8)
        needed = (rows - 1) * plane.stride + row_bytes
        if len(data) < needed:
            what = f"{self.format} {self.width}x{self.height}, plane {index}: expected {needed} bytes, got {len(data)}"
            raise BadPicture("short" if len(data) else "empty", what)
        if plane.stride == row_bytes:
            return data[:needed].reshape(rows, row_bytes)
        return np.lib.stride_tricks.as_strided(data, (rows, row_bytes), (plane.stride, 1), writeable=False)


def packed(pixels: Pixels, sensor_ns: int | None, step_ns: int = 0) -> RawPicture:
    """A picture that is already grey ``(h, w)`` or RGB ``(h, w, 3)``, ``uint8``, C-contiguous."""
    height, width = pixels.shape[:2]
    plane = Plane(pixels.reshape(-1).data, pixels.strides[0])
    form: RawFormat = "gray8" if pixels.ndim == 2 else "rgb24"
    return RawPicture(form, width, height, (plane,), sensor_ns, step_ns=step_ns)
