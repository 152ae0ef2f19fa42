"""The last step: one write to the driver, numbered, timed, and with its failure kept for people."""

from __future__ import annotations

import time

from msgspec.structs import replace

from daemon.actuate.drivers import Driver
from daemon.actuate.limits import Setting
from daemon.actuate.state import Cause
from daemon.messages import ActionProposal, Applied


class Writer:
    """Writes settings through a driver that is open.

    Args:
        driver: the hardware.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._seq = 0
        self.failure = ""
        """Why the last write failed; empty when it did not."""

    @property
    def trouble(self) -> str:
        """What is wrong with the driver, for people; empty when nothing is."""
        return self.failure or self._driver.complaint

    @property
    def lost(self) -> int:
        """Writes the driver could not carry out and went on from."""
        return self._driver.lost

    def write(self, cause: Cause, setting: Setting, proposal: ActionProposal | None = None) -> Applied | None:
        """Put ``setting`` into force.

        Returns:
            What was applied, stamped right after the write; None when the driver failed (see :attr:`failure`).
        """
        order = Applied(
            seq=self._seq + 1,
            applied_ns=time.monotonic_ns(),
            cause=cause,
            agent=proposal.agent if proposal else "",
            action=setting.action,
            values=list(setting.values),
            sensor_ns=proposal.sensor_ns if proposal else 0,
            frame_seq=proposal.frame_seq if proposal else 0,
            forward_ns=proposal.forward_ns if proposal else 0,
        )
        try:
            self._driver.write(order)
        except OSError as error:
            self.failure = f"driver: {error}"
            return None
        self.failure = ""
        self._seq += 1
        return replace(order, applied_ns=time.monotonic_ns())

    def close(self) -> None:
        """Let go of the hardware."""
        self._driver.close()
