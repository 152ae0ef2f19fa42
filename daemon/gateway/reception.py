"""The reception: who may ask what, each request once and in time, and the record of who asked for what. No sockets.

A request comes in, is refused or begun, and has one reply. Its id is remembered: asked again it gets the same reply,
also after its time; this is how a client finds out what came of a request whose reply was lost.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from daemon.gateway.clients import Client
from daemon.gateway.replies import refused
from daemon.remote import Ask, Picture, Propose, PushModel, Reply, Request, Valve

logger = logging.getLogger(__name__)

REMEMBERED = 4096
"""Replies kept."""
REMEMBERED_BYTES = 16 * 1024 * 1024
"""Of pictures and records in the replies kept; the oldest go."""
MAX_WAIT_NS = 60_000_000_000
"""Furthest expiry accepted."""
UNDER_WAY = 32
"""Requests of one client that have no reply yet."""
RATE_HZ, BURST = 50.0, 100.0
"""Requests of one client; to stop and to disarm is always allowed."""

SAME_AGAIN = 4
"""Connections by which a client may wait for one reply: each time it lost one it comes by a new one."""

Answer = Callable[[Reply], None]
Begin = Callable[[Client, Request, Answer], None]


class _Known:
    """A request seen before."""

    def __init__(self, request: Request) -> None:
        self.digest, self.words = _digest(request.ask), _words(request.ask)
        self.recorded = _is_recorded(request.ask)
        self.reply: Reply | None = None
        self.waiting: list[Answer] = []


class _Account:
    """What a client has used of its share."""

    def __init__(self, now_ns: int) -> None:
        self.left, self.at_ns = BURST, now_ns
        self.under_way = 0

    def takes_one(self, now_ns: int) -> bool:
        self.left = min(BURST, self.left + (now_ns - self.at_ns) / 1e9 * RATE_HZ)
        self.at_ns = now_ns
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True


class Reception:
    """Lets requests through to ``begin``.

    Args:
        epoch: this life of the gateway.
        begin: starts what was asked for; it must call the answer it is given once, then or later.
    """

    def __init__(self, epoch: int, begin: Begin) -> None:
        self.epoch, self._begin = epoch, begin
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()
        self._bytes = 0
        self._accounts: dict[str, _Account] = {}

    def take(self, client: Client, request: Request, now_ns: int, answer: Answer) -> None:
        """Take a request in; ``answer`` gets its reply, at once or later."""
        known = self._known.get((client.name, request.id))
        if known is not None:
            self._again(known, request, answer)
            return
        account = self._accounts.setdefault(client.name, _Account(now_ns))
        refusal = self._refusal(client, account, request, now_ns)
        if refusal is not None:
            logger.warning("%s by %s refused: %s", _words(request.ask), client.name, refusal.detail)
            answer(refusal)
            return
        known = self._known[(client.name, request.id)] = _Known(request)
        known.waiting.append(answer)
        account.under_way += 1
        self._begin(client, request, lambda reply: self._finish(client, known, account, reply))
        self._forget()

    def _again(self, known: _Known, request: Request, answer: Answer) -> None:
        if known.digest != _digest(request.ask):
            text = f"id {request.id} was used for {known.words} before: give every request an id of its own"
            answer(refused(request, "reused", text))
        elif known.reply is not None:
            answer(known.reply)
        else:
            known.waiting = [*known.waiting[1 - SAME_AGAIN :], answer]

    def _refusal(self, client: Client, account: _Account, request: Request, now_ns: int) -> Reply | None:
        late_ns = now_ns - request.expires_ns
        if request.epoch != self.epoch:
            text = "meant for an earlier start of the gateway: nothing was done by this one; say hello again"
            return refused(request, "epoch", text)
        if late_ns >= 0:
            return refused(request, "expired", f"expired {late_ns / 1e6:.1f} ms ago: nothing was done")
        if -late_ns > MAX_WAIT_NS:
            text = (
                f"expires in {-late_ns / 1e9:.0f} s: expected {MAX_WAIT_NS / 1e9:.0f} s at most, in the device's time"
            )
            return refused(request, "expired", text)
        least = request.ask.least_role
        if not client.may(least):
            return refused(request, "role", f"{client.name} may {client.role}, this needs {least}")
        if isinstance(request.ask, Picture) and not client.frames:
            return refused(request, "role", f"{client.name} was not trusted with frames (frames = true)")
        if not account.takes_one(now_ns) and not _stops(request.ask):
            return refused(request, "rate", f"more than {RATE_HZ:.0f} requests a second: wait")
        if account.under_way >= UNDER_WAY and not _stops(request.ask):
            return refused(request, "busy", f"{UNDER_WAY} requests have no reply yet: wait for them")
        return None

    def _finish(self, client: Client, known: _Known, account: _Account, reply: Reply) -> None:
        known.reply = reply
        account.under_way -= 1
        self._bytes += _size(reply)
        if known.recorded:
            logger.warning("%s by %s: %s: %s", known.words, client.name, reply.status, reply.detail)
        for answer in known.waiting:
            answer(reply)
        known.waiting.clear()

    def _forget(self) -> None:
        """The oldest go; one without a reply yet stays."""
        while len(self._known) > REMEMBERED or self._bytes > REMEMBERED_BYTES:
            key = next((key for key, known in self._known.items() if known.reply is not None), None)
            if key is None:
                return
            reply = self._known.pop(key).reply
            self._bytes -= _size(reply) if reply is not None else 0


def _is_recorded(ask: Ask) -> bool:
    """Who asked for it is said in the log."""
    return not isinstance(ask, PushModel | Propose) and (isinstance(ask, Picture) or _commands(ask))


def _commands(ask: Ask) -> bool:
    what = getattr(ask, "operation", getattr(ask, "change", ""))
    return ask.needs != "observe" and what != "status"


def _stops(ask: Ask) -> bool:
    return isinstance(ask, Valve) and ask.operation in ("estop", "disarm")


def _digest(ask: Ask) -> bytes:
    """Stands for the whole of an ask, which may be large."""
    return hashlib.sha256(msgspec.msgpack.encode(ask)).digest()


def _words(ask: Ask) -> str:
    """An ask for people: its name and what is not as by default."""
    values = {name: value for name, value in msgspec.structs.asdict(ask).items() if value and name != "data"}
    fields = [f"{name}={value}" for name, value in values.items()]
    return " ".join([type(ask).__name__, *fields])


def _size(reply: Reply) -> int:
    return len(msgspec.msgpack.encode(reply.result))
