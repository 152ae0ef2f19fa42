"""What one client has asked for lately, and what it has used of its share. Pure."""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable

import msgspec

from daemon.remote import Ask, Reason, Reply, Request

REMEMBERED = 4096
"""Requests of a client that are kept with their replies: more than it may send while the first of them can still run,
so that none comes a second time after it was forgotten."""
REMEMBERED_BYTES = 4 * 1024 * 1024
"""Of results in the replies kept. Those of the oldest requests that only read go: to run again does no harm."""
TURNED_AWAY = 1024
"""Refused requests kept: a copy of one that comes later, by another connection, must not run after all."""
UNDER_WAY = 32
"""Requests that have no reply yet."""
RATE_HZ, BURST = 50.0, 100.0
"""Requests; to stop and to disarm is always allowed."""
SAME_AGAIN = 4
"""Connections by which a client may wait for one reply: each time it lost one it comes by a new one."""
TOLD_EVERY_NS = 1_000_000_000
"""Pause between two lines of log about the same reason for refusing the same client."""

Answer = Callable[[Reply], None]


class Known:
    """A request that was begun."""

    def __init__(self, request: Request) -> None:
        self.digest, self.words = digest(request.ask), words(request.ask)
        self.only_reads = request.ask.least_role == "observe"
        self.reply: Reply | None = None
        self.size = 0
        self.waiting: list[Answer] = []

    def wait(self, answer: Answer) -> None:
        """Give it the reply too; the oldest of many wait no more."""
        self.waiting = [*self.waiting[1 - SAME_AGAIN :], answer]


class Account:
    """Of one client."""

    def __init__(self, now_ns: int) -> None:
        self.known: OrderedDict[str, Known] = OrderedDict()
        self._turned_away: OrderedDict[str, Reply] = OrderedDict()
        self._left, self._at_ns = BURST, now_ns
        self.under_way = self._bytes = 0
        self._told_ns: dict[Reason, int] = {}
        self._untold = Counter[Reason]()

    def takes_one(self, now_ns: int) -> bool:
        """Take a request from the share, if there is one left."""
        self._left = min(BURST, self._left + (now_ns - self._at_ns) / 1e9 * RATE_HZ)
        self._at_ns = now_ns
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True

    def begin(self, request: Request) -> Known:
        """Remember a request that is begun now."""
        known = self.known[request.id] = Known(request)
        self.under_way += 1
        return known

    def finish(self, known: Known, reply: Reply) -> None:
        """Remember its reply."""
        self.under_way -= 1
        known.reply, known.size = reply, len(msgspec.msgpack.encode(reply.result))
        self._bytes += known.size
        self._forget()

    def turn_away(self, reply: Reply) -> None:
        """Remember that a request was refused."""
        self._turned_away[reply.id] = reply
        if len(self._turned_away) > TURNED_AWAY:
            self._turned_away.popitem(last=False)

    def turned_away(self, identity: str) -> Reply | None:
        """Why a request with this id was refused, if it was."""
        return self._turned_away.get(identity)

    def refused(self, reason: Reason, now_ns: int) -> int:
        """How many refusals are to be told now, this one with them; 0: later, they would fill the log."""
        self._untold[reason] += 1
        if now_ns - self._told_ns.get(reason, now_ns - TOLD_EVERY_NS) < TOLD_EVERY_NS:
            return 0
        self._told_ns[reason] = now_ns
        return self._untold.pop(reason)

    def _forget(self) -> None:
        """One without a reply yet stays."""
        if len(self.known) > REMEMBERED:
            self._forget_first(lambda known: known.reply is not None)
        while self._bytes > REMEMBERED_BYTES and self._forget_first(
            lambda known: known.reply is not None and known.only_reads
        ):
            pass

    def _forget_first(self, which: Callable[[Known], bool]) -> bool:
        identity = next((identity for identity, known in self.known.items() if which(known)), None)
        if identity is not None:
            self._bytes -= self.known.pop(identity).size
        return identity is not None


def digest(ask: Ask) -> bytes:
    """Stands for the whole of an ask, which may be large."""
    return hashlib.sha256(msgspec.msgpack.encode(ask)).digest()


def words(ask: Ask) -> str:
    """An ask for people: its name and what is not as by default; on one line, whatever it holds."""
    values = {name: value for name, value in msgspec.structs.asdict(ask).items() if value and name != "data"}
    return one_line(" ".join([type(ask).__name__, *(f"{name}={value}" for name, value in values.items())]))


def one_line(text: str) -> str:
    """Without what a terminal or a log takes for more than letters: nobody writes lines in another's name."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
