"""A moving test picture: what a camera process does, without a camera."""

from __future__ import annotations

import numpy as np

from daemon.pixels import Pixels
from daemon.sources import Synthetic

BAR_PIXELS_PER_FRAME = 4


class SyntheticCamera:
    """Colour gradients under a bright bar that moves from left to right; equal frame numbers give equal pictures."""

    def __init__(self, source: Synthetic) -> None:
        self._width = source.width
        self._picture = np.empty((source.height, source.width, 3), np.uint8)
        self._picture[..., 0] = np.linspace(0, 200, source.width, dtype=np.uint8)
        self._picture[..., 1] = np.linspace(0, 200, source.height, dtype=np.uint8)[:, None]
        self._picture[..., 2] = 96
        self._bar = max(1, source.width // 16)

    def picture(self, number: int) -> Pixels:
        """Picture ``number``: ``uint8`` RGB ``(height, width, 3)``."""
        left = number * BAR_PIXELS_PER_FRAME % self._width
        picture = self._picture.copy()
        picture[:, left : left + self._bar] = 255
        return picture
