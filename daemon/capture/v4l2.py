"""A Video4Linux camera as a source, through PyAV."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import av

from daemon.capture.decoded import raw_picture
from daemon.capture.devices import explained, mapped_here, present
from daemon.capture.liveness import Backlog
from daemon.capture.raw import BadPicture, RawPicture, raw_bytes
from daemon.capture.source import SourceFailed
from daemon.process import StageFailed
from daemon.sources import V4l2

_INPUT_FORMAT = {"mjpeg": "mjpeg", "yuyv": "yuyv422", "nv12": "nv12"}
"""FFmpeg's names."""
_END_OF_JPEG = b"\xff\xd9"
"""Nothing within a picture's data looks like it."""


class V4l2Camera:
    """A camera behind ``/dev/video*``.

    The driver stamps its buffers with CLOCK_MONOTONIC when the exposure begins or the picture arrives, as it says of
    itself. It keeps a queue of buffers: pictures that have waited there are left out for newer ones.

    Args:
        table: the source's table.
        container: what :func:`open_device` gives.
        stop: ends the waiting between pictures; a driver that blocks is not woken by it.
    """

    note = ""

    def __init__(self, table: V4l2, container: av.container.InputContainer, stop: Event) -> None:
        self._table, self._container, self._stop = table, container, stop
        self._stream = self._container.streams.video[0]
        self._stream.thread_type = "NONE"  # threads would hold pictures back
        self._stream.codec_context.options = {"err_detect": "explode"}  # half a JPEG is no picture
        self._packets = self._container.demux(self._stream)
        self._backlog = Backlog(round(1e9 / table.fps))
        self._picture_bytes = 0 if table.format == "mjpeg" else raw_bytes(table.format, table.width, table.height)
        self.late = 0

    def read(self) -> RawPicture | None:
        """The next picture that has not waited.

        Raises:
            BadPicture: half of it is missing, or all.
            SourceAbsent: the camera is gone.
            SourceFailed: the stream broke, or has another size than the one that is asked for.
        """
        for packet in self._arriving():
            if packet.pts is None or packet.time_base is None:
                raise BadPicture("broken", "a picture without a time stamp")
            sensor_ns = round(packet.pts * packet.time_base * 1_000_000_000)
            if self._backlog.has_waited(sensor_ns, time.monotonic_ns()):
                self.late += 1
                continue
            return raw_picture(self._decode(packet), sensor_ns)
        return None

    def close(self) -> None:
        """Give the device back."""
        self._container.close()

    def _arriving(self) -> Iterator[av.Packet[av.VideoStream]]:
        while not self._stop.is_set():
            try:
                packet = next(self._packets)
            except StopIteration:
                raise SourceFailed(f"{self._table.device}: the stream has ended") from None
            except av.error.FFmpegError as error:
                raise _explained(error, self._table.device) from None
            if packet.pts is None and not packet.size:
                continue  # PyAV's own, at the end of a stream
            if not packet.size:
                raise BadPicture("empty", "an empty buffer, or one that the driver marked as spoilt")
            yield packet

    def _decode(self, packet: av.Packet[av.VideoStream]) -> av.VideoFrame:
        if self._picture_bytes and packet.size != self._picture_bytes:
            raise self._other_size(f"{packet.size} bytes for {self._picture_bytes}")
        if self._stream.codec_context.name == "mjpeg" and _END_OF_JPEG not in bytes(packet):
            raise BadPicture("short", f"a JPEG of {packet.size} bytes without its end")
        try:
            frames = packet.decode()
        except av.error.InvalidDataError as error:
            raise BadPicture("broken", f"cannot be decoded: {error.strerror}") from None
        if not frames or packet.is_corrupt or frames[0].is_corrupt:
            raise BadPicture("broken", "only a part of it has arrived")
        if (frames[0].width, frames[0].height) != (self._table.width, self._table.height):
            raise self._other_size(f"{frames[0].width}x{frames[0].height}")
        return frames[0]

    def _other_size(self, given: str) -> SourceFailed:
        """FFmpeg says nothing of a camera that chose another size, and would cut its pictures up as if it had not."""
        table = self._table
        return SourceFailed(
            f"{table.device}: expected {table.width}x{table.height} {table.format}, the camera gives {given}: "
            "reflexd sources lists what it has"
        )


def open_device(table: V4l2) -> av.container.InputContainer:
    """Open a camera as its table says.

    Raises:
        SourceAbsent: unplugged.
        SourceFailed: busy, not permitted, or without the format that is asked for.
        StageFailed: the same, and only a new process can try again: an FFmpeg that cannot start a stream leaves the
            device's buffers mapped, which keeps the device busy as long as this process lives.
    """
    node = present(table.device)
    options = {
        "video_size": f"{table.width}x{table.height}",
        "framerate": f"{table.fps:g}",
        "input_format": _INPUT_FORMAT[table.format],
        "timestamps": "default",
    }
    try:
        return av.open(str(node), format="v4l2", options=options)
    except av.error.FFmpegError as error:
        why = _explained(error, table.device)
        if mapped_here(node):
            raise StageFailed(f"{why}; its buffers stay mapped, which only the end of this process undoes") from None
        if error.errno == errno.EINVAL:
            why = SourceFailed(f"{why}: it may not have {table.format}: reflexd sources lists what it has")
        raise why from None


def _explained(error: av.error.FFmpegError, device: str) -> OSError:
    return explained(OSError(error.errno, error.strerror), device)


def offered(node: Path) -> str:
    """What FFmpeg says of the formats of a device.

    Raises:
        OSError: it cannot be opened, or is no camera.
    """
    with av.logging.Capture() as log:
        av.logging.set_level(av.logging.INFO)
        try:
            av.open(str(node), format="v4l2", options={"list_formats": "all"}).close()
        except av.error.ExitError:  # so it ends when it has listed them
            pass
        except av.error.FFmpegError as error:
            raise OSError(error.errno, error.strerror) from None
        finally:
            av.logging.set_level(None)
    return "".join(text for _, _, text in log)
