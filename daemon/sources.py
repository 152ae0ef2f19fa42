"""The ``[sources.NAME]`` tables of the configuration: a kind of source each, with the keys that kind has."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec

from daemon.section import Section

Rate = Annotated[float, msgspec.Meta(gt=0.0, le=1000.0)]
Size = Annotated[int, msgspec.Meta(ge=16, le=4096)]
FullSize = Annotated[int, msgspec.Meta(ge=0, le=16384)]
Position = Annotated[int, msgspec.Meta(ge=0, le=16384)]
Frozen = Annotated[int, msgspec.Meta(ge=0, le=100_000)]
CameraControl = bool | int | float | str | list[bool | int | float]


class SourceTable(Section, frozen=True, kw_only=True, tag_field="kind"):
    """What every source has.

    Attributes:
        fps: frames per second. A frame must come at least every five of these periods, and every half second: the
            source counts as stalled otherwise, and is started anew.
    """

    fps: Rate = 30.0

    @property
    def ends(self) -> bool:
        """It comes to an end by itself."""
        return False


class Synthetic(SourceTable, frozen=True, kw_only=True, tag="synthetic"):
    """``[sources.NAME]`` with ``kind = "synthetic"``: a moving test picture.

    Attributes:
        width, height: size of the picture, pixels.
    """

    width: Size = 640
    height: Size = 480


class Frames(SourceTable, frozen=True, kw_only=True, tag="frames"):
    """``[sources.NAME]`` with ``kind = "frames"``: the pictures of a folder, at the rate of ``fps``.

    Attributes:
        path: folder, relative to this file: an unpacked donkeycar tub, in the order of its catalogue, or any with
            JPEG or PNG files, in the order of their names with numbers in them read as numbers. All must have one
            size.
        loop: begin again after the last picture; otherwise the source is done then, and its agents stand still.
    """

    path: str
    loop: bool = False

    @property
    def ends(self) -> bool:
        """Unless it loops."""
        return not self.loop


class Video(SourceTable, frozen=True, kw_only=True, tag="video"):
    """``[sources.NAME]`` with ``kind = "video"``: a video file. Needs the extra ``video``.

    Attributes:
        path: file, relative to this file.
        loop: begin again after the last picture; otherwise the source is done then, and its agents stand still.
        rate: ``own`` plays as the file's time stamps say, ``fps`` one picture after the other at the rate of ``fps``.
            ``fps`` must not be below the file's own rate in either case, or pictures would be left out.
    """

    path: str
    loop: bool = False
    rate: Literal["own", "fps"] = "own"


class CameraTable(SourceTable, frozen=True, kw_only=True):
    """What every camera has.

    Attributes:
        width, height: size of the picture, pixels. Take one the camera has, near what the models need.
        frozen_frames: refuse a picture that has come this often in a row to the last bit, as it does from a camera that
            hangs, or looks into the dark; 0 never does.
    """

    width: Size = 640
    height: Size = 480
    frozen_frames: Frozen = 10


class V4l2(CameraTable, frozen=True, kw_only=True, tag="v4l2"):
    """``[sources.NAME]`` with ``kind = "v4l2"``: a USB or other Video4Linux camera. Needs the extra ``video``.

    Attributes:
        device: ``/dev/v4l/by-id/...`` or ``/dev/v4l/by-path/...``, which stay the same when the camera is plugged in
            again, or ``/dev/videoN``, which may not; ``reflexd sources`` lists them.
        format: what to ask the camera for.
    """

    device: str
    format: Literal["mjpeg", "yuyv", "nv12"] = "mjpeg"


class Picamera2(CameraTable, frozen=True, kw_only=True, tag="picamera2"):
    """``[sources.NAME]`` with ``kind = "picamera2"``: a camera on a Raspberry Pi. Needs the system's picamera2.

    Attributes:
        camera: which: its number or its id; ``reflexd sources`` lists them.
        full_width, full_height: size of a full stream beside it, from which the picture is scaled, so that it shows
            what the whole sensor sees; 0 has the camera make the picture alone, from a sensor mode of its choice.
        format: of the picture: ``rgb`` where the scaler makes it (any main stream; a stream beside the full one on a
            Pi 5), ``yuv420`` everywhere.
        buffers: most buffers to ask for; fewer, then smaller pictures, are tried when memory is short.
        controls: libcamera's, by name, such as ``ExposureTime = 10000`` or ``AwbEnable = false``.
    """

    camera: int | str = 0
    full_width: FullSize = 0
    full_height: FullSize = 0
    format: Literal["rgb", "yuv420"] = "rgb"
    buffers: Annotated[int, msgspec.Meta(ge=2, le=16)] = 4
    controls: dict[str, CameraControl] = {}


class Screen(SourceTable, frozen=True, kw_only=True, tag="screen"):
    """``[sources.NAME]`` with ``kind = "screen"``: a part of an X11 screen. Needs the extra ``screen``.

    Attributes:
        display: such as ``:0``; by default ``$DISPLAY``.
        left, top: corner of the part, pixels.
        width, height: its size, pixels.
    """

    display: str = ""
    left: Position = 0
    top: Position = 0
    width: Size = 640
    height: Size = 480


Source = Synthetic | Frames | Video | V4l2 | Picamera2 | Screen
SOURCE_TABLES: dict[str, type[SourceTable]] = {str(table.__struct_config__.tag): table for table in get_args(Source)}
"""Each kind with its table."""
