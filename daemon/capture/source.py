"""What a source of pictures is: the one interface, and the ways in which one is not there or fails."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Protocol

from daemon.capture.raw import RawPicture


class SourceAbsent(OSError):
    """The camera is not there (unplugged, not found yet): worth waiting for. The text names where it was looked for."""


class SourceFailed(OSError):
    """The camera is there and cannot be used; the text says why and what to do. Opening it anew may help."""


class Source(Protocol):
    """An opened source. It is used by one thread, and may block there for ever: nothing else waits for it."""

    @property
    def late(self) -> int:
        """Pictures that the source itself took too late, or left out for newer ones."""

    @property
    def note(self) -> str:
        """What is not as configured, though it runs; empty if nothing is."""

    def read(self) -> RawPicture | None:
        """Wait for the next picture; None at the end, or when the stop that it was opened with is set.

        Raises:
            BadPicture: this one is none; there may be a next.
            OSError: the source does not work any more.
        """

    def close(self) -> None:
        """Give the camera or file back."""


Opener = Callable[[Event], Source]
"""Opens a source; the event ends its waiting.

Raises:
    SourceAbsent: to be tried again until it is there.
    OSError: to be tried again some times.
    StageFailed: to be tried again by a new process alone.
    ConfigError: not to be tried again.
"""
