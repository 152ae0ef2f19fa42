"""Commands to an actuator on this machine, for ``reflexd estop|clear|arm|disarm|status``."""

from __future__ import annotations

import os
import time
import uuid

from daemon.bus import Bus
from daemon.messages import COMMAND_EXPIRY_MS, Command, CommandReply, Hello, Operation, Welcome
from daemon.runtime import RuntimeFolder
from daemon.wire import WireError

TRY_MS = 300
"""How long one try waits: a daemon that was just starting answers the next one."""


class CommandError(OSError):
    """No answer, or not one that can be understood; the text says from whom and what to look at."""


def command(runtime: RuntimeFolder, actuator: str, operation: Operation, timeout_ms: int) -> CommandReply:
    """Have ``operation`` carried out, once, and return the answer.

    Each try says hello for the daemon's epoch and clock, then sends the command under the same id. It expires when
    this function gives up: nothing runs after the caller has been told that there was no answer.

    Raises:
        CommandError: no answer within ``timeout_ms``, or one of another protocol.
    """
    identity, deadline_ns = uuid.uuid4().hex, time.monotonic_ns() + timeout_ms * 1_000_000
    while time.monotonic_ns() < deadline_ns:
        with Bus(runtime) as bus:
            try:
                reply = _try(bus, actuator, identity, operation, deadline_ns)
            except WireError as error:
                raise CommandError(f"actuate@{actuator} answered in a way this build does not know: {error}") from None
        if reply is not None:
            return reply
    raise CommandError(
        f"no answer from actuate@{actuator} within {timeout_ms} ms: is the daemon running? "
        f"runtime folder {runtime.folder}"
    )


def _try(bus: Bus, actuator: str, identity: str, operation: Operation, deadline_ns: int) -> CommandReply | None:
    # A socket for each question: an answer that comes twice cannot be taken for that of the next.
    welcome = bus.command_client("command", actuator).ask(Hello(), _wait_ms(deadline_ns))
    if not isinstance(welcome, Welcome):
        return None
    left_ns = max(0, deadline_ns - time.monotonic_ns())
    message = Command(
        id=identity,
        epoch=welcome.epoch,
        expires_ns=welcome.now_ns + min(left_ns, COMMAND_EXPIRY_MS * 1_000_000),
        operation=operation,
        who=_who(),
    )
    reply = bus.command_client("command", actuator).ask(message, _wait_ms(deadline_ns))
    return reply if isinstance(reply, CommandReply) and reply.id == identity else None


def _wait_ms(deadline_ns: int) -> int:
    return min(TRY_MS, max(0, (deadline_ns - time.monotonic_ns()) // 1_000_000))


def _who() -> str:
    """Whom to name in the log. Never a reason for a stop command to fail: printable, short, whatever $USER holds."""
    user = os.environ.get("USER") or f"uid {os.getuid()}"
    return "".join(letter if letter.isprintable() else "?" for letter in user[:64]) + " at the command line"
