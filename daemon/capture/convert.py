"""Raw pictures to grey or RGB: the only place where pixel formats are converted.

Formats that are grey or RGB already are exact. YUV goes through the matrix of its picture, ITU-R BT.601 or BT.709,
limited or full range; chroma samples are repeated, not interpolated. The arithmetic is fixed point with
:data:`FRACTION_BITS` fractional bits in 16 bits, which SIMD units do eight or more at a time: each value is within
0.55 of the exact one, so at most one step from its rounded value.
"""

from __future__ import annotations

import functools
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from daemon.capture.raw import RawPicture
from daemon.pixels import Pixels

FRACTION_BITS = 5
"""The largest sum, BT.709 blue in limited range, still fits into 15 bits and a sign."""
Matrix = Literal["bt601", "bt709"]
_ONE = 1 << FRACTION_BITS
_KR_KB: dict[Matrix, tuple[float, float]] = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722)}
"""Weights of red and blue in luma, from the two recommendations."""
_ORDER = {"bgr24": (2, 1, 0), "rgbx": (0, 1, 2), "bgrx": (2, 1, 0)}
"""Where red, green and blue lie in a pixel."""

Table = NDArray[np.int16]


class Converter:
    """Converts the pictures of one source; what it needs for that is allocated once per size."""

    def __init__(self) -> None:
        self._yuv = _Yuv(0, 0)
        self._rgb: Pixels = np.empty((0, 0, 3), np.uint8)

    def pixels(self, raw: RawPicture) -> Pixels:
        """Grey ``(h, w)`` for ``gray8``, otherwise RGB ``(h, w, 3)``; ``uint8``, C-contiguous.

        Good until the next call, or until the source's next picture if nothing had to be converted.

        Raises:
            BadPicture: a plane has too few bytes.
        """
        if raw.format == "gray8":
            return np.ascontiguousarray(raw.rows(0))
        if raw.format == "rgb24":
            return np.ascontiguousarray(raw.rows(0)).reshape(raw.height, raw.width, 3)
        if raw.format in _ORDER:
            return self._reorder(raw)
        if self._yuv.size != (raw.width, raw.height):
            self._yuv = _Yuv(raw.width, raw.height)
        return self._yuv.rgb(*_planes(raw), tables(raw.matrix, raw.full_range))

    def _reorder(self, raw: RawPicture) -> Pixels:
        if self._rgb.shape[:2] != (raw.height, raw.width):
            self._rgb = np.empty((raw.height, raw.width, 3), np.uint8)
        pixels = raw.rows(0).reshape(raw.height, raw.width, -1)
        for channel, place in enumerate(_ORDER[raw.format]):
            self._rgb[..., channel] = pixels[..., place]
        return self._rgb


class Tables:
    """What luma and chroma values add to red, green and blue, in fixed point."""

    def __init__(self, matrix: Matrix, full_range: bool) -> None:
        kr, kb = _KR_KB[matrix]
        kg = 1.0 - kr - kb
        luma, chroma = (1.0, 1.0) if full_range else (255 / 219, 255 / 224)
        self.y = _table(luma, 0 if full_range else 16) + np.int16(_ONE // 2)
        self.red_v = _table(2 * (1 - kr) * chroma, 128)
        self.green_u = _table(-2 * (1 - kb) * kb / kg * chroma, 128)
        self.green_v = _table(-2 * (1 - kr) * kr / kg * chroma, 128)
        self.blue_u = _table(2 * (1 - kb) * chroma, 128)


@functools.cache
def tables(matrix: Matrix, full_range: bool) -> Tables:
    """The tables of a matrix."""
    return Tables(matrix, full_range)


def _table(factor: float, zero: int) -> Table:
    table: Table = np.rint((np.arange(256) - zero) * factor * _ONE).astype(np.int16)
    return table


def _planes(raw: RawPicture) -> tuple[Pixels, Pixels, Pixels]:
    """Luma (h, w), and the two chroma planes as they are subsampled."""
    first = raw.rows(0)
    if raw.format == "yuyv":
        return first[:, 0::2][:, : raw.width], first[:, 1::4], first[:, 3::4]
    if raw.format == "nv12":
        chroma = raw.rows(1)
        return first, chroma[:, 0::2], chroma[:, 1::2]
    return first, raw.rows(1), raw.rows(2)


class _Yuv:
    """Scratch memory for pictures of one size."""

    def __init__(self, width: int, height: int) -> None:
        self.size = (width, height)
        self._luma = np.empty((height, width), np.int16)
        self._wide = np.empty((height, width), np.int16)
        self._sum = np.empty((height, width), np.int16)
        self._rgb: Pixels = np.empty((height, width, 3), np.uint8)

    def rgb(self, y: Pixels, u: Pixels, v: Pixels, table: Tables) -> Pixels:
        np.take(table.y, y, out=self._luma, mode="clip")
        self._channel(0, np.take(table.red_v, v, mode="clip"))
        self._channel(1, np.take(table.green_u, u, mode="clip") + np.take(table.green_v, v, mode="clip"))
        self._channel(2, np.take(table.blue_u, u, mode="clip"))
        return self._rgb

    def _channel(self, channel: int, chroma: Table) -> None:
        """Add chroma, ``(rows, columns)`` of a picture subsampled in either direction or none, to luma."""
        width, height = self.size
        rows, columns = chroma.shape
        wide = chroma
        if columns != width:
            wide = self._wide[:rows]
            wide[:, 0::2] = chroma
            wide[:, 1::2] = chroma[:, : width // 2]
        if rows == height:
            np.add(self._luma, wide, out=self._sum)
        else:
            np.add(self._luma[0::2], wide, out=self._sum[0::2])
            np.add(self._luma[1::2], wide[: height // 2], out=self._sum[1::2])
        np.right_shift(self._sum, FRACTION_BITS, out=self._sum)
        np.clip(self._sum, 0, 255, out=self._sum)
        self._rgb[..., channel] = self._sum
