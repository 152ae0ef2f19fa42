"""A process asked one thing, that it answers on its standard output before it exits; bounded in time and in size.

What is asked may crash, hang, flood or say nothing at all: every way of not answering becomes an :class:`Outcome` that
says which. Nothing here blocks unless :meth:`OneShot.wait` is called.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Sequence

import msgspec

MAX_ANSWER_BYTES = 64 * 1024
MAX_LOG_BYTES = 1 << 20
"""The kernel ends a process that writes more than this to its error stream: the log is memory."""
_LOG_END_BYTES = 64 * 1024
"""Of a log its end is read, this much of it."""
_LEAVES_WITHIN_S = 1.0
"""A process that has closed its output is leaving, and gets this long for it."""


class Outcome(msgspec.Struct, frozen=True):
    """What became of the process.

    Attributes:
        failure: why it did not come to its own end, as a predicate ("died by signal SIGSEGV"); empty if it exited.
        status: its exit status, if it exited.
        answer: its standard output.
        log: the end of its error stream.
    """

    failure: str
    status: int
    answer: bytes
    log: str


class OneShot:
    """One such process.

    Args:
        command: program and arguments.
        timeout_s: time it may take, counted from :meth:`start`.
    """

    def __init__(self, command: Sequence[str], timeout_s: float) -> None:
        self._command, self._timeout_s = command, timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._deadline_s = 0.0
        self._answer = b""
        self._answer_fd = self._log_fd = -1
        self._outcome: Outcome | None = None

    def start(self) -> None:
        """Start the process.

        Raises:
            OSError: the program could not be started.
        """
        # The log goes to memory, not to a pipe: what a dying process wrote last is complete, and nothing can block.
        self._log_fd = os.memfd_create("log")
        self._answer_fd, write_fd = os.pipe()
        os.set_blocking(self._answer_fd, False)
        self._deadline_s = time.monotonic() + self._timeout_s
        with os.fdopen(write_fd, "wb") as answer:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own commands, no shell
                    self._command, stdin=subprocess.DEVNULL, stdout=answer, stderr=self._log_fd
                )
            except OSError:
                self._close()
                raise
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (MAX_LOG_BYTES, MAX_LOG_BYTES))

    def fileno(self) -> int:
        """Descriptor that becomes readable when :meth:`poll` should be called; -1 before and after."""
        return self._answer_fd

    def poll(self) -> Outcome | None:
        """The outcome, once there is one. Call it when readable, and now and then for the time limit."""
        if self._outcome is None:
            if self._at_end():
                self._end("")
            elif time.monotonic() > self._deadline_s:
                self._end(f"did not finish within {self._timeout_s:g} s")
        return self._outcome

    def wait(self) -> Outcome:
        """Block until there is an outcome, which is at the time limit at the latest."""
        poller = select.poll()
        poller.register(self._answer_fd, select.POLLIN)
        while (outcome := self.poll()) is None:
            poller.poll(max(0.0, self._deadline_s - time.monotonic()) * 1e3 + 1)
        return outcome

    def kill(self) -> None:
        """End the process, unless it has come to its own end."""
        if self._outcome is None:
            self._end("was cancelled")

    def _at_end(self) -> bool:
        """Read what is there; true at the end of the stream, or when there is too much of it."""
        while len(self._answer) <= MAX_ANSWER_BYTES:
            try:
                chunk = os.read(self._answer_fd, MAX_ANSWER_BYTES)
            except BlockingIOError:
                return False
            if not chunk:
                return True
            self._answer += chunk
        return True

    def _end(self, failure: str) -> None:
        """Reap the process and settle on an outcome; ``failure`` says why it did not come to its own end."""
        if self._process is None:
            raise RuntimeError("a one-shot process ends only after start()")
        if not failure and len(self._answer) > MAX_ANSWER_BYTES:
            failure = f"answered with more than {MAX_ANSWER_BYTES} bytes"
        if not failure:
            try:
                self._process.wait(timeout=_LEAVES_WITHIN_S)
            except subprocess.TimeoutExpired:
                failure = "closed its output and did not exit"
        self._process.kill()
        status = self._process.wait()
        if not failure and status < 0:
            failure = f"died by signal {_signal_name(-status)}"
        self._outcome = Outcome(failure, status, self._answer, read_log(self._log_fd))
        self._close()

    def _close(self) -> None:
        os.close(self._answer_fd)
        os.close(self._log_fd)
        self._answer_fd = self._log_fd = -1


def read_log(descriptor: int) -> str:
    """The end of a log file."""
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, _LOG_END_BYTES, max(0, size - _LOG_END_BYTES)).decode(errors="replace")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
