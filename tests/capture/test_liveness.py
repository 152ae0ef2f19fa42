"""What a camera that hangs, repeats itself or reads another clock looks like."""

from __future__ import annotations

import numpy as np
import pytest

from daemon.capture.liveness import FUTURE_NS, OLD_NS, SETTLE_FRAMES, Backlog, Watch, monotonic
from daemon.capture.raw import BadPicture
from daemon.pixels import Pixels

NOW = 1_000_000_000_000
PERIOD = 33_000_000
WALL_CLOCK = 1_790_000_000_000_000_000


def noise(seed: int) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (24, 32, 3), dtype=np.uint8)


def look(watch: Watch, sensor_ns: int, now_ns: int, pixels: Pixels) -> str:
    """``good``, or why not."""
    try:
        watch.stamp(sensor_ns, now_ns)
        watch.content(pixels)
    except BadPicture as error:
        return error.reason
    return "good"


def test_a_camera_counts_after_some_good_pictures() -> None:
    watch = Watch(frozen_frames=5)
    found = [look(watch, NOW + n * PERIOD, NOW + n * PERIOD, noise(n)) for n in range(6)]
    assert found == ["settling"] * SETTLE_FRAMES + ["good"] * (6 - SETTLE_FRAMES)


def test_a_bad_picture_while_settling_begins_anew() -> None:
    watch = Watch(frozen_frames=5)
    stamps = [0, 1, 1, 2, 3, 4, 5]
    found = [look(watch, NOW + n * PERIOD, NOW + 9 * PERIOD, noise(i)) for i, n in enumerate(stamps)]
    assert found == ["settling", "settling", "repeated", "settling", "settling", "settling", "good"]


def test_other_sources_count_from_the_first_and_may_repeat_themselves() -> None:
    watch = Watch(frozen_frames=None)
    assert [look(watch, NOW + n, NOW + n, noise(1)) for n in range(50)] == ["good"] * 50


STAMPS = {
    "repeated": [0, PERIOD, PERIOD, 2 * PERIOD],
    "backward": [0, PERIOD, PERIOD - 40_000_000, 2 * PERIOD],
    "future": [0, PERIOD, FUTURE_NS + 11 * PERIOD, 2 * PERIOD],
    "old": [0, PERIOD, 10 * PERIOD - OLD_NS - 1, 2 * PERIOD],
}


@pytest.mark.parametrize("reason", STAMPS)
def test_a_wrong_stamp_is_refused_and_the_next_right_one_is_good(reason: str) -> None:
    watch = Watch(frozen_frames=None)
    found = [look(watch, NOW + stamp, NOW + 10 * PERIOD, noise(n)) for n, stamp in enumerate(STAMPS[reason])]
    assert found == ["good", "good", reason, "good"]


def test_a_camera_on_the_wall_clock_is_never_good() -> None:
    watch = Watch(frozen_frames=5)
    assert {look(watch, WALL_CLOCK + n * PERIOD, NOW + n * PERIOD, noise(n)) for n in range(9)} == {"future"}


def test_a_stamp_from_the_future_does_not_shut_out_the_right_ones() -> None:
    watch = Watch(frozen_frames=None)
    assert look(watch, WALL_CLOCK, NOW, noise(0)) == "future"
    assert look(watch, NOW, NOW, noise(1)) == "good"


def settled(frozen_frames: int) -> tuple[Watch, int]:
    watch = Watch(frozen_frames)
    for n in range(SETTLE_FRAMES):
        look(watch, NOW + n, NOW, noise(n))
    return watch, SETTLE_FRAMES


def test_a_picture_that_comes_again_and_again_is_refused_until_the_camera_has_settled() -> None:
    watch, n = settled(frozen_frames=4)
    found = [look(watch, NOW + n + i, NOW, noise(99)) for i in range(8)]
    good = found.index("identical")
    assert 4 <= good <= 5
    assert found == ["good"] * good + ["identical"] * (8 - good)
    after = [look(watch, NOW + 100 + i, NOW, noise(200 + i)) for i in range(5)]
    assert after == ["settling"] * SETTLE_FRAMES + ["good"] * 2


def test_one_pixel_makes_another_picture() -> None:
    watch, n = settled(frozen_frames=4)
    still = noise(99)
    for i in range(40):
        still[0, i % 32, 1] ^= 1  # in no row that the quick look takes
        assert look(watch, NOW + n + i, NOW, still) == "good"


def test_frozen_frames_can_be_turned_off() -> None:
    watch, n = settled(frozen_frames=0)
    assert {look(watch, NOW + n + i, NOW, noise(99)) for i in range(100)} == {"good"}


def test_another_size_is_refused() -> None:
    watch = Watch(frozen_frames=None)
    assert look(watch, NOW, NOW, noise(1)) == "good"
    assert look(watch, NOW + 1, NOW, noise(1)[:12].copy()) == "size"
    assert look(watch, NOW + 2, NOW, noise(1)) == "good"


def test_another_size_after_opening_anew_is_good() -> None:
    watch = Watch(frozen_frames=None)
    assert look(watch, NOW, NOW, noise(1)) == "good"
    watch.opened()
    assert look(watch, NOW + 1, NOW, noise(1)[:12].copy()) == "good"


def test_stamps_of_either_clock_since_boot_become_monotonic() -> None:
    suspended_ns = 7_000_000_000
    boot_ns = NOW + suspended_ns
    assert monotonic(NOW - PERIOD, NOW, boot_ns) == NOW - PERIOD
    assert monotonic(boot_ns - PERIOD, NOW, boot_ns) == NOW - PERIOD
    assert monotonic(NOW - PERIOD, NOW, NOW) == NOW - PERIOD, "never suspended: the clocks are one"


def test_pictures_that_waited_in_the_drivers_queue_are_known_by_their_age() -> None:
    backlog, delay = Backlog(PERIOD), 70_000_000
    in_time = [backlog.has_waited(NOW + n * PERIOD - delay, NOW + n * PERIOD) for n in range(5)]
    assert in_time == [False] * 5, "a camera may take its time"
    paused = NOW + 10 * PERIOD
    queued = [backlog.has_waited(NOW + n * PERIOD - delay, paused) for n in range(5, 11)]
    assert queued == [True, True, True, True, False, False], "the reader was held up; only the newest count"


def test_pictures_queued_before_the_first_look_keep_their_own_times() -> None:
    backlog = Backlog(PERIOD)
    assert not any(backlog.has_waited(NOW - n * PERIOD, NOW) for n in (4, 3, 2, 1))
    assert backlog.has_waited(NOW - 3 * PERIOD, NOW)
