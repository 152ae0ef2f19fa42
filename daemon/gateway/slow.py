"""Answers that take their time: worked on one after the other in a thread, while the gateway goes on."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from daemon.gateway.account import Answer
from daemon.gateway.replies import failed, refused
from daemon.remote import Reply, Request

MOST = 8
"""Answers that wait for one another; more are refused."""


class SlowAnswers:
    """One thread and what waits for it; :attr:`wake` is readable when something is finished."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "answers")
        self._jobs: list[tuple[Future[Reply], Answer]] = []
        self.wake, self._waker = socket.socketpair()
        self._waker.setblocking(False)

    def add(self, request: Request, answer: Answer, work: Callable[[], Reply]) -> None:
        """Have ``work`` done; whatever it raises becomes a reply."""
        if len(self._jobs) >= MOST:
            answer(failed(request, f"{MOST} answers that take their time are being worked on: wait"))
            return
        future = self._pool.submit(_guarded, request, work)
        self._jobs.append((future, answer))
        future.add_done_callback(self._ring)

    def take(self) -> None:
        """Give the finished answers; called in the loop."""
        self.wake.recv(4096)
        finished = [(future, answer) for future, answer in self._jobs if future.done()]
        self._jobs = [(future, answer) for future, answer in self._jobs if not future.done()]
        for future, answer in finished:
            answer(future.result())

    def close(self) -> None:
        """Wait for nothing; what is being worked on has a bound of its own."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._waker.close()
        self.wake.close()

    def _ring(self, _: Future[Reply]) -> None:
        with suppress(OSError):  # full, and so it is readable anyway; or closed
            self._waker.send(b"x")


def _guarded(request: Request, work: Callable[[], Reply]) -> Reply:
    late_ns = time.monotonic_ns() - request.expires_ns
    if late_ns >= 0:  # it waited for others
        text = f"expired {late_ns / 1e6:.1f} ms ago, while others were worked on: nothing was done"
        return refused(request, "expired", text)
    try:
        return work()
    except Exception as error:  # of whatever kind: a reply is owed
        return failed(request, str(error) or type(error).__name__)
