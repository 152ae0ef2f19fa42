"""What moves the world: one driver per kind of hardware, all behind :class:`Driver`."""

from __future__ import annotations

from typing import Protocol

from daemon.messages import Applied


class DriverError(OSError):
    """A write that did not reach the hardware, or not for certain."""


class Driver(Protocol):
    """One actuator's hardware. Calls come from one thread and must return within a fraction of a control period."""

    complaint: str
    """What is wrong although writing goes on, for people; empty when nothing is."""
    lost: int
    """Writes it could not carry out and went on from, since the start."""

    def open(self) -> None:
        """Get hold of the hardware; the first write, neutral, follows at once.

        Raises:
            DriverError: not possible.
        """

    def write(self, order: Applied) -> None:
        """Put ``order``'s action or values into force. Its ``applied_ns`` is the time before the write.

        Raises:
            DriverError: it is not in force, or not for certain.
        """

    def close(self) -> None:
        """Let go; neutral was written before."""
