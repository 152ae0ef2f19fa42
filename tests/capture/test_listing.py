"""What ``reflexd sources`` says of devices that are there, busy, forbidden, or no cameras."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from daemon.capture.listing import Offer, parse_offers, report, v4l2_lines
from daemon.capture.v4l2 import offered
from tests.capture.xserver import x_server

LOG = """[video4linux2,v4l2 @ 0x1] Compressed:       mjpeg :          Motion-JPEG : 1280x720 640x480
[video4linux2,v4l2 @ 0x1] Raw       :     yuyv422 :           YUYV 4:2:2 : 640x480 320x240
[video4linux2,v4l2 @ 0x1] Raw       : Unsupported :     18-bit BGRX 6-6-6-14 : 640x480
[video4linux2,v4l2 @ 0x1] Raw       :       rgb24 :     24-bit RGB 8-8-8 : 640x480
[video4linux2,v4l2 @ 0x1] Raw       : Unsupported :    10-bit Greyscale : 640x480
[video4linux2,v4l2 @ 0x1] Raw       :        gray :     8-bit Greyscale : 640x480
[video4linux2,v4l2 @ 0x1] Raw       :        nv12 :        Y/UV 4:2:0 : {32-3840, 2}x{32-2160, 2}
"""
"""In the form of FFmpeg's v4l2.c."""


def system(folder: Path, cameras: dict[str, str]) -> tuple[Path, Path]:
    """Folders such as /dev and /sys/class/video4linux."""
    devices, names = folder / "dev", folder / "names"
    (devices / "v4l" / "by-id").mkdir(parents=True)
    for node, name in cameras.items():
        (devices / node).touch()
        (names / node).mkdir(parents=True)
        (names / node / "name").write_text(name + "\n")
    return devices, names


def test_formats_are_read_from_what_ffmpeg_says() -> None:
    assert parse_offers(LOG) == [
        Offer("mjpeg", "1280x720 640x480"),
        Offer("yuyv", "640x480 320x240"),
        Offer("nv12", "{32-3840, 2}x{32-2160, 2}"),
        Offer("not read", "gray rgb24 (2 without a name)"),
    ]


def test_cameras_are_listed_by_the_name_that_stays(tmp_path: Path) -> None:
    devices, names = system(tmp_path, {"video10": "Back", "video2": "HD Webcam"})
    (devices / "v4l" / "by-id" / "usb-Webcam").symlink_to("../../video2")
    lines = v4l2_lines(devices, names, lambda node: [Offer("yuyv", node.name)])
    assert lines == [
        f"  {devices}/v4l/by-id/usb-Webcam (video2, HD Webcam)",
        "    yuyv: video2",
        f"  {devices}/video10 (video10, Back)",
        "    yuyv: video10",
    ]


def test_a_pis_own_devices_are_left_out(tmp_path: Path) -> None:
    devices, names = system(tmp_path, {"video0": "unicam-image", "video10": "bcm2835-codec-decode"})
    assert v4l2_lines(devices, names, lambda _: []) == [
        "  (2 devices of the Pi's own camera and decoders left out: see picamera2)"
    ]


def test_what_is_in_the_way_is_said(tmp_path: Path) -> None:
    devices, names = system(tmp_path, {"video0": "One", "video1": "Two"})

    def offers(node: Path) -> list[Offer]:
        number = errno.EBUSY if node.name == "video0" else errno.ENOTTY
        raise OSError(number, os.strerror(number))

    with (devices / "video0").open() as file:
        holder = subprocess.Popen(["/bin/sleep", "60"], stdin=file)
    try:
        busy, other = v4l2_lines(devices, names, offers)
    finally:
        holder.kill()
        holder.wait()
    assert f"busy: held by sleep (pid {holder.pid})" in busy
    assert "not a camera that can be read: Inappropriate ioctl" in other


def test_no_camera_at_all_is_said(tmp_path: Path) -> None:
    devices, names = system(tmp_path, {})
    assert v4l2_lines(devices, names, lambda _: []) == [
        f"  none: there is no {devices}/video*: nothing is plugged in, or its driver is not loaded (dmesg)"
    ]


@pytest.mark.parametrize("device", ["/dev/null", "/nonexistent/video0"])
def test_what_is_no_camera_is_an_error_with_its_number(device: str) -> None:
    with pytest.raises(OSError) as error:
        offered(Path(device))
    assert error.value.errno in (errno.ENOTTY, errno.ENOENT, errno.EINVAL, errno.ENODEV)


def test_the_report_names_every_kind_and_the_screen_there_is(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with x_server(run_folder) as screen:
        monkeypatch.setenv("DISPLAY", screen.display)
        text = "\n".join(report())
        assert f"display {screen.display}: 160x120" in text
    assert f"none: no X server answers at display '{screen.display}'" in "\n".join(report())
    monkeypatch.delenv("DISPLAY")
    text = "\n".join(report())
    assert "$DISPLAY is not set" in text
    assert all(f'kind = "{kind}"' in text for kind in ("v4l2", "picamera2", "screen", "video", "frames", "synthetic"))
