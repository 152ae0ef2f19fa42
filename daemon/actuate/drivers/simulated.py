"""Moves a simulated world: what a pin would carry goes out as an Output message.

A world that is just starting or reconnecting misses what is sent before the link stands (ZeroMQ drops it); it
begins neutral and falls back to neutral by its own fail-safe, as a servo controller does.
"""

from __future__ import annotations

import zmq

from daemon.actuate.drivers import DriverError
from daemon.bus import Bus, Publisher
from daemon.messages import Applied, Output


class SimulatedDriver:
    """Publishes every write on topic ``output`` of a world.

    Args:
        bus: opens the link.
        world: the world's name.
    """

    def __init__(self, bus: Bus, world: str) -> None:
        self._bus, self._world = bus, world
        self._publisher: Publisher | None = None
        self.complaint = ""
        self.lost = 0

    def open(self) -> None:
        """Connect; the world's end need not be there yet."""
        self._publisher = self._bus.publisher("output", self._world)

    def write(self, order: Applied) -> None:
        """Send one Output.

        Raises:
            DriverError: the link is not open, or ZeroMQ does not take the message.
        """
        if self._publisher is None:
            raise DriverError(f"world {self._world}: the link is not open")
        output = Output(
            seq=order.seq,
            sent_ns=order.applied_ns,
            frame_seq=order.frame_seq,
            action=order.action,
            values=order.values,
        )
        try:
            self._publisher.send(output)
        except zmq.ZMQError as error:
            raise DriverError(f"world {self._world}: {error.strerror}") from None

    def close(self) -> None:
        """Nothing more is sent; the bus closes the socket."""
        self._publisher = None
