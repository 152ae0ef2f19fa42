"""Reads a source in a thread of its own and publishes every good picture.

A driver may block for ever. It blocks this thread then, and never the process's main loop, which goes on to say so
and gives up in time; what the process holds goes with it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Literal

from daemon.capture.convert import Converter
from daemon.capture.liveness import Watch
from daemon.capture.pace import Pace
from daemon.capture.raw import BadPicture, RawPicture
from daemon.capture.source import Opener, Source, SourceAbsent
from daemon.pixels import Pixels
from daemon.process import StageFailed

logger = logging.getLogger(__name__)

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
"""Between two attempts to open a source; each pause is twice the one before, until a good picture has come."""
ATTEMPTS = 5
"""A source that fails this often without a good picture is left to a new process."""
LOG_EVERY = 100
"""Of refusals with the same reason the first and every hundredth is logged; all are counted."""

State = Literal["opening", "reading", "absent", "ended"]


class Reader:
    """The thread of one source.

    Its attributes are written there and may be read anywhere.

    Args:
        name: of the source, for people.
        opener: opens it.
        watch: looks at its pictures.
        publish: takes a good picture (see :meth:`Converter.pixels`) and its sensor time, ns.
    """

    def __init__(self, name: str, opener: Opener, watch: Watch, publish: Callable[[Pixels, int], object]) -> None:
        self._name, self._opener, self._watch, self._publish = name, opener, watch, publish
        self._converter = Converter()
        self._stop, self._publishing = Event(), Lock()
        self._pace = Pace(self._stop)
        self._pause_s, self._attempts = FIRST_PAUSE_S, 0
        self.state: State = "opening"
        self.detail = ""
        """What was last wrong; empty once a good picture has come."""
        self.note = ""
        """What the source says of itself, see :class:`Source`."""
        self.published = self.opened = self.failed = self.late = 0
        self.last_ns = time.monotonic_ns()
        """When the last good picture came, or since when the source has been in its state without one."""
        self.flowing = False
        """A good picture has come since the source was opened."""
        self.refused: dict[str, int] = {}
        self.failure: Exception | None = None
        """Why the thread has ended before its time."""
        self._thread = Thread(target=self._run, name=f"source {name}", daemon=True)
        self._thread.start()

    def stop(self, within_s: float) -> None:
        """End the thread; one that a driver blocks is left behind, and publishes nothing any more."""
        self._stop.set()
        self._thread.join(within_s)
        self._publishing.acquire(timeout=within_s)  # never released: what is published to is about to go

    def _run(self) -> None:
        try:
            while not self._stop.is_set() and self.state != "ended":
                self._open_and_read()
        except Exception as error:  # the main loop raises it
            self.failure = error

    def _open_and_read(self) -> None:
        try:
            source = self._opener(self._stop)
        except SourceAbsent as error:
            self._enter("absent", str(error))
            self._back_off()
            return
        except OSError as error:
            self._fault(error)
            return
        except StageFailed as error:
            raise StageFailed(f"source {self._name}: {error}") from None
        self.opened += 1
        self.note = source.note
        self._watch.opened()
        self._enter("reading", self.detail)
        try:
            self._read(source)
        except OSError as error:
            self._fault(error)
        finally:
            with suppress(OSError):  # the camera may be gone
                source.close()

    def _read(self, source: Source) -> None:
        while not self._stop.is_set():
            try:
                raw = source.read()
                if raw is None:
                    self._enter("ended", "")
                    return
                self._take(raw)
            except BadPicture as error:
                self._refuse(error)
                if error.step_ns:
                    self._pace.wait(error.step_ns)
            self.late = source.late + self._pace.late

    def _take(self, raw: RawPicture) -> None:
        if raw.sensor_ns is not None:
            self._watch.stamp(raw.sensor_ns, time.monotonic_ns())
        pixels = self._converter.pixels(raw)
        self._watch.content(pixels)
        sensor_ns = self._pace.wait(raw.step_ns) if raw.sensor_ns is None else raw.sensor_ns
        if self._stop.is_set():
            return
        with self._publishing:
            self._publish(pixels, sensor_ns)
        self.published += 1
        self.last_ns = time.monotonic_ns()
        if not self.flowing:
            logger.info("source %s: %dx%d %s", self._name, raw.width, raw.height, raw.format)
            self.flowing, self.detail, self._attempts, self._pause_s = True, "", 0, FIRST_PAUSE_S

    def _refuse(self, error: BadPicture) -> None:
        count = self.refused.get(error.reason, 0)
        self.refused = {**self.refused, error.reason: count + 1}  # anew: the main loop may be reading the old one
        if error.reason == "settling":
            return
        if count % LOG_EVERY == 0:
            logger.warning("source %s: %s: %s", self._name, error.reason, error)
        self.detail = f"{error.reason}: {error}"

    def _fault(self, error: OSError) -> None:
        self.failed += 1
        self._attempts += 1
        logger.warning("source %s: %s", self._name, error)
        if self._attempts >= ATTEMPTS:
            raise StageFailed(f"source {self._name}: {ATTEMPTS} attempts without a good picture: {error}")
        self._enter("opening", str(error))
        self._back_off()

    def _enter(self, state: State, detail: str) -> None:
        if state == "absent" and self.state != "absent":
            logger.warning("source %s: %s: waiting for it", self._name, detail)
        self.detail, self.flowing, self.last_ns, self.state = detail, False, time.monotonic_ns(), state

    def _back_off(self) -> None:
        self._stop.wait(self._pause_s)
        self._pause_s = min(LONGEST_PAUSE_S, 2 * self._pause_s)
