"""The reception: who may ask what, each request once and in time, and the record of who asked for what. No sockets.

A request comes in, is refused or begun, and has one reply. Its id is remembered: asked again it gets the same reply,
also after its time; this is how a client finds out what came of a request whose reply was lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from daemon.gateway.account import RATE_HZ, UNDER_WAY, Account, Answer, Known, digest, one_line, words
from daemon.gateway.clients import Client
from daemon.gateway.replies import refused
from daemon.remote import Ask, Picture, Propose, PushModel, Reply, Request, Valve

logger = logging.getLogger(__name__)

MAX_WAIT_NS = 60_000_000_000
"""Furthest expiry accepted."""

Begin = Callable[[Client, Request, Answer], None]


class Reception:
    """Lets requests through to ``begin``.

    Args:
        epoch: this life of the gateway.
        begin: starts what was asked for; it must call the answer it is given once, then or later.
    """

    def __init__(self, epoch: int, begin: Begin) -> None:
        self.epoch, self._begin = epoch, begin
        self._accounts: dict[str, Account] = {}

    def take(self, client: Client, request: Request, now_ns: int, answer: Answer) -> None:
        """Take a request in; ``answer`` gets its reply, at once or later."""
        account = self._accounts.setdefault(client.name, Account(now_ns))
        known = account.known.get(request.id)
        if known is not None:
            self._again(known, request, answer)
            return
        refusal = account.turned_away(request.id)
        if refusal is None:
            refusal = self._refusal(client, account, request, now_ns)
            if refusal is None:
                self._let_in(client, account, request, answer)
                return
            if request.epoch == self.epoch:  # one for another life stays refused by itself
                account.turn_away(refusal)
        self._tell(client, account, request, refusal, now_ns)
        answer(refusal)

    def _let_in(self, client: Client, account: Account, request: Request, answer: Answer) -> None:
        known = account.begin(request)
        known.wait(answer)
        self._begin(client, request, lambda reply: self._finish(client, account, known, request.ask, reply))

    def _again(self, known: Known, request: Request, answer: Answer) -> None:
        if known.digest != digest(request.ask):
            text = f"id {request.id} was used for {known.words} before: give every request an id of its own"
            answer(refused(request, "reused", text))
        elif known.reply is not None:
            answer(known.reply)
        else:
            known.wait(answer)

    def _tell(self, client: Client, account: Account, request: Request, refusal: Reply, now_ns: int) -> None:
        count = account.refused(refusal.reason, now_ns)
        if count:
            more = f" (and {count - 1} more for this reason since the last line)" if count > 1 else ""
            text = "%s by %s refused: %s%s"
            logger.warning(text, words(request.ask), client.name, one_line(refusal.detail), more)

    def _refusal(self, client: Client, account: Account, request: Request, now_ns: int) -> Reply | None:
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

    def _finish(self, client: Client, account: Account, known: Known, ask: Ask, reply: Reply) -> None:
        account.finish(known, reply)
        if _is_recorded(ask):
            logger.warning("%s by %s: %s: %s", known.words, client.name, reply.status, one_line(reply.detail))
        for answer in known.waiting:
            answer(reply)
        known.waiting.clear()


def _is_recorded(ask: Ask) -> bool:
    """Who asked for it is said in the log."""
    return isinstance(ask, Picture) or (ask.least_role != "observe" and not isinstance(ask, PushModel | Propose))


def _stops(ask: Ask) -> bool:
    return isinstance(ask, Valve) and ask.operation in ("estop", "disarm")
