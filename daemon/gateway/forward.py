"""Commands on their way to the processes that carry them out, and what came of them.

A command that was sent to one life of a process is never sent to the next one: what the first has done with it nobody
knows any more, and so says the outcome.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from daemon.bus import Bus
from daemon.messages import CommandReply, Hello, Ordered, Welcome
from daemon.remote import Outcome

RETRY_NS = 100_000_000
"""Pause before a process that has not answered is asked again; under the same id, it does nothing twice."""
ABSENT_NS = 20_000_000
"""Pause before one that is not there is looked for again."""

Done = Callable[[Outcome], None]


class _Sent:
    """A command under way."""

    def __init__(self, order: Ordered, done: Done) -> None:
        self.order, self.done = order, done
        self.epoch: int | None = None
        """Life of the process it was sent to."""
        self.due_ns = 0
        """When it is to be sent, again."""


class Forwarder:
    """The way to one process.

    Args:
        bus: has the link.
        desk: kind of its command socket.
        instance: its name there.
    """

    def __init__(self, bus: Bus, desk: str, instance: str) -> None:
        self._link = bus.command_link(desk, instance)
        self._name = instance
        self._under_way: dict[str, _Sent] = {}
        self._hello_due_ns = 0
        self.socket = self._link.socket

    def send(self, order: Ordered, now_ns: int, done: Done) -> None:
        """Have a command carried out; ``done`` is called once, before the command's expiry or soon after it."""
        self._under_way[order.id] = _Sent(order, done)
        self._say_hello(now_ns)

    def turn(self, now_ns: int) -> None:
        """Take the answers that have come; ask again where none has, until the commands expire."""
        for answer in self._link.receive():
            if isinstance(answer, Welcome):
                self._welcomed(answer.epoch, now_ns)
            elif isinstance(answer, CommandReply) and answer.id in self._under_way:
                self._finish(answer.id, answer.status, answer.detail, answer.state)
        for sent in list(self._under_way.values()):
            if now_ns >= sent.order.expires_ns + RETRY_NS:
                self._give_up(sent)
        if any(now_ns >= sent.due_ns for sent in self._under_way.values()):
            self._say_hello(now_ns)

    def due_ns(self) -> int | None:
        """When :meth:`turn` has something to do if nothing comes."""
        if not self._under_way:
            return None
        given_up_ns = min(sent.order.expires_ns for sent in self._under_way.values()) + RETRY_NS
        return min(given_up_ns, max(self._hello_due_ns, min(sent.due_ns for sent in self._under_way.values())))

    def _say_hello(self, now_ns: int) -> None:
        """Ask which life of the process it is: once, for all commands that wait for the answer."""
        if now_ns >= self._hello_due_ns:
            self._hello_due_ns = now_ns + (RETRY_NS if self._link.send(Hello()) else ABSENT_NS)

    def _welcomed(self, epoch: int, now_ns: int) -> None:
        self._hello_due_ns = now_ns
        for sent in list(self._under_way.values()):
            if sent.epoch is None and now_ns < sent.order.expires_ns:
                sent.epoch = epoch
            if sent.epoch == epoch:
                if now_ns >= sent.due_ns and self._link.send(msgspec.structs.replace(sent.order, epoch=epoch)):
                    sent.due_ns = now_ns + RETRY_NS
            elif sent.epoch is not None:
                text = f"{self._name} was started anew while it had this command: look at its state, then decide anew"
                self._finish(sent.order.id, "unknown", text)

    def _give_up(self, sent: _Sent) -> None:
        if sent.epoch is None:
            self._finish(sent.order.id, "refused", f"{self._name} does not run: nothing was done")
        else:
            self._finish(sent.order.id, "unknown", f"{self._name} has not answered: it may or may not have done it")

    def _finish(self, identity: str, status: str, detail: str, state: str = "") -> None:
        sent = self._under_way.pop(identity)
        outcome = {"target": self._name, "status": status, "detail": detail, "state": state}
        sent.done(msgspec.convert(outcome, Outcome))
