"""The screen of a real X server: the right pixels, as they are when they are asked for."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from daemon.capture.convert import Converter
from daemon.capture.screen import ScreenGrab
from daemon.capture.source import SourceAbsent, SourceFailed
from daemon.config import ConfigError
from daemon.pixels import Pixels
from daemon.sources import Screen
from tests.capture.cards import colour_card
from tests.capture.xserver import HEIGHT, WIDTH, x_server


def grab(source: ScreenGrab) -> tuple[Pixels, int]:
    raw = source.read()
    assert raw is not None
    assert raw.sensor_ns is not None
    return Converter().pixels(raw).copy(), raw.sensor_ns


def test_every_pixel_of_a_part_of_the_screen(run_folder: Path) -> None:
    card = colour_card(WIDTH, HEIGHT)
    with x_server(run_folder) as screen:
        screen.show(card)
        table = Screen(display=screen.display, left=10, top=20, width=99, height=50, fps=100.0)
        source = ScreenGrab(table, Event())
        assert np.array_equal(grab(source)[0], card[20:70, 10:109])
        source.close()


def test_a_picture_is_never_older_than_its_stamp(run_folder: Path) -> None:
    with x_server(run_folder) as screen:
        source = ScreenGrab(Screen(display=screen.display, width=WIDTH, height=HEIGHT, fps=200.0), Event())
        for value in range(1, 20):
            screen.show(np.full((HEIGHT, WIDTH, 3), value, np.uint8))
            shown_ns = time.monotonic_ns()
            pixels, stamp_ns = grab(source)
            while stamp_ns < shown_ns:
                pixels, stamp_ns = grab(source)
            assert (pixels == value).all()
        source.close()


def test_thirty_grabs_a_second_are_thirty_pictures(run_folder: Path) -> None:
    with x_server(run_folder) as screen:
        source = ScreenGrab(Screen(display=screen.display, width=WIDTH, height=HEIGHT, fps=30.0), Event())
        stamps = np.array([grab(source)[1] for _ in range(31)])
        source.close()
    assert stamps[-1] - stamps[0] >= 0.99e9, "never faster"
    print(f"31 grabs in {(stamps[-1] - stamps[0]) / 1e9:.3f} s, {source.late} late")


def test_what_is_not_there_is_named(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceAbsent, match="no X server answers at display ':7654'"):
        ScreenGrab(Screen(display=":7654"), Event())
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(ConfigError, match="display: expected a display"):
        ScreenGrab(Screen(), Event())
    with x_server(run_folder) as screen:
        with pytest.raises(SourceFailed, match="has 160x120, not 64x64 at 100, 90"):
            ScreenGrab(Screen(display=screen.display, left=100, top=90, width=64, height=64), Event())


def test_a_server_that_ends_is_noticed(run_folder: Path) -> None:
    with x_server(run_folder) as screen:
        source = ScreenGrab(Screen(display=screen.display, width=64, height=64, fps=100.0), Event())
        grab(source)
    with pytest.raises(SourceFailed, match="lost"):
        for _ in range(10):
            grab(source)
    source.close()
