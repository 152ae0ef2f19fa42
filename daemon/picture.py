"""The newest frame of a source's ring as half-block characters for a terminal."""

from __future__ import annotations

import functools
from pathlib import Path

from PIL import Image
from rich.color import Color
from rich.segment import Segment, Segments
from rich.style import Style

from daemon.frames import RingError, RingReader
from daemon.views import PILLOW_MODE, View

_UPPER_HALF = "▀"
_LEVELS = 32
"""Per colour: few enough for equal neighbours to share one escape sequence, and for styles to be cached."""
_SHADE = [value - value % (256 // _LEVELS) for value in range(256)]


class Picture:
    """Follows one ring, also when its writer is replaced and makes it anew.

    Args:
        path: file of the ring.
        view: what it carries.
    """

    def __init__(self, path: Path, view: View) -> None:
        self._path, self._view = path, view
        self._reader: RingReader | None = None
        self._inode = 0

    def render(self, columns: int, rows: int) -> Segments | None:
        """The newest frame within a box of character cells, or None when there is none to be had."""
        frame = self._newest()
        if frame is None or columns < 1 or rows < 1:
            return None
        width, height = fit_cells(self._view, columns, rows)
        return half_blocks(frame.convert("RGB").resize((width, 2 * height), Image.Resampling.BOX))

    def close(self) -> None:
        """Unmap the ring."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _newest(self) -> Image.Image | None:
        """A copy of the newest frame."""
        try:
            inode = self._path.stat().st_ino
            if self._reader is None or inode != self._inode:
                # A new file is a new epoch: the writer was replaced, and the old mapping never changes again.
                self.close()
                self._reader, self._inode = RingReader(self._path), inode
        except (RingError, OSError):
            self.close()
            return None
        frame = self._reader.newest()
        view, data = self._view, None if frame is None else self._reader.copy(frame)
        return None if data is None else Image.frombytes(PILLOW_MODE[view.format], (view.width, view.height), data)


def fit_cells(view: View, columns: int, rows: int) -> tuple[int, int]:
    """Columns and rows of the largest picture in a box of cells, which are twice as high as wide.

    It has the shape of what the camera sees: a view may squeeze its crop, as Pong's halves the width.
    """
    shape = view if view.crop is None or view.letterbox is not None else view.crop
    width = min(columns, view.width, round(2 * rows * shape.width / shape.height))
    return max(1, width), max(1, min(rows, round(width * shape.height / shape.width / 2)))


def half_blocks(picture: Image.Image) -> Segments:
    """Two pixel rows per line of text: ``picture`` is RGB, of even height."""
    data = picture.point(_SHADE * 3).tobytes()
    pixels = list(zip(data[::3], data[1::3], data[2::3], strict=True))
    segments = []
    for at in range(0, len(pixels), 2 * picture.width):
        upper, lower = pixels[at : at + picture.width], pixels[at + picture.width : at + 2 * picture.width]
        segments += [Segment(_UPPER_HALF, _style(*top, *bottom)) for top, bottom in zip(upper, lower, strict=True)]
        segments.append(Segment.line())
    return Segments(Segment.simplify(segments))


@functools.lru_cache(maxsize=4096)
def _style(red: int, green: int, blue: int, lower_red: int, lower_green: int, lower_blue: int) -> Style:
    return Style(color=Color.from_rgb(red, green, blue), bgcolor=Color.from_rgb(lower_red, lower_green, lower_blue))
