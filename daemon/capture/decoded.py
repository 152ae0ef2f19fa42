"""Pictures from PyAV's decoders, as raw pictures."""

from __future__ import annotations

import av
from av.video.reformatter import ColorRange, Colorspace

from daemon.capture.raw import Plane, RawFormat, RawPicture

_FORMATS: dict[str, RawFormat] = {
    "gray": "gray8",
    "rgb24": "rgb24",
    "bgr24": "bgr24",
    "rgb0": "rgbx",
    "bgr0": "bgrx",
    "yuyv422": "yuyv",
    "nv12": "nv12",
    "yuv420p": "i420",
    "yuvj420p": "i420",
    "yuv422p": "i422",
    "yuvj422p": "i422",
    "yuv444p": "i444",
    "yuvj444p": "i444",
}


def raw_picture(frame: av.VideoFrame, sensor_ns: int | None, step_ns: int = 0) -> RawPicture:
    """The planes of a frame in place; rarer formats (more bits, alpha, palettes) go through FFmpeg's scaler first.

    A frame that does not name its matrix is taken for BT.601, one that does not name its range for limited range, as
    FFmpeg does.
    """
    if frame.format.name not in _FORMATS:
        frame = frame.reformat(format="rgb24" if frame.format.is_rgb else "yuv444p")
    return RawPicture(
        _FORMATS[frame.format.name],
        frame.width,
        frame.height,
        tuple(Plane(memoryview(plane), plane.line_size) for plane in frame.planes),
        sensor_ns,
        "bt709" if frame.colorspace == Colorspace.ITU709 else "bt601",
        frame.color_range == ColorRange.JPEG or frame.format.name.startswith("yuvj"),
        step_ns,
    )
