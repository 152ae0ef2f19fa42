"""The Video4Linux source over recorded streams: a file stands in for the device, all behind it is the real thing."""

from __future__ import annotations

import mmap
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from threading import Event
from typing import Any

import av
import numpy as np
import pytest

from daemon.capture.convert import Converter
from daemon.capture.raw import BadPicture
from daemon.capture.source import SourceAbsent, SourceFailed
from daemon.capture.v4l2 import V4l2Camera, open_device
from daemon.pixels import Pixels
from daemon.process import StageFailed
from daemon.sources import V4l2

SIZE = (96, 64)
FORMATS = {"mjpeg": ("mjpeg", "yuvj422p"), "yuyv": ("rawvideo", "yuyv422"), "nv12": ("rawvideo", "nv12")}
PERIOD_US = 33_333


def soft_card() -> Pixels:
    """A ramp: subsampled chroma and JPEG leave it nearly as it is."""
    card = np.empty((SIZE[1], SIZE[0], 3), np.uint8)
    card[..., 0] = np.linspace(60, 180, SIZE[0])
    card[..., 1] = np.linspace(180, 60, SIZE[1])[:, None]
    card[..., 2] = 90
    return card


def recording(path: Path, form: str, stamps_us: list[int], pictures: Sequence[Pixels | None]) -> Path:
    """A stream as a camera gives it, in a container that keeps every byte and microsecond; None is an empty buffer."""
    codec, pixels = FORMATS[form]
    with av.open(str(path), "w", format="nut") as container:
        stream = container.add_stream(codec, rate=30)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = *SIZE, pixels
        stream.time_base = stream.codec_context.time_base = Fraction(1, 1_000_000)
        for stamp_us, picture in zip(stamps_us, pictures, strict=True):
            if picture is None:
                container.mux(empty(stream, stamp_us))
                continue
            frame = av.VideoFrame.from_ndarray(picture, "rgb24").reformat(format=pixels, dst_colorspace="ITU601")
            frame.pts, frame.time_base = stamp_us, Fraction(1, 1_000_000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def empty(stream: av.VideoStream, stamp_us: int) -> av.Packet[Any]:
    packet: av.Packet[Any] = av.Packet(0)
    packet.stream, packet.time_base = stream, Fraction(1, 1_000_000)
    packet.pts = packet.dts = stamp_us
    return packet


def camera(path: Path, form: str, **keys: int) -> V4l2Camera:
    width, height = SIZE
    table = V4l2(device="/dev/video0", format=form, **{"width": width, "height": height, **keys})  # type: ignore[arg-type]
    return V4l2Camera(table, av.open(str(path)), Event())


def stamps(count: int) -> list[int]:
    """Microseconds of CLOCK_MONOTONIC, the last one now."""
    now_us = time.monotonic_ns() // 1000
    return [now_us - (count - 1 - n) * PERIOD_US for n in range(count)]


@pytest.mark.parametrize("form", FORMATS)
def test_each_format_has_its_colours_and_the_drivers_times(tmp_path: Path, form: str) -> None:
    card, times = soft_card(), stamps(4)
    source = camera(recording(tmp_path / "stream.nut", form, times, [card] * 4), form)
    for stamp_us in times:
        raw = source.read()
        assert raw is not None
        assert raw.sensor_ns == stamp_us * 1000
        found = Converter().pixels(raw)
        assert np.abs(found.astype(int) - card).max() <= (8 if form == "mjpeg" else 6)
    with pytest.raises(SourceFailed, match="the stream has ended"):
        source.read()
    source.close()


DAMAGE = {"cut off": "broken", "never finished": "short"}


@pytest.mark.parametrize("damage", DAMAGE)
def test_half_a_jpeg_is_refused_and_the_next_one_comes(tmp_path: Path, damage: str) -> None:
    rng = np.random.default_rng(1)
    cards = [rng.integers(0, 256, (SIZE[1], SIZE[0], 3), dtype=np.uint8) for _ in range(3)]
    path = recording(tmp_path / "stream.nut", "mjpeg", stamps(3), cards)
    data = bytearray(path.read_bytes())
    second = data.index(b"\xff\xd8", data.index(b"\xff\xd8") + 2)
    end = data.index(b"\xff\xd9", second)
    middle = (second + end) // 2
    data[middle : end + 2] = bytes(end + 2 - middle)
    if damage == "cut off":
        data[middle : middle + 2] = b"\xff\xd9"
    path.write_bytes(data)
    source = camera(path, "mjpeg")
    assert source.read() is not None
    with pytest.raises(BadPicture) as bad:
        source.read()
    assert bad.value.reason == DAMAGE[damage]
    assert source.read() is not None
    source.close()


def test_pictures_that_have_waited_are_left_out(tmp_path: Path) -> None:
    source = camera(recording(tmp_path / "stream.nut", "yuyv", stamps(8), [soft_card()] * 8), "yuyv")
    for _ in range(4):
        assert source.read() is not None
    time.sleep(10 * PERIOD_US / 1e6)
    with pytest.raises(SourceFailed):
        source.read()
    assert source.late == 4
    source.close()


@pytest.mark.parametrize(("form", "given"), [("yuyv", "12288 bytes for 11520"), ("mjpeg", "96x64")])
def test_another_size_is_refused_with_both(tmp_path: Path, form: str, given: str) -> None:
    source = camera(recording(tmp_path / "stream.nut", form, stamps(1), [soft_card()]), form, height=60)
    with pytest.raises(SourceFailed, match=f"expected 96x60 {form}, the camera gives {given}: "):
        source.read()
    source.close()


def test_an_empty_buffer_is_refused_and_the_next_one_comes(tmp_path: Path) -> None:
    source = camera(recording(tmp_path / "stream.nut", "yuyv", stamps(3), [soft_card(), None, soft_card()]), "yuyv")
    assert source.read() is not None
    with pytest.raises(BadPicture) as bad:
        source.read()
    assert bad.value.reason == "empty"
    assert source.read() is not None
    source.close()


def test_a_device_that_is_not_there_is_waited_for_and_one_that_is_no_camera_is_not() -> None:
    with pytest.raises(SourceAbsent, match="/dev/v4l/by-id/none is not there"):
        open_device(V4l2(device="/dev/v4l/by-id/none"))
    with pytest.raises(SourceFailed, match="/dev/null: "):
        open_device(V4l2(device="/dev/null"))


def test_after_a_failed_opening_that_leaves_buffers_mapped_the_process_gives_up(tmp_path: Path) -> None:
    device = tmp_path / "video0"
    device.write_bytes(bytes(mmap.PAGESIZE))
    with pytest.raises(SourceFailed, match="video0: "):
        open_device(V4l2(device=str(device)))
    with device.open("r+b") as file, mmap.mmap(file.fileno(), 0):
        with pytest.raises(StageFailed, match=r"video0: .*; its buffers stay mapped"):
            open_device(V4l2(device=str(device)))
    with pytest.raises(SourceFailed, match="video0: "):
        open_device(V4l2(device=str(device)))
