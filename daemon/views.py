"""The view a model takes of a source: what part of the picture, how large, which colours. A declaration alone.

A *view* is what lands in a frame ring and what the exported graph reads, always ``uint8``. :mod:`daemon.pixels`
makes one out of a picture.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

PixelFormat = Literal["gray8", "rgb24"]

CHANNELS: dict[PixelFormat, int] = {"gray8": 1, "rgb24": 3}
PILLOW_MODE: dict[PixelFormat, str] = {"gray8": "L", "rgb24": "RGB"}
"""What Pillow calls a format."""
MAX_SIDE = 4096
"""Largest width or height of a view, pixels: above any camera mode of a Pi-class board."""

Side = Annotated[int, msgspec.Meta(ge=1, le=MAX_SIDE)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=MAX_SIDE - 1)]
Brightness = Annotated[int, msgspec.Meta(ge=0, le=255)]


class Crop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rectangle of the raw picture a view is made of, in raw pixels; ``x``, ``y`` is its top left corner."""

    x: Offset
    y: Offset
    width: Side
    height: Side

    def within(self, width: int, height: int) -> bool:
        """Whether a picture of this size has all of it."""
        return self.x + self.width <= width and self.y + self.height <= height


class View(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Shape and colour of the frames one model reads from one source.

    ``gray8`` is ITU-R 601 luma. Resizing averages over the area that falls into a pixel (box filter). ``letterbox``
    keeps the proportions of the (cropped) picture, in the middle between bars of this brightness; without it the
    picture is stretched to the view's size.
    """

    width: Side
    height: Side
    format: PixelFormat
    crop: Crop | None = None
    letterbox: Brightness | None = None

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
        bars = "" if self.letterbox is None else f"-bars{self.letterbox}"
        return f"{self.width}x{self.height}-{self.format}{crop}{bars}"
