"""The e-stop latch on disk: it survives a crash, a restart and a power cut.

The file's existence is the latch; its text is only for people. Whatever lies there instead of a readable latch
counts as latched too.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

MAX_BYTES = 4096


class LatchError(OSError):
    """The latch could not be written or removed durably; the text says what to do."""


class Latch:
    """The latch of one actuator.

    Args:
        path: the file; its folder exists.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> str | None:
        """Why the stop is latched; None only when nothing at all lies at the path."""
        try:
            status = self._path.lstat()
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"{self._path}: cannot look at the latch ({error.strerror}), so it counts as latched"
        if not stat.S_ISREG(status.st_mode):
            return f"{self._path}: expected a latch file, found another kind of file, so it counts as latched"
        try:
            return self._text()
        except OSError as error:
            return f"{self._path}: cannot read the latch ({error.strerror}), so it counts as latched"

    def set(self, why: str) -> None:
        """Latch durably: when this returns, the latch is on the disk.

        Raises:
            LatchError: it is not, or not for certain.
        """
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(self._path, flags, 0o600)
            try:
                _write_all(fd, f"{why}\n".encode()[:MAX_BYTES])
                os.fsync(fd)
            finally:
                os.close(fd)
            self._sync_folder()
        except OSError as error:
            raise LatchError(f"{self._path}: {error.strerror}") from None

    def clear(self) -> None:
        """Remove the latch durably; nothing there is fine.

        Raises:
            LatchError: it is still there, or may come back after a power cut.
        """
        try:
            self._path.unlink(missing_ok=True)
            self._sync_folder()
        except OSError as error:
            raise LatchError(f"{self._path}: {error.strerror}: remove it by hand") from None

    def _text(self) -> str:
        fd = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            data = os.read(fd, MAX_BYTES)
        finally:
            os.close(fd)
        text = data.decode(errors="replace").strip()
        if not text or not text.isprintable():
            return f"{self._path}: the latch holds {len(data)} bytes that are not its text"
        return text

    def _sync_folder(self) -> None:
        """Make the file's name durable, or its removal: fsync(2) of a file does not cover its folder's entry."""
        fd = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
