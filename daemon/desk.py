"""The local command desk of a process: each command runs once, in time, in the life of the daemon it was meant for.

No sockets and no clock here: the service hands the messages in, with the time they are answered at.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Literal, TypeVar, cast

import msgspec

from daemon.messages import CommandReply, Hello, Message, Ordered, Welcome

Asked = TypeVar("Asked", bound=Ordered)

REMEMBERED = 256
"""Commands whose replies are kept: a repeated id gets its first answer again."""
MAX_WAIT_NS = 60_000_000_000
"""Furthest expiry accepted: a command that may run for longer could outlive the memory of its id."""


class Outcome(msgspec.Struct, frozen=True):
    """What came of an operation, for the person who asked."""

    status: Literal["done", "partial", "refused"]
    detail: str


class CommandDesk(Generic[Asked]):
    """Answers commanders.

    Args:
        epoch: this life of the process; commands for another are refused.
        run: carries an operation out.
        describe: the state after it for people, at a time in ns.
    """

    def __init__(self, epoch: int, run: Callable[[Asked, int], Outcome], describe: Callable[[int], str]) -> None:
        self._epoch, self._run, self._describe = epoch, run, describe
        self._answered: OrderedDict[str, tuple[Asked, CommandReply]] = OrderedDict()

    def answer(self, message: Message, now_ns: int) -> Welcome | CommandReply:
        """The reply to a Hello or a command; the link the message came by carries nothing else."""
        if isinstance(message, Hello):
            return Welcome(epoch=self._epoch, now_ns=now_ns)
        command = cast(Asked, message)
        known = self._answered.get(command.id)
        if known is not None:
            return self._again(command, *known, now_ns)
        outcome = self._refusal(command, now_ns) or self._run(command, now_ns)
        reply = self._reply(command, outcome, now_ns)
        self._answered[command.id] = (command, reply)
        if len(self._answered) > REMEMBERED:
            self._answered.popitem(last=False)
        return reply

    def _again(self, message: Asked, first: Asked, reply: CommandReply, now_ns: int) -> CommandReply:
        if message.asks == first.asks:
            self._answered.move_to_end(message.id)
            return reply
        text = f"id {message.id} was used for {first.asks!r} before: give every command an id of its own"
        return self._reply(message, Outcome("refused", text), now_ns)

    def _refusal(self, command: Asked, now_ns: int) -> Outcome | None:
        if command.epoch != self._epoch:
            text = "meant for an earlier start of this daemon: say hello again, look at the state, then decide anew"
            return Outcome("refused", text)
        late_ns = now_ns - command.expires_ns
        if late_ns >= 0:
            return Outcome("refused", f"expired {late_ns / 1e6:.1f} ms ago: nothing was done; send it again")
        if -late_ns > MAX_WAIT_NS:
            text = (
                f"expires in {-late_ns / 1e9:.0f} s: expected {MAX_WAIT_NS / 1e9:.0f} s at most, in the daemon's time"
            )
            return Outcome("refused", text)
        return None

    def _reply(self, command: Asked, outcome: Outcome, now_ns: int) -> CommandReply:
        state = self._describe(now_ns)[:512]
        return CommandReply(id=command.id, status=outcome.status, detail=outcome.detail[:512], state=state)
