"""A moving test picture: what a camera process does, without a camera."""

from __future__ import annotations

import numpy as np

from daemon.capture.raw import RawPicture, packed
from daemon.pixels import Pixels
from daemon.sources import Synthetic

BAR_PIXELS_PER_FRAME = 4


class SyntheticCamera:
    """Colour gradients under a bright bar that moves from left to right; equal frame numbers give equal pictures."""

    late, note = 0, ""

    def __init__(self, table: Synthetic) -> None:
        self._period_ns = round(1e9 / table.fps)
        self._width = table.width
        self._background = np.empty((table.height, table.width, 3), np.uint8)
        self._background[..., 0] = np.linspace(0, 200, table.width, dtype=np.uint8)
        self._background[..., 1] = np.linspace(0, 200, table.height, dtype=np.uint8)[:, None]
        self._background[..., 2] = 96
        self._bar = max(1, table.width // 16)
        self._number = 0

    def read(self) -> RawPicture | None:
        """The next picture, a period after the one before."""
        picture = self.picture(self._number)
        self._number += 1
        return packed(picture, None, self._period_ns)

    def picture(self, number: int) -> Pixels:
        """Picture ``number``: ``uint8`` RGB ``(height, width, 3)``."""
        left = number * BAR_PIXELS_PER_FRAME % self._width
        picture = self._background.copy()
        picture[:, left : left + self._bar] = 255
        return picture

    def close(self) -> None:
        """Nothing is held."""
