"""The capture process: one source's pictures into the frame rings, and what becomes of a source that stands still."""

from __future__ import annotations

import time
from typing import Literal

import zmq

from daemon.bus import Bus
from daemon.capture.liveness import Watch
from daemon.capture.open import opener
from daemon.capture.reader import Reader
from daemon.capture.source import Opener
from daemon.config import ConfigError
from daemon.pixels import Pixels
from daemon.plan import Plan
from daemon.process import Ready, Report, StageFailed
from daemon.publish import FramePublisher
from daemon.runtime import RuntimeFolder
from daemon.sources import CameraTable

OPEN_NS = 8_000_000_000
"""A camera may take this long to open and give its first good picture."""
GIVE_UP_NS = 1_000_000_000
"""A stalled source may still recover for this long; then the process ends, to be started anew."""
CHECK_NS = 50_000_000
STOP_WITHIN_S = 0.3


class Capture:
    """Publishes one source.

    Args:
        plan: the run's.
        runtime: where its rings go.
        source: name of the source.
        bus: the process's.
        poller: nothing is registered: pictures are published by the reader's own thread.
        open_source: opens the source; by default as its table says.

    Raises:
        StageFailed: in :meth:`turn`, when the source stands still.
    """

    def __init__(
        self,
        plan: Plan,
        runtime: RuntimeFolder,
        source: str,
        bus: Bus,
        poller: zmq.Poller,
        open_source: Opener | None = None,
    ) -> None:
        table = plan.config.sources[source]
        self._source = source
        self._limit_ns = plan.stall_ns(source)
        self._publisher = FramePublisher(plan, runtime, bus, source)
        self._watch = Watch(table.frozen_frames) if isinstance(table, CameraTable) else Watch(None)
        self._reader = Reader(source, open_source or opener(plan, source), self._watch, self._publish)
        self._stalled = False
        self._stalls = 0

    def turn(self, ready: Ready, now_ns: int) -> int:
        """See whether the source is alive; the reader's thread does the rest."""
        reader = self._reader
        if reader.failure is not None:
            raise reader.failure
        silent_ns = now_ns - reader.last_ns
        over_ns = silent_ns - (self._limit_ns if reader.flowing else OPEN_NS)
        if reader.state in ("absent", "ended") or over_ns <= 0:
            self._stalled = False
            return now_ns + CHECK_NS
        if not self._stalled:
            self._stalled = True
            self._stalls += 1
            self._watch.settle()
        if over_ns > GIVE_UP_NS:
            why = reader.detail or "it does not answer"
            raise StageFailed(f"source {self._source}: no picture for {silent_ns / 1e9:.1f} s: {why}")
        return now_ns + CHECK_NS

    def report(self) -> Report:
        """Pictures so far, what was refused, and how the source is."""
        reader = self._reader
        counts = {
            "frames": reader.published,
            "late": reader.late,
            "stalls": self._stalls,
            "opened": reader.opened,
            "failed": reader.failed,
        }
        return Report(
            state=self._state(),
            progress=reader.published,
            detail=self._detail(),
            counts={self._source: counts},
            dropped={self._source: dict(reader.refused)},
        )

    def _publish(self, pixels: Pixels, sensor_ns: int) -> None:
        try:
            self._publisher.publish(pixels, sensor_ns)
        except ValueError as error:  # an agent's view lies outside the picture: known only once there is one
            raise ConfigError(f"sources.{self._source}: {error}") from None

    def _state(self) -> Literal["starting", "running", "waiting", "degraded", "done"]:
        if self._reader.state == "ended":
            return "done"
        if self._reader.state == "absent":
            return "waiting"
        if self._stalled or (self._reader.note and self._reader.flowing):
            return "degraded"
        return "running" if self._reader.flowing else "starting"

    def _detail(self) -> str:
        frames = f"{self._reader.published} frames"
        if self._stalled:
            frames += f", none for {(time.monotonic_ns() - self._reader.last_ns) / 1e9:.1f} s"
        return "; ".join(filter(None, (frames, self._reader.note, self._reader.detail)))

    def shutdown(self) -> None:
        """Stop reading and remove the rings."""
        self._reader.stop(STOP_WITHIN_S)
        self._publisher.close()
