"""A source's way out: fit each raw picture to every view its agents need, into the rings, and wake the readers."""

from __future__ import annotations

import os

from daemon.bus import Bus
from daemon.frames import RingWriter
from daemon.messages import FrameReady
from daemon.pixels import Pixels, fit
from daemon.plan import Plan
from daemon.runtime import RuntimeFolder


class FramePublisher:
    """The rings and the ``frame`` topic of one source or world.

    Raises:
        RingError: a ring does not fit into the runtime folder.
    """

    def __init__(self, plan: Plan, runtime: RuntimeFolder, bus: Bus, source: str) -> None:
        epoch = int.from_bytes(os.urandom(7))
        slots = plan.slots(source)
        self._rings = {
            view.name: RingWriter(runtime.ring(source, view), view, slots, epoch) for view in plan.views(source)
        }
        self._topic = bus.publisher("frame", source)

    def publish(self, raw: Pixels, sensor_ns: int, after: int | None = None) -> int:
        """Publish one picture and return its sequence number.

        Args:
            raw: ``uint8`` grey ``(h, w)`` or RGB ``(h, w, 3)``.
            sensor_ns: CLOCK_MONOTONIC time of the exposure.
            after: see :class:`daemon.messages.FrameReady`.
        """
        seq = -1
        for view, ring in self._rings.items():
            seq = ring.write(fit(raw, ring.view), sensor_ns)
            self._topic.send(FrameReady(view=view, epoch=ring.epoch, seq=seq, sensor_ns=sensor_ns, after=after))
        return seq

    def close(self) -> None:
        """Remove the rings."""
        for ring in self._rings.values():
            ring.close()
