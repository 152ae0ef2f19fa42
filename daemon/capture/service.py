"""The capture process: a source's pictures at its own rate, each with its sensor time."""

from __future__ import annotations

import time

import zmq

from daemon.bus import Bus
from daemon.capture.synthetic import SyntheticCamera
from daemon.plan import Plan
from daemon.process import Ready, Report
from daemon.publish import FramePublisher
from daemon.runtime import RuntimeFolder


class Capture:
    """Publishes one source."""

    def __init__(self, plan: Plan, runtime: RuntimeFolder, source: str, bus: Bus, poller: zmq.Poller) -> None:
        config = plan.config.sources[source]
        self._source = source
        self._camera = SyntheticCamera(config)
        self._period_ns = round(1e9 / config.fps)
        self._publisher = FramePublisher(plan, runtime, bus, source)
        self._due_ns = time.monotonic_ns()
        self._frames = self._late = 0
        self._picture = self._camera.picture(0)

    def turn(self, ready: Ready, now_ns: int) -> int:
        """Take and publish the next picture when it is due; after a pause go on from now, without a burst."""
        if now_ns >= self._due_ns:
            self._publisher.publish(self._picture, time.monotonic_ns())
            self._frames += 1
            self._picture = self._camera.picture(self._frames)
            self._due_ns += self._period_ns
            if now_ns > self._due_ns:
                self._late += 1
                self._due_ns = now_ns + self._period_ns
        return self._due_ns

    def report(self) -> Report:
        """Frames so far, and those that came late."""
        counts = {self._source: {"frames": self._frames, "late": self._late}}
        return Report(state="running", progress=self._frames, detail=f"{self._frames} frames", counts=counts)

    def shutdown(self) -> None:
        """Remove the rings."""
        self._publisher.close()
