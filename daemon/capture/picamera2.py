"""A Raspberry Pi's camera as a source, through picamera2 and libcamera, which come with the system."""

from __future__ import annotations

import errno
import time
from pathlib import Path
from threading import Event
from typing import Any

from libcamera import ColorSpace
from picamera2 import MappedArray, Picamera2

from daemon.capture.convert import Matrix
from daemon.capture.devices import holders_text
from daemon.capture.ladder import OutOfMemory, Step, go_down, pool_text, steps
from daemon.capture.liveness import monotonic
from daemon.capture.raw import Plane, RawFormat, RawPicture
from daemon.capture.source import SourceAbsent, SourceFailed
from daemon.config import ConfigError
from daemon.sources import Picamera2 as Table

_ASKED = {"rgb": "BGR888", "yuv420": "YUV420"}
"""libcamera names the bytes of a pixel from the last to the first."""
_GIVEN: dict[str, RawFormat] = {
    "BGR888": "rgb24",
    "RGB888": "bgr24",
    "XBGR8888": "rgbx",
    "XRGB8888": "bgrx",
    "YUV420": "i420",
    "NV12": "nv12",
    "YUYV": "yuyv",
    "R8": "gray8",
}
_MEMORY_WORDS = ("allocate", "memory")


class PiCamera:
    """A camera of libcamera, in one configuration from open to close.

    Args:
        table: the source's table.
        may_shrink: no agent cuts its view out by pixels, so a smaller picture will do when memory is short.
        stop: ends the waiting between pictures; a camera that does not answer is not woken by it.

    Raises:
        SourceAbsent: no such camera.
        SourceFailed: busy, or no memory for any step of the ladder.
        ConfigError: a control or format the camera does not have.
    """

    late = 0

    def __init__(self, table: Table, may_shrink: bool, stop: Event) -> None:
        self._table, self._stop = table, stop
        self._request: Any = None
        self._mapped: Any = None
        self._camera = _acquire(table)
        try:
            first = Step(table.buffers, table.width, table.height, table.full_width, table.full_height)
            self._stream = "lores" if table.full_width else "main"
            step = go_down(steps(first, may_shrink), self._configure)
            self._format = self._given_format()
            self._matrix, self._full_range = _coding(self._camera.camera_configuration()["colour_space"])
        except BaseException:
            self._camera.close()
            raise
        self.note = "" if step == first else f"short of camera memory: {step} instead of {first}; {pool_text()}"

    def read(self) -> RawPicture | None:
        """The next picture to be completed; its buffer goes back to the camera at the next call."""
        self._release()
        if self._stop.is_set():
            return None
        try:
            self._request = self._camera.capture_request()
        except RuntimeError as error:
            raise SourceFailed(f"camera {self._table.camera}: {error}") from None
        stamp_ns = self._request.get_metadata()["SensorTimestamp"]
        self._mapped = MappedArray(self._request, self._stream, reshape=False, write=False)
        data = memoryview(self._mapped.__enter__().array).cast("B")
        given = self._request.config[self._stream]
        width, height = given["size"]
        planes = _planes(self._format, data, given["stride"], height)
        now_ns, boot_ns = time.monotonic_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        sensor_ns = monotonic(stamp_ns, now_ns, boot_ns)
        return RawPicture(
            self._format, width, height, planes, sensor_ns, matrix=self._matrix, full_range=self._full_range
        )

    def close(self) -> None:
        """Stop the camera and give it back."""
        self._release()
        self._camera.close()

    def _release(self) -> None:
        if self._mapped is not None:
            self._mapped.__exit__(None, None, None)
            self._mapped = None
        if self._request is not None:
            self._request.release()
            self._request = None

    def _configure(self, step: Step) -> None:
        """Configure and start; what fails for want of memory fails in one of the two."""
        camera, picture = self._camera, {"size": (step.width, step.height), "format": _ASKED[self._table.format]}
        main = {"size": (step.full_width, step.full_height), "format": "YUV420"} if step.full_width else picture
        try:
            configuration = camera.create_video_configuration(
                main=main,
                lores=picture if step.full_width else None,
                colour_space=ColorSpace.Smpte170m(),
                buffer_count=step.buffers,
                controls=self._controls(),
                display=None,
                encode=None,
                queue=False,  # a request waits for the next picture and never gets one that has waited
            )
            camera.configure(configuration)
            camera.start()
        except (OSError, RuntimeError) as error:
            if _is_memory_short(error):
                raise OutOfMemory from error
            raise SourceFailed(f"camera {self._table.camera}: {error}") from None

    def _controls(self) -> dict[str, Any]:
        known = self._camera.camera_controls
        for name in self._table.controls:
            if name not in known:
                raise ConfigError(f"controls.{name}: this camera has {', '.join(sorted(known))}")
        wanted: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in self._table.controls.items()
        }
        if "FrameDurationLimits" in known:
            period_us = round(1e6 / self._table.fps)
            wanted = {"FrameDurationLimits": (period_us, period_us), **wanted}
        return wanted

    def _given_format(self) -> RawFormat:
        given = self._camera.camera_configuration()[self._stream]["format"]
        if given not in _GIVEN:
            raise ConfigError(f"format = {self._table.format!r}: the camera gives {given} instead; try the other one")
        return _GIVEN[given]


def _coding(given: Any) -> tuple[Matrix, bool]:
    """Matrix and range of the colour space the camera has chosen, which is not always the one asked for."""
    matrix: Matrix = "bt709" if given.ycbcrEncoding == ColorSpace.YcbcrEncoding.Rec709 else "bt601"
    return matrix, given.range == ColorSpace.Range.Full


def _is_memory_short(error: OSError | RuntimeError) -> bool:
    """The errors of libcamera keep the number, picamera2's own have only their words."""
    if isinstance(error, OSError) and error.errno:
        return error.errno == errno.ENOMEM
    return any(word in str(error).lower() for word in _MEMORY_WORDS)


def _acquire(table: Table) -> Any:
    """Open the camera with this number or id."""
    infos = Picamera2.global_camera_info()
    numbers = [number for number, info in enumerate(infos) if table.camera in (number, info["Id"])]
    if not numbers:
        raise SourceAbsent(f"camera {table.camera!r} is not there; libcamera finds {[info['Id'] for info in infos]}")
    try:
        return Picamera2(numbers[0])
    except RuntimeError as error:
        cause = error.__cause__ or error
        devices = sorted(Path("/dev").glob("media*")) + sorted(Path("/dev").glob("video*"))
        raise SourceFailed(f"camera {table.camera}: cannot be opened: {cause}: {holders_text(devices)}") from None


def _planes(form: RawFormat, data: memoryview, stride: int, height: int) -> tuple[Plane, ...]:
    """The planes of a buffer, one after the other in it."""
    luma = stride * height
    if form == "nv12":
        return Plane(data[:luma], stride), Plane(data[luma:], stride)
    if form == "i420":
        chroma = stride // 2 * (height // 2)
        halves = data[luma : luma + chroma], data[luma + chroma :]
        return Plane(data[:luma], stride), *(Plane(half, stride // 2) for half in halves)
    return (Plane(data, stride),)


def cameras() -> list[str]:
    """The cameras there are, a line each, with what to write as ``camera``."""
    return [
        f"camera = {number}, or {info['Id']!r}: {info.get('Model', 'unknown model')}"
        for number, info in enumerate(Picamera2.global_camera_info())
    ]
