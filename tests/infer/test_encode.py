"""Stacks by sensor time, by number in lock step, and the oldest frame where the ring ends."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from daemon.frames import Frame
from daemon.infer.encode import Encoder, Observation, stack
from daemon.messages import InlineTensor, RingFrames
from tests.infer.manifests import manifest

MS = 1_000_000
PERIOD = 50 * MS


def frames(*times_ms: float) -> list[Frame]:
    """Newest first."""
    return [Frame(len(times_ms) - n, (len(times_ms) - n) % 8, round(t * MS)) for n, t in enumerate(times_ms)]


def seqs(chosen: list[Frame]) -> list[int]:
    return [frame.seq for frame in chosen]


def test_regular_frames_give_the_frame_of_each_offset() -> None:
    assert seqs(stack(frames(200, 150, 100, 50), [0, -50, -150], PERIOD, False)) == [4, 3, 1]


def test_a_lost_frame_is_replaced_by_the_nearest_in_time() -> None:
    assert seqs(stack(frames(200, 100, 50), [0, -50, -100], PERIOD, False)) == [3, 3, 2]
    assert seqs(stack(frames(200, 140, 50), [0, -50, -150], PERIOD, False)) == [3, 2, 1]


def test_before_enough_frames_exist_the_oldest_is_repeated() -> None:
    assert seqs(stack(frames(10), [0, -50, -100], PERIOD, False)) == [1, 1, 1]


def test_lock_step_counts_frames_and_not_time() -> None:
    assert seqs(stack(frames(6, 4, 2, 0), [0, -50, -100], PERIOD, True)) == [4, 3, 2]


@given(
    st.lists(st.integers(1, 200), min_size=1, max_size=12),
    st.lists(st.floats(-400, -1), max_size=5),
)
def test_the_choice_is_the_nearest_and_the_newest_is_always_first(gaps: list[int], offsets: list[float]) -> None:
    now, times = 10_000, []
    for gap in gaps:
        times.append(now)
        now -= gap
    have = frames(*times)
    wanted = [0.0, *offsets]
    chosen = stack(have, wanted, PERIOD, False)
    assert chosen[0] == have[0]
    for offset, frame in zip(wanted, chosen, strict=True):
        target = times[0] * MS + offset * 1e6
        assert abs(frame.sensor_ns - target) == min(abs(f.sensor_ns - target) for f in have)


def test_inputs_come_in_the_order_of_the_manifest() -> None:
    model = manifest()
    observation = Observation("cam.view", 77, frames(200, 150, 100))
    ring, history = Encoder(model, PERIOD).encode(observation, [3, 3, 0, 1])
    assert ring == RingFrames("cam.view", 77, [3, 2])
    assert isinstance(history, InlineTensor)
    assert (history.dtype, history.shape) == ("int64", [1, 4])
    assert np.frombuffer(history.data, "<i8").tolist() == [3, 3, 0, 1]
