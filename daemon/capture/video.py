"""A video file as a source, through PyAV."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av

from daemon.capture.decoded import raw_picture
from daemon.capture.raw import BadPicture, RawPicture
from daemon.config import ConfigError
from daemon.sources import Video

RATE_SLACK = 1.05
"""A file may have this many times the pictures per second of ``fps``: 29.97 is not 30, and some files say 30.1."""
LONGEST_STEP_NS = 400_000_000
"""A pause in the file's own time is shortened to this: the source must not count as stalled."""


class VideoFile:
    """Plays a file.

    Args:
        table: the source's table.
        path: the file.

    Raises:
        ConfigError: no such file, no video in it, or more pictures per second than ``fps``.
    """

    late, note = 0, ""

    def __init__(self, table: Video, path: Path) -> None:
        self._table, self._path = table, path
        self._period_ns = round(1e9 / table.fps)
        self._container, self._pictures = self._open()

    def read(self) -> RawPicture | None:
        """The next picture, as long after the one before as the table or the file says."""
        try:
            frame, step_ns = next(self._pictures)
        except StopIteration:
            if not self._table.loop:
                return None
            self._container.close()
            self._container, self._pictures = self._open()
            frame, step_ns = next(self._pictures, (None, self._period_ns))
        if frame is None:
            raise BadPicture("broken", f"{self._path}: a picture that cannot be decoded", step_ns)
        return raw_picture(frame, None, step_ns)

    def close(self) -> None:
        """Close the file."""
        self._container.close()

    def _open(self) -> tuple[av.container.InputContainer, Iterator[tuple[av.VideoFrame | None, int]]]:
        where = f"path = {str(self._path)!r}"
        try:
            container = av.open(str(self._path))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{where}: expected a video file: {error}") from None
        if not container.streams.video:
            raise ConfigError(f"{where}: there is no video in this file")
        stream = container.streams.video[0]
        rate = stream.average_rate or Fraction(0)
        if rate > self._table.fps * RATE_SLACK:
            raise ConfigError(f"fps = {self._table.fps}: {self._path} has {float(rate):.4g}: expected that or more")
        return container, self._decode(container, stream, round(1e9 / rate) if rate else self._period_ns)

    def _decode(
        self, container: av.container.InputContainer, stream: av.VideoStream, usual_ns: int
    ) -> Iterator[tuple[av.VideoFrame | None, int]]:
        """Yield each picture, None for one that cannot be decoded, and the time from the one before to it, ns."""
        before: float | None = None
        for packet in container.demux(stream):
            try:
                frames = packet.decode()
            except av.error.InvalidDataError:
                yield None, self._period_ns
                continue
            for frame in frames:
                step_ns = usual_ns
                if before is not None and frame.time is not None:
                    step_ns = round((frame.time - before) * 1e9)
                before = frame.time
                own_ns = min(max(step_ns, 0), LONGEST_STEP_NS)
                yield frame, own_ns if self._table.rate == "own" else self._period_ns
