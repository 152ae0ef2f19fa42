"""Fitting a raw camera picture to the view a model takes: crop, colour, resize, once per source view.

A *view* is what lands in a frame ring and what the exported graph reads, always ``uint8``. Training code uses
the same :func:`fit`, so a policy sees on the device what it saw when it learned.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]
PixelFormat = Literal["gray8", "rgb24"]

CHANNELS: dict[PixelFormat, int] = {"gray8": 1, "rgb24": 3}
_PIL_MODE: dict[PixelFormat, str] = {"gray8": "L", "rgb24": "RGB"}
MAX_SIDE = 4096
"""Largest width or height of a view, pixels: above any camera mode of a Pi-class board."""

Side = Annotated[int, msgspec.Meta(ge=1, le=MAX_SIDE)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=MAX_SIDE - 1)]


class Crop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rectangle of the raw picture a view is made of, in raw pixels; ``x``, ``y`` is its top left corner."""

    x: Offset
    y: Offset
    width: Side
    height: Side


class View(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Shape and colour of the frames one model reads from one source.

    ``gray8`` is ITU-R 601 luma. Resizing averages over the area that falls into a pixel (box filter).
    """

    width: Side
    height: Side
    format: PixelFormat
    crop: Crop | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Array shape of one frame: ``(height, width)`` for gray8, ``(height, width, 3)`` for rgb24."""
        size = (self.height, self.width)
        return size if self.format == "gray8" else (*size, CHANNELS[self.format])

    @property
    def nbytes(self) -> int:
        """Bytes of one frame, rows packed without padding."""
        return self.width * self.height * CHANNELS[self.format]

    @property
    def name(self) -> str:
        """Short text that is equal exactly for equal views: it names the ring file."""
        crop = "" if self.crop is None else f"-{self.crop.x}.{self.crop.y}.{self.crop.width}.{self.crop.height}"
        return f"{self.width}x{self.height}-{self.format}{crop}"


def fit(raw: Pixels, view: View) -> Pixels:
    """Fit ``raw`` to ``view``.

    Args:
        raw: ``uint8`` picture, ``(h, w)`` grey or ``(h, w, 3)`` RGB, C-contiguous.
        view: what the model takes.

    Returns:
        ``uint8`` array of ``view.shape``; ``raw`` itself when it already is that.

    Raises:
        ValueError: the crop lies outside the picture.
    """
    height, width = raw.shape[:2]
    crop = view.crop or Crop(0, 0, width, height)
    if crop.x + crop.width > width or crop.y + crop.height > height:
        raise ValueError(f"view {view.name}: crop {crop} lies outside the {width}x{height} picture of the source")
    if raw.shape == view.shape and (crop.width, crop.height) == (width, height):
        return raw
    picture = Image.fromarray(raw).convert(_PIL_MODE[view.format])
    box = (crop.x, crop.y, crop.x + crop.width, crop.y + crop.height)
    return np.asarray(picture.resize((view.width, view.height), Image.Resampling.BOX, box=box))
