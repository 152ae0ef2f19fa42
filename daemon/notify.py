"""What a process tells systemd of itself (sd_notify(3)): ready, how it is, that it gets on, that it needs more time.

Nothing here runs on a timer of its own: the main loop calls :meth:`Notifier.turn` when it sends its health, so that
a loop that hangs falls silent. One that turns but gets no further is silent too, by the rule by which ``reflexd run``
restarts a process.
"""

from __future__ import annotations

import logging
import os
import select
import socket
from collections.abc import Callable, Mapping

from daemon.restart import RestartPolicy

logger = logging.getLogger(__name__)

EXTEND_NS = 15_000_000_000
"""What a process that is still starting asks for, again and again: if it falls silent for this long, it is stuck."""
EXTEND_EVERY_NS = 1_000_000_000
STATUS_EVERY_NS = 2_000_000_000
"""A text that changes with every frame is told this often; a change of state at once."""

Send = Callable[[str], None]
"""Tells systemd; never waits and never fails."""


class Letterbox:
    """Says whether a datagram socket of systemd has room.

    libsystemd waits where it has none. A service manager or journal that has stopped reading must not stop an
    actuator, so who would send asks here first.

    Args:
        address: path, or ``@name`` of an abstract socket.

    Raises:
        OSError: nobody has bound the address.
    """

    def __init__(self, address: str) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as looking:
            looking.connect("\0" + address[1:] if address.startswith("@") else address)
            self._poll = select.poll()
            self._poll.register(looking.detach(), select.POLLOUT)  # open as long as the process lives

    def has_room(self) -> bool:
        """Whether a message would be taken now."""
        return bool(self._poll.poll(0))


def connect(environment: Mapping[str, str] = os.environ) -> Send | None:
    """The way to systemd; None where it has not started this process or cannot be told. The latter is logged."""
    address = environment.get("NOTIFY_SOCKET")
    if not address:
        return None
    try:
        from systemd.daemon import notify  # only under systemd: nothing else needs libsystemd

        letterbox = Letterbox(address)
    except ImportError:
        logger.error("systemd waits for word of this process, and the package to send it is missing: %s", _REMEDY)
        return None
    except OSError as error:
        logger.error("NOTIFY_SOCKET=%s: systemd cannot be told anything: %s", address, error.strerror)
        return None

    def send(text: str) -> None:
        if letterbox.has_room():
            notify(text)

    return send


_REMEDY = "apt install python3-systemd (or pip install 'reflexd[systemd]')"


def watchdog_ns(environment: Mapping[str, str] = os.environ) -> int:
    """``WatchdogSec=`` of this process's unit, ns; 0 for none."""
    text = environment.get("WATCHDOG_USEC", "")
    other = environment.get("WATCHDOG_PID", "") not in ("", str(os.getpid()))
    return int(text) * 1_000 if text.isdigit() and not other else 0


def status_line(text: str) -> str:
    """The assignment that shows a text in `systemctl status`. A line break in it would begin another assignment."""
    return f"STATUS={' '.join(text.split())}"


class Notifier:
    """One process's word to systemd.

    Args:
        send: the way to it.
        policy: judges whether the process gets on; it has been told of the start.
        watchdog_ns: a third of this passes between two signs of life, ns; 0 for none.
    """

    def __init__(self, send: Send, policy: RestartPolicy, watchdog_ns: int) -> None:
        self._send, self._policy = send, policy
        self._feed_every_ns = watchdog_ns // 3
        self._feed_due_ns = self._extend_due_ns = self._status_due_ns = 0
        self._ready = self._stuck = False
        self._state = self._status = ""

    def turn(self, state: str, progress: int, detail: str, now_ns: int) -> None:
        """Tell what is due; the stage's report, and CLOCK_MONOTONIC."""
        self._policy.health(now_ns, state, progress)
        self._judge(self._policy.due(now_ns) == "kill")
        lines = self._status_lines(state, detail, now_ns)
        if not self._stuck:
            lines += self._life_lines(state, now_ns)
        if lines:
            self._send("\n".join(lines))

    def stopping(self) -> None:
        """The process is about to let go of everything."""
        self._send("STOPPING=1\nSTATUS=stopping")

    def _judge(self, stuck: bool) -> None:
        if stuck and not self._stuck:
            logger.error(
                "no progress for %g s: left to systemd, which ends and restarts it", self._policy.limit_ns / 1e9
            )
        self._stuck = stuck

    def _status_lines(self, state: str, detail: str, now_ns: int) -> list[str]:
        status = f"{state}: {detail}" if detail else state
        if status == self._status or (state == self._state and now_ns < self._status_due_ns):
            return []
        self._state, self._status, self._status_due_ns = state, status, now_ns + STATUS_EVERY_NS
        return [status_line(status)]

    def _life_lines(self, state: str, now_ns: int) -> list[str]:
        lines = []
        if not self._ready and state != "starting":
            self._ready = True
            lines.append("READY=1")
        if not self._ready and now_ns >= self._extend_due_ns:
            self._extend_due_ns = now_ns + EXTEND_EVERY_NS
            lines.append(f"EXTEND_TIMEOUT_USEC={EXTEND_NS // 1_000}")
        if self._feed_every_ns and now_ns >= self._feed_due_ns:
            self._feed_due_ns = now_ns + self._feed_every_ns
            lines.append("WATCHDOG=1")
        return lines
