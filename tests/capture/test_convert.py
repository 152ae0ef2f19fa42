"""Every pixel format, width and alignment comes out as the colours it stands for."""

from __future__ import annotations

import numpy as np
import pytest

from daemon.capture.convert import Converter
from daemon.capture.raw import LAYOUTS, BadPicture, Plane, RawFormat, packed
from tests.capture.cards import BARS, colour_card, exact_rgb, full_chroma, noise_rows, raw, rgb_rows

SIZES = [(16, 16), (17, 5), (100, 75), (640, 16), (642, 6)]
ALIGNMENTS = [1, 32, 64, 128]
RGB: list[RawFormat] = ["rgb24", "bgr24", "rgbx", "bgrx"]
YUV: list[RawFormat] = ["yuyv", "nv12", "i420", "i422", "i444"]
STEP = 0.56
"""Half a step of rounding, and what the fixed point adds."""


@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("form", RGB)
def test_rgb_in_either_order_is_exact(form: RawFormat, size: tuple[int, int], alignment: int) -> None:
    card = colour_card(*size)
    found = Converter().pixels(raw(form, *size, [rgb_rows(form, card)], alignment))
    assert np.array_equal(found, card)
    assert found.flags.c_contiguous


@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_grey_is_exact(size: tuple[int, int], alignment: int) -> None:
    card = np.ascontiguousarray(colour_card(*size)[..., 2])
    assert np.array_equal(Converter().pixels(raw("gray8", *size, [card], alignment)), card)


@pytest.mark.parametrize("full_range", [False, True], ids=["limited", "full"])
@pytest.mark.parametrize(("matrix", "kr", "kb"), [("bt601", 0.299, 0.114), ("bt709", 0.2126, 0.0722)])
@pytest.mark.parametrize("form", YUV)
def test_yuv_is_within_rounding_of_the_recommendation(
    form: RawFormat, matrix: str, kr: float, kb: float, full_range: bool
) -> None:
    width, height = 66, 35
    rows = noise_rows(form, width, height)
    found = Converter().pixels(raw(form, width, height, rows, matrix=matrix, full_range=full_range))
    wanted = exact_rgb(full_chroma(form, width, height, rows), kr, kb, full_range)
    assert np.abs(found - wanted).max() <= STEP


@pytest.mark.parametrize("size", [(16, 16), (15, 7), (100, 75), (640, 16)], ids=str)
@pytest.mark.parametrize("form", YUV)
def test_yuv_does_not_depend_on_the_alignment(form: RawFormat, size: tuple[int, int]) -> None:
    rows = noise_rows(form, *size)
    wanted = exact_rgb(full_chroma(form, *size, rows), 0.299, 0.114, False)
    converter = Converter()
    for alignment in ALIGNMENTS:
        found = converter.pixels(raw(form, *size, rows, alignment))
        assert np.abs(found - wanted).max() <= STEP, alignment


@pytest.mark.parametrize("name", BARS)
def test_the_colour_bars_of_the_recommendation(name: str) -> None:
    (y, u, v), colour = BARS[name]
    rows = [np.full((4, 4), y, np.uint8), np.full((2, 2), u, np.uint8), np.full((2, 2), v, np.uint8)]
    found = Converter().pixels(raw("i420", 4, 4, rows))
    assert np.abs(found.astype(int) - colour).max() <= 1


def test_a_size_that_changes_and_a_format_that_changes_are_followed() -> None:
    converter = Converter()
    for form in (*YUV, *RGB, *YUV):
        for size in ((16, 16), (20, 10)):
            found = converter.pixels(raw(form, *size, noise_rows(form, *size)))
            assert found.shape == (size[1], size[0], 3)


@pytest.mark.parametrize("form", LAYOUTS)
def test_a_half_written_picture_is_refused_with_the_numbers(form: RawFormat) -> None:
    whole = raw(form, 32, 16, noise_rows(form, 32, 16), 64)
    last = len(whole.planes) - 1
    for index in range(last + 1):
        row_bytes = whole.rows(index).shape[1]
        data, stride = whole.planes[index]
        needed = (len(whole.rows(index)) - 1) * stride + row_bytes
        planes = list(whole.planes)
        planes[index] = Plane(bytes(data)[:needed], stride)
        Converter().pixels(whole._replace(planes=tuple(planes)))  # the padding of the last row may be missing
        planes[index] = Plane(bytes(data)[: needed - 1], stride)
        with pytest.raises(BadPicture, match=f"expected {needed} bytes, got {needed - 1}") as short:
            Converter().pixels(whole._replace(planes=tuple(planes)))
        assert short.value.reason == "short"
        planes[index] = Plane(b"", stride)
        with pytest.raises(BadPicture) as empty:
            Converter().pixels(whole._replace(planes=tuple(planes)))
        assert empty.value.reason == "empty"


def test_pictures_that_need_no_conversion_are_not_copied() -> None:
    for picture in (colour_card(8, 8), colour_card(8, 8)[..., 0].copy()):
        assert np.shares_memory(Converter().pixels(packed(picture, 1)), picture)
