"""The clock of sources that have none of their own."""

from __future__ import annotations

import time
from threading import Event

SHORT_S = 0.1
"""A stop may come this late; a plain sleep wakes up a little sooner than an event."""


class Pace:
    """Waits for the moment of the next picture.

    Args:
        stop: ends the waiting.
    """

    def __init__(self, stop: Event) -> None:
        self._stop = stop
        self._due_ns: int | None = None
        self.late = 0

    def wait(self, step_ns: int) -> int:
        """Wait until ``step_ns`` after the moment before, or not if that has passed: no burst makes up for a pause.

        Returns:
            CLOCK_MONOTONIC now, ns.
        """
        now_ns = time.monotonic_ns()
        due_ns = now_ns if self._due_ns is None else self._due_ns + step_ns
        if due_ns >= now_ns:
            self._due_ns = due_ns
            self._sleep((due_ns - now_ns) / 1e9)
            return time.monotonic_ns()
        self.late += 1
        self._due_ns = now_ns
        return now_ns

    def _sleep(self, seconds: float) -> None:
        if seconds < SHORT_S:
            time.sleep(seconds)
        else:
            self._stop.wait(seconds)
