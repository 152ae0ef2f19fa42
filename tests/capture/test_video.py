"""Video files: the right pictures in order, at the file's own or a forced rate, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from daemon.capture.convert import Converter
from daemon.capture.decoded import raw_picture
from daemon.capture.raw import BadPicture
from daemon.capture.video import VideoFile
from daemon.config import ConfigError
from daemon.pixels import Pixels
from daemon.sources import Video
from tests.capture.cards import colour_card, exact_rgb
from tests.capture.clips import clip, numbered


def source(path: Path, **keys: object) -> VideoFile:
    return VideoFile(Video(path=str(path), **{"fps": 100.0, **keys}), path)  # type: ignore[arg-type]


def pictures(video: VideoFile, count: int) -> list[tuple[Pixels, int]]:
    """Pictures and the time from the one before to each, ms."""
    converter = Converter()
    found = []
    for _ in range(count):
        raw = video.read()
        assert raw is not None
        assert raw.sensor_ns is None
        found.append((converter.pixels(raw).copy(), raw.step_ns // 1_000_000))
    return found


def test_a_lossless_clip_comes_out_exact_and_ends(tmp_path: Path) -> None:
    wanted = [colour_card(48, 32), colour_card(48, 32)[::-1].copy()]
    video = source(clip(tmp_path / "card.mkv", wanted))
    assert all(np.array_equal(found, card) for (found, _), card in zip(pictures(video, 2), wanted, strict=True))
    assert video.read() is None
    video.close()


def test_a_loop_begins_again(tmp_path: Path) -> None:
    video = source(clip(tmp_path / "few.mkv", numbered(3)), loop=True, rate="fps")
    assert [int(found[0, 0, 0]) for found, _ in pictures(video, 7)] == [0, 1, 2, 0, 1, 2, 0]
    video.close()


def test_the_files_own_time_is_kept(tmp_path: Path) -> None:
    video = source(clip(tmp_path / "slow.mkv", numbered(4), rate=50, times=[0, 1, 2, 8]))
    assert [step for _, step in pictures(video, 4)][1:] == [20, 20, 120]
    video.close()


def test_the_files_own_time_goes_on_over_the_loop_and_long_gaps_are_shortened(tmp_path: Path) -> None:
    video = source(clip(tmp_path / "gap.mkv", numbered(3), rate=50, times=[0, 1, 500]), loop=True)
    steps = [step for _, step in pictures(video, 6)]
    assert steps[1:3] == steps[4:] == [20, 400]
    assert 0 < steps[3] <= 400, "from the last picture to the first"
    video.close()


def test_a_forced_rate_does_not_look_at_the_files_time(tmp_path: Path) -> None:
    video = source(clip(tmp_path / "gap.mkv", numbered(3), rate=25, times=[0, 1, 999]), rate="fps")
    assert {step for _, step in pictures(video, 3)} == {10}
    video.close()


def test_more_pictures_than_fps_says_is_refused_with_the_numbers(tmp_path: Path) -> None:
    path = clip(tmp_path / "fast.mkv", numbered(4), rate=50)
    with pytest.raises(ConfigError, match=r"fps = 30.0: .*fast.mkv has 50: expected that or more"):
        source(path, fps=30.0)
    source(path, fps=49.0).close()


def test_what_is_no_video_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no video here")
    for name in ("text", "none"):
        with pytest.raises(ConfigError, match=rf"path = .*{name}'?: expected a video file"):
            source(tmp_path / name)


def test_damage_in_the_middle_costs_pictures_and_not_the_source(tmp_path: Path) -> None:
    path = clip(tmp_path / "hurt.mkv", [colour_card(64, 48)] * 30, codec="mjpeg")
    data = bytearray(path.read_bytes())
    middle = data.index(b"\xff\xd8", len(data) // 2)
    data[middle : middle + 600] = b"\x00" * 600
    path.write_bytes(data)
    video = source(path, rate="fps")
    outcomes: list[str] = []
    while (outcome := attempt(video)) != "end":
        outcomes.append(outcome)
    video.close()
    assert outcomes.count("broken") >= 1
    assert outcomes.count("good") >= 25


def attempt(video: VideoFile) -> str:
    """``good``, ``end``, or why a picture is none."""
    try:
        return "end" if video.read() is None else "good"
    except BadPicture as error:
        return error.reason


FORMATS = ["gray", "rgb24", "bgr24", "rgb0", "bgr0", "yuyv422", "nv12", "yuv420p", "yuvj420p", "yuv422p", "yuv444p"]


@pytest.mark.parametrize("name", [*FORMATS, "yuvj422p", "yuva420p", "gbrp", "rgba", "uyvy422"])
def test_every_format_of_the_decoder_has_its_colours(name: str) -> None:
    """A picture of one colour: FFmpeg's own conversion to the format may be off by a little, ours back must not be."""
    frame = av.VideoFrame.from_ndarray(np.full((32, 48, 3), (200, 80, 30), np.uint8), "rgb24")
    frame = frame.reformat(format=name)
    found = Converter().pixels(raw_picture(frame, 1))
    wanted = 110 if name == "gray" else np.array([200, 80, 30])
    assert found.shape[:2] == (32, 48)
    assert np.abs(found.astype(int) - wanted).max() <= 3


def test_the_matrix_and_range_a_frame_names_are_used() -> None:
    frame = av.VideoFrame(16, 16, "yuv444p")
    for plane, value in zip(frame.planes, (120, 90, 200), strict=True):
        plane.update(bytes([value]) * plane.buffer_size)
    ycc = np.array([[[120, 90, 200]]], np.uint8)
    for space, (kr, kb) in {5: (0.299, 0.114), 1: (0.2126, 0.0722), 2: (0.299, 0.114)}.items():
        for reach, full in {1: False, 2: True, 0: False}.items():
            frame.colorspace, frame.color_range = space, reach
            found = Converter().pixels(raw_picture(frame, 1))
            assert np.abs(found - exact_rgb(ycc, kr, kb, full)).max() <= 0.56
