"""The synthetic camera and the fit of its pictures to views."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.capture.synthetic import SyntheticCamera
from daemon.pixels import fit
from daemon.sources import Synthetic
from daemon.views import Crop, View

CAMERA = SyntheticCamera(Synthetic(width=64, height=48, fps=20.0))


def test_pictures_move_and_repeat_by_number() -> None:
    first, second = CAMERA.picture(1), CAMERA.picture(2)
    assert first.shape == (48, 64, 3)
    assert first.dtype == np.uint8
    assert not np.array_equal(first, second)
    assert np.array_equal(first, CAMERA.picture(1))


def test_pictures_follow_one_another_at_the_rate() -> None:
    camera = SyntheticCamera(Synthetic(width=64, height=48, fps=20.0))
    for number in range(3):
        raw = camera.read()
        assert raw is not None
        assert (raw.sensor_ns, raw.step_ns) == (None, 50_000_000)
        assert np.array_equal(raw.rows(0).reshape(48, 64, 3), CAMERA.picture(number))


def test_a_view_of_the_whole_picture_is_the_picture_itself() -> None:
    picture = CAMERA.picture(0)
    assert fit(picture, View(64, 48, "rgb24")) is picture


def test_crop_and_area_average_are_exact_for_whole_factors() -> None:
    grey = np.arange(48 * 64, dtype=np.uint32).reshape(48, 64).astype(np.uint8)
    found = fit(grey, View(16, 8, "gray8", Crop(x=32, y=16, width=32, height=16)))
    cut = grey[16:32, 32:64].astype(float)
    expected = cut.reshape(8, 2, 16, 2).mean(axis=(1, 3))
    assert np.abs(found - expected).max() <= 0.5


def test_grey_is_the_luma_of_the_recommendation() -> None:
    colours = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]]], np.uint8)
    assert fit(colours, View(4, 1, "gray8")).tolist() == [[76, 150, 29, 255]]


def test_a_letterboxed_view_keeps_the_proportions_between_bars() -> None:
    picture = CAMERA.picture(3)
    wide = fit(picture, View(32, 32, "rgb24", letterbox=114))
    assert np.array_equal(wide[4:28], fit(picture, View(32, 24, "rgb24")))
    assert (wide[:4] == 114).all()
    assert (wide[28:] == 114).all()
    high = fit(picture, View(40, 24, "gray8", Crop(x=0, y=0, width=32, height=48), letterbox=0))
    assert np.array_equal(high[:, 12:28], fit(picture, View(16, 24, "gray8", Crop(x=0, y=0, width=32, height=48))))
    assert not high[:, :12].any()
    assert not high[:, 28:].any()


def test_views_that_differ_have_names_that_differ() -> None:
    views = [View(8, 8, "gray8", letterbox=bars) for bars in (None, 0, 114)] + [View(8, 8, "rgb24")]
    assert len({view.name for view in views}) == len(views)


def test_a_crop_outside_the_picture_is_refused() -> None:
    with pytest.raises(ValueError, match="lies outside the 64x48 picture"):
        fit(CAMERA.picture(0), View(8, 8, "gray8", Crop(x=60, y=0, width=8, height=8)))


@given(st.integers(1, 64), st.integers(1, 48), st.sampled_from(["gray8", "rgb24"]))
def test_every_view_has_its_shape_and_stays_within_the_values(width: int, height: int, form: str) -> None:
    view = View(width, height, form)  # type: ignore[arg-type]
    found = fit(CAMERA.picture(5), view)
    assert found.shape == view.shape
    assert found.dtype == np.uint8
    assert found.flags.c_contiguous
    assert found.nbytes == view.nbytes
