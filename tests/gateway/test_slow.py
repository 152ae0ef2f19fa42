"""Answers that take their time: in turn, bounded, and none begun after its expiry."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from daemon.gateway.replies import failed
from daemon.gateway.slow import MOST, SlowAnswers
from daemon.remote import FinishModel, Reply, Request


def request(number: int, lasts_s: float = 30.0) -> Request:
    expires_ns = time.monotonic_ns() + round(lasts_s * 1e9)
    return Request(id=f"identity-{number}", epoch=1, expires_ns=expires_ns, ask=FinishModel(package="p"))


class Work:
    """Answers being worked on, the first of which holds up the others until it is let go."""

    def __init__(self) -> None:
        self.slow = SlowAnswers()
        self.go, self.began = threading.Event(), threading.Event()
        self.ran: list[str] = []
        self.replies: list[Reply] = []

    def add(self, asked: Request) -> None:
        self.slow.add(asked, self.replies.append, lambda: self._run(asked))

    def finish(self, count: int) -> None:
        """Until there are so many replies."""
        self.slow.wake.settimeout(10.0)
        while len(self.replies) < count:
            self.slow.take()

    def _run(self, asked: Request) -> Reply:
        self.ran.append(asked.id)
        self.began.set()
        self.go.wait(10.0)
        return Reply(id=asked.id, status="done")


@pytest.fixture
def work() -> Iterator[Work]:
    found = Work()
    yield found
    found.go.set()
    found.slow.close()


def test_what_waits_beyond_its_expiry_is_not_begun(work: Work) -> None:
    work.add(request(0))
    assert work.began.wait(10.0)
    work.add(request(1, lasts_s=0.05))
    work.add(request(2))
    time.sleep(0.1)
    work.go.set()
    work.finish(3)
    assert work.ran == ["identity-0", "identity-2"]
    assert [(reply.status, reply.reason) for reply in work.replies] == [
        ("done", ""),
        ("refused", "expired"),
        ("done", ""),
    ]
    assert "nothing was done" in work.replies[1].detail


def test_more_than_a_few_are_refused_at_once(work: Work) -> None:
    for number in range(MOST + 3):
        work.add(request(number))
    assert [reply.status for reply in work.replies] == ["refused"] * 3
    work.go.set()
    work.finish(MOST + 3)
    assert len(work.ran) == MOST


def test_whatever_goes_wrong_is_a_reply(work: Work) -> None:
    asked = request(0)
    work.slow.add(asked, work.replies.append, lambda: Reply(id=asked.id, status="done", detail=str(1 // 0)))
    work.finish(1)
    assert work.replies == [failed(asked, "integer division or modulo by zero")]
