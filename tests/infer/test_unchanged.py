"""The change gate: what is still, what has changed, and when the decision before holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.infer.decode import Decision
from daemon.infer.unchanged import MOST_SKIPPED, PARTS, ChangeGate, mean_parts
from daemon.pixels import Pixels

LEFT, RIGHT = Decision("LEFT", [], 0.5), Decision("RIGHT", [], 0.5)
PERIOD = 33_000_000
SHAPES = [(84, 84), (48, 64, 3), (480, 640, 3), (7, 3), (1, 1, 3)]


def noisy(shape: tuple[int, ...], seed: int, sigma: float = 0.7) -> Pixels:
    """The same scene each time under a camera's noise."""
    scene = np.random.default_rng(0).integers(40, 200, shape)
    noise = np.random.default_rng(seed).normal(0, sigma, shape)
    return np.clip(scene + noise, 0, 255).astype(np.uint8)


def decide(gate: ChangeGate, pixels: Pixels, number: int, decision: Decision = LEFT) -> str:
    """``held``, or ``decided`` after an inference that says ``decision``."""
    if gate.look(pixels, number * PERIOD) is not None:
        return "held"
    gate.decided(decision, number * PERIOD)
    return "decided"


@pytest.mark.parametrize(("shape", "sigma"), [((84, 84), 0.7), ((224, 224, 3), 3.0), ((480, 640, 3), 4.0)])
def test_a_still_scene_under_noise_is_skipped_nine_times_in_ten_and_more(shape: tuple[int, ...], sigma: float) -> None:
    """A smaller view has less noise: its pixels are means of the camera's."""
    gate = ChangeGate(6.0, 0)
    found = [decide(gate, noisy(shape, n, sigma), n) for n in range(210)]
    assert found.count("held") >= 0.9 * len(found)
    assert gate.skipped == found.count("held")
    assert "decided" in found[1:], "now and then one is decided on all the same"


@pytest.mark.parametrize("shape", [(84, 84), (48, 64, 3), (480, 640, 3)])
def test_a_moving_scene_is_never_skipped(shape: tuple[int, ...]) -> None:
    gate, bar = ChangeGate(6.0, 0), max(1, shape[1] // 16)
    for n in range(100):
        pixels = noisy(shape, n)
        left = n * max(1, shape[1] // 160) % (shape[1] - bar)
        pixels[:, left : left + bar] = 255
        assert decide(gate, pixels, n) == "decided"


def test_a_slow_change_is_a_change_in_the_end() -> None:
    gate = ChangeGate(3.0, 0)
    found = [decide(gate, np.full((32, 32), 100 + n, np.uint8), n) for n in range(12)]
    assert found == (["decided", "held", "held"] * 4)


def test_the_decision_that_holds_is_that_of_the_scene() -> None:
    gate = ChangeGate(3.0, 0)
    dark, bright = np.zeros((32, 32), np.uint8), np.full((32, 32), 200, np.uint8)
    decide(gate, dark, 0, LEFT)
    assert gate.look(dark, 1) == LEFT
    decide(gate, bright, 2, RIGHT)
    assert gate.look(bright, 3 * PERIOD) == RIGHT


def test_a_decision_on_a_frame_before_the_change_does_not_hold() -> None:
    gate = ChangeGate(3.0, 0)
    dark, bright = np.zeros((32, 32), np.uint8), np.full((32, 32), 200, np.uint8)
    assert gate.look(dark, 0) is None
    assert gate.look(bright, PERIOD) is None
    gate.decided(LEFT, 0)  # the inference on the dark frame ends only now
    assert gate.look(bright, 2 * PERIOD) is None
    gate.decided(RIGHT, PERIOD)
    assert gate.look(bright, 3 * PERIOD) == RIGHT


def test_stacked_frames_must_all_show_the_same() -> None:
    gate = ChangeGate(3.0, 3 * PERIOD)
    dark = np.zeros((32, 32), np.uint8)
    found = [decide(gate, dark, n) for n in range(6)]
    assert found == ["decided"] * 4 + ["held"] * 2


def test_without_a_decision_nothing_is_skipped() -> None:
    gate = ChangeGate(3.0, 0)
    assert {gate.look(np.zeros((8, 8), np.uint8), n) for n in range(50)} == {None}


def test_no_more_than_so_many_in_a_row() -> None:
    gate = ChangeGate(3.0, 0)
    found = [decide(gate, np.zeros((8, 8), np.uint8), n) for n in range(3 * (MOST_SKIPPED + 1))]
    assert found == (["decided"] + ["held"] * MOST_SKIPPED) * 3


@pytest.mark.parametrize("shape", SHAPES)
def test_parts_are_means_of_the_picture(shape: tuple[int, ...]) -> None:
    flat = np.full(shape, 77, np.uint8)
    parts = mean_parts(flat)
    assert parts.shape == (min(PARTS, shape[0]), min(PARTS, shape[1]))
    assert (parts == 77).all()


@given(st.integers(0, 63), st.integers(0, 63), st.integers(1, 255), st.floats(0.5, 200))
def test_a_part_that_changes_by_the_threshold_is_a_change(row: int, column: int, by: int, threshold: float) -> None:
    gate = ChangeGate(threshold, 0)
    still = np.zeros((64, 64, 3), np.uint8)
    decide(gate, still, 0)
    changed = still.copy()
    changed[row : row + 1, column : column + 1] = by
    assert (gate.look(changed, PERIOD) is None) == (by >= threshold)


def test_a_view_of_another_size_is_a_change() -> None:
    gate = ChangeGate(3.0, 0)
    decide(gate, np.zeros((32, 32), np.uint8), 0)
    assert gate.look(np.zeros((8, 8), np.uint8), 1) is None
