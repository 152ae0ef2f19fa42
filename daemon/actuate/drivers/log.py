"""Moves nothing: writes down what an actuator would have been told, one JSON object a line.

The log is bounded: at :data:`MAX_BYTES` the file becomes ``<name>.1``, replacing the one before. Lines go to the
page cache, never to the disk one by one: an SD card wears by synchronous writes. A full or broken disk is
counted and reported, and does not stop the control loop.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import msgspec

from daemon.messages import Applied

MAX_BYTES = 8 * 1024 * 1024
"""Size at which the log is rotated; the two files together take twice as much. About 25 minutes a file at 50 Hz."""


class LogLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One write: ``t_ns`` and ``sensor_ns`` are CLOCK_MONOTONIC; ``agent`` is absent when no proposal stands behind."""

    t_ns: int
    cause: str
    agent: str = ""
    action: str | None = None
    values: list[float] = []
    sensor_ns: int = 0


class LogDriver:
    """Appends to a file.

    Args:
        path: the log; its folder exists.
        max_bytes: size at which it is rotated.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self._path, self._max_bytes = path, max_bytes
        self._fd = -1
        self._size = 0
        self._torn = False
        self.complaint = ""
        self.lost = 0

    def open(self) -> None:
        """Open or make the log. Failing is a complaint, and tried again with every line."""
        try:
            self._open()
        except OSError as error:
            self._complain(error)

    def write(self, order: Applied) -> None:
        """Append one line."""
        line = LogLine(
            t_ns=order.applied_ns,
            cause=order.cause,
            agent=order.agent,
            action=order.action,
            values=order.values,
            sensor_ns=order.sensor_ns,
        )
        try:
            self._append(msgspec.json.encode(line) + b"\n")
            self.complaint = ""
        except OSError as error:
            self.lost += 1
            self._complain(error)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        # A fifo or a link in the log's place must neither block the loop nor lead elsewhere.
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._fd = os.open(self._path, flags, 0o600)
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise OSError(errno.EINVAL, "expected a file to append to, found another kind")
        self._size = status.st_size
        self._torn = self._size > 0 and os.pread(self._fd, 1, self._size - 1) != b"\n"

    def _append(self, line: bytes) -> None:
        if self._fd >= 0 and self._size + len(line) > self._max_bytes:
            self.close()
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        if self._fd < 0:
            self._open()
        # A line cut off by a full disk or a power cut is ended first, so that only that one is lost to a reader.
        data = b"\n" + line if self._torn else line
        written = os.write(self._fd, data)
        self._size += written
        self._torn = written < len(data)
        if self._torn:
            raise OSError(errno.ENOSPC, f"{written} of {len(data)} bytes written")

    def _complain(self, error: OSError) -> None:
        self.complaint = f"{self._path}: {error.strerror}; {self.lost} lines lost"
