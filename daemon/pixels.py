"""Fitting a raw camera picture to the view a model takes: crop, colour, resize, once per source view.

Training code uses the same :func:`fit`, so a policy sees on the device what it saw when it learned.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from daemon.views import PILLOW_MODE, Crop, View

Pixels = NDArray[np.uint8]


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
    if not crop.within(width, height):
        raise ValueError(f"view {view.name}: crop {crop} lies outside the {width}x{height} picture of the source")
    if raw.shape == view.shape and (crop.width, crop.height) == (width, height):
        return raw
    picture = Image.fromarray(raw).convert(PILLOW_MODE[view.format])
    box = (crop.x, crop.y, crop.x + crop.width, crop.y + crop.height)
    if view.letterbox is None:
        return np.asarray(picture.resize((view.width, view.height), Image.Resampling.BOX, box=box))
    left, top, inner_width, inner_height = place(crop, view)
    fitted = np.full(view.shape, view.letterbox, np.uint8)
    fitted[top : top + inner_height, left : left + inner_width] = np.asarray(
        picture.resize((inner_width, inner_height), Image.Resampling.BOX, box=box)
    )
    return fitted


def place(crop: Crop, view: View) -> tuple[int, int, int, int]:
    """Left, top, width and height, within a letterboxed view, of the largest picture with the crop's proportions."""
    scale = min(view.width / crop.width, view.height / crop.height)
    width, height = max(1, round(crop.width * scale)), max(1, round(crop.height * scale))
    return (view.width - width) // 2, (view.height - height) // 2, width, height
