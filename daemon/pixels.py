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
    if crop.x + crop.width > width or crop.y + crop.height > height:
        raise ValueError(f"view {view.name}: crop {crop} lies outside the {width}x{height} picture of the source")
    if raw.shape == view.shape and (crop.width, crop.height) == (width, height):
        return raw
    picture = Image.fromarray(raw).convert(PILLOW_MODE[view.format])
    box = (crop.x, crop.y, crop.x + crop.width, crop.y + crop.height)
    return np.asarray(picture.resize((view.width, view.height), Image.Resampling.BOX, box=box))
