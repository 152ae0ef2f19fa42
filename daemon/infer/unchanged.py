"""The change gate: frames on which nothing has changed need no inference, the decision before them still holds. Pure.

A picture is compared by the mean brightness of 64x64 parts of it, which sensor noise moves little. It is compared with
the first frame that looked like this, so that a slow change adds up and is a change in the end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daemon.infer.decode import Decision
from daemon.pixels import Pixels

PARTS = 64
"""Rows and columns of parts, fewer where the picture has fewer pixels."""
SAMPLES = 192
"""Of larger pictures about this many rows and columns are looked at."""
MOST_SKIPPED = 20
"""After so many frames in a row one is decided on all the same: nothing relies for ever on what one inference said."""


class ChangeGate:
    """Of one agent.

    Args:
        threshold: a part changes if its mean brightness does by this much or more, 0 to 255.
        span_ns: from the oldest to the newest frame of an observation: only after nothing has changed for that long
            do all of them show the same.
    """

    def __init__(self, threshold: float, span_ns: int) -> None:
        self._threshold, self._span_ns = threshold, span_ns
        self._parts: NDArray[np.float64] | None = None
        self._since_ns = 0
        self._decision: Decision | None = None
        self._row = 0
        self.skipped = 0
        """Frames that were not decided on."""

    def look(self, pixels: Pixels, sensor_ns: int) -> Decision | None:
        """The decision that still holds for this frame, or None if it has to be decided on.

        Args:
            pixels: ``uint8``, grey ``(h, w)`` or RGB ``(h, w, 3)``.
            sensor_ns: of the frame.
        """
        parts = mean_parts(pixels)
        known = self._parts
        if known is None or known.shape != parts.shape or np.abs(parts - known).max() >= self._threshold:
            self._parts, self._since_ns, self._decision, self._row = parts, sensor_ns, None, 0
        if self._decision is None or self._row >= MOST_SKIPPED:
            return None
        self._row += 1
        self.skipped += 1
        return self._decision

    def decided(self, decision: Decision, sensor_ns: int) -> None:
        """A decision was made on the frame of ``sensor_ns``."""
        if sensor_ns >= self._since_ns + self._span_ns:
            self._decision, self._row = decision, 0


def mean_parts(pixels: Pixels) -> NDArray[np.float64]:
    """Mean brightness of the parts of a picture."""
    down, across = (max(1, side // SAMPLES) for side in pixels.shape[:2])
    few = pixels[::down, ::across]
    few = few.reshape(*few.shape[:2], -1)
    rows, columns = _edges(few.shape[0]), _edges(few.shape[1])
    sums = np.add.reduceat(np.add.reduceat(few, rows, axis=0, dtype=np.uint32), columns, axis=1).sum(axis=2)
    counts = np.diff(rows, append=few.shape[0])[:, None] * np.diff(columns, append=few.shape[1])
    means: NDArray[np.float64] = sums / (counts * few.shape[2])
    return means


def _edges(length: int) -> NDArray[np.intp]:
    """Where each part of a side begins."""
    parts = min(PARTS, length)
    return np.arange(parts) * length // parts
