"""Test cards: known colours as raw pictures of any format and alignment, and what must come of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daemon.capture.raw import LAYOUTS, Plane, RawFormat, RawPicture
from daemon.pixels import Pixels

BARS = {  # ITU-R BT.601, limited range, 100 % colour bars: Y, Cb, Cr as the recommendation has them, and RGB
    "white": ((235, 128, 128), (255, 255, 255)),
    "yellow": ((210, 16, 146), (255, 255, 0)),
    "cyan": ((170, 166, 16), (0, 255, 255)),
    "green": ((145, 54, 34), (0, 255, 0)),
    "magenta": ((106, 202, 222), (255, 0, 255)),
    "red": ((81, 90, 240), (255, 0, 0)),
    "blue": ((41, 240, 110), (0, 0, 255)),
    "black": ((16, 128, 128), (0, 0, 0)),
}


def colour_card(width: int, height: int) -> Pixels:
    """RGB ``(height, width, 3)``: a ramp in each channel, with a corner that tells left from right and up from down."""
    card = np.empty((height, width, 3), np.uint8)
    card[..., 0] = np.arange(width) * 255 // max(1, width - 1)
    card[..., 1] = (np.arange(height) * 255 // max(1, height - 1))[:, None]
    card[..., 2] = (np.arange(width) + np.arange(height)[:, None]) % 256
    card[: height // 4, : width // 4] = (255, 0, 64)
    return card


def plane(rows: Pixels, alignment: int) -> Plane:
    """Rows ``(rows, bytes)`` with padding of a telling value up to a multiple of ``alignment``, the last row too."""
    height, width = rows.shape
    stride = -(-width // alignment) * alignment
    padded = np.full((height, stride), 0xA5, np.uint8)
    padded[:, :width] = rows
    return Plane(padded.reshape(-1).data, stride)


def raw(form: RawFormat, width: int, height: int, rows: list[Pixels], alignment: int = 1, **more: object) -> RawPicture:
    """A raw picture out of the unpadded rows of its planes."""
    planes = tuple(plane(each, alignment) for each in rows)
    return RawPicture(form, width, height, planes, 1, **more)  # type: ignore[arg-type]


def rgb_rows(form: RawFormat, card: Pixels) -> Pixels:
    """An RGB card in one of the packed RGB formats."""
    height, width = card.shape[:2]
    order = card[..., ::-1] if form.startswith("bgr") else card
    if form.endswith("x"):
        order = np.concatenate([order, np.full((height, width, 1), 0x5A, np.uint8)], axis=2)
    return np.ascontiguousarray(order).reshape(height, -1)


def noise_rows(form: RawFormat, width: int, height: int, seed: int = 1) -> list[Pixels]:
    """Random planes of a format: every value a byte can have."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(0, 256, (-(-height // part.rows), -(-width // part.pixels) * part.bytes), dtype=np.uint8)
        for part in LAYOUTS[form]
    ]


def full_chroma(form: RawFormat, width: int, height: int, rows: list[Pixels]) -> NDArray[np.uint8]:
    """Y, Cb, Cr of each pixel ``(height, width, 3)``, read pixel by pixel as the format's definition says."""
    found = np.empty((height, width, 3), np.uint8)
    for y in range(height):
        for x in range(width):
            found[y, x] = _pixel(form, rows, x, y)
    return found


def _pixel(form: RawFormat, rows: list[Pixels], x: int, y: int) -> tuple[int, int, int]:
    if form == "yuyv":
        group = rows[0][y, x // 2 * 4 : x // 2 * 4 + 4]
        return group[x % 2 * 2], group[1], group[3]
    if form == "nv12":
        return rows[0][y, x], rows[1][y // 2, x // 2 * 2], rows[1][y // 2, x // 2 * 2 + 1]
    across, down = {"i420": (2, 2), "i422": (2, 1), "i444": (1, 1)}[form]
    return rows[0][y, x], rows[1][y // down, x // across], rows[2][y // down, x // across]


def exact_rgb(ycc: NDArray[np.uint8], kr: float, kb: float, full_range: bool) -> NDArray[np.float64]:
    """RGB from the recommendation's definition of Y, Cb and Cr, in floating point, clipped and not rounded."""
    values = ycc.astype(float)
    luma = values[..., 0] / 255 if full_range else (values[..., 0] - 16) / 219
    cb, cr = ((values[..., i] - 128) / (255 if full_range else 224) for i in (1, 2))
    red = luma + 2 * (1 - kr) * cr
    blue = luma + 2 * (1 - kb) * cb
    green = (luma - kr * red - kb * blue) / (1 - kr - kb)
    return np.clip(np.stack([red, green, blue], -1) * 255, 0, 255)
