"""Checking a model package in a throw-away process: ``python -m daemon.infer.verify PACKAGE [--threads N]``.

A damaged program can crash, hang or flood whoever loads it, so native code meets it first in a process nobody
misses (``verify_child``). This side starts that process, reads its one line and turns every way of not answering
into a refusal. It imports neither torch nor ExecuTorch.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from daemon.infer.runtime_log import read_log, worth_telling

MAX_ANSWER_BYTES = 64 * 1024
DEFAULT_TIMEOUT_S = 60.0
STAGE = "verify: "
"""What the child writes to its error stream before each step, followed by what it is about to do."""

_LAST_WORDS = 12
"""Lines of the runtime's log that go into a refusal."""


class Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Result of a check. The measurements are those of the throw-away process; 0 when it did not get that far.

    ``detail`` says in one text why a package was refused, with the runtime's own last words.
    """

    ok: bool
    detail: str
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    peak_rss_mb: float = 0.0
    versions: dict[str, str] = {}
    manifest_sha256: str = ""


class Verification:
    """One check under way; never blocks, so that it can sit in a main loop.

    Args:
        package: folder of the package.
        threads: size of the runtime's thread pool.
        timeout_s: time the whole check may take, counted from :meth:`start`.
    """

    def __init__(self, package: Path, threads: int, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self._command = [sys.executable, "-m", "daemon.infer.verify_child", str(package), "--threads", str(threads)]
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._deadline_s = 0.0
        self._answer = b""
        self._answer_fd = self._log_fd = -1
        self._verdict: Verdict | None = None

    def start(self) -> None:
        """Start the process."""
        # The log goes to memory, not to a pipe: what a dying process wrote last is complete, and nothing can block.
        self._log_fd = os.memfd_create("verify-log")
        self._answer_fd, write_fd = os.pipe()
        os.set_blocking(self._answer_fd, False)
        self._deadline_s = time.monotonic() + self._timeout_s
        with os.fdopen(write_fd, "wb") as answer:
            self._process = subprocess.Popen(  # noqa: S603 - our own module, no shell
                self._command, stdin=subprocess.DEVNULL, stdout=answer, stderr=self._log_fd
            )

    def fileno(self) -> int:
        """Descriptor that becomes readable when :meth:`poll` should be called; -1 before and after."""
        return self._answer_fd

    def poll(self) -> Verdict | None:
        """The verdict, once there is one. Call it when readable, and now and then for the time limit."""
        if self._verdict is None:
            if self._at_end():
                self._end(None)
            elif time.monotonic() > self._deadline_s:
                self._end(f"the check did not finish within {self._timeout_s:g} s")
        return self._verdict

    def kill(self) -> None:
        """End the check; without a verdict so far it is a refusal."""
        if self._verdict is None:
            self._end("the check was cancelled")

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

    def _end(self, failure: str | None) -> None:
        """Reap the process and settle on a verdict; ``failure`` says why it did not come to its own end."""
        if self._process is None:
            raise RuntimeError("a check ends only after start()")
        if failure is None and len(self._answer) > MAX_ANSWER_BYTES:
            failure = f"the check process answered with more than {MAX_ANSWER_BYTES} bytes"
        if failure is None:
            try:
                self._process.wait(timeout=1.0)  # it has closed its output: it is leaving
            except subprocess.TimeoutExpired:
                failure = "the check process closed its output and did not exit"
        self._process.kill()
        status = self._process.wait()
        log = read_log(self._log_fd)
        self._verdict = _refused(failure, log) if failure else _judge(status, self._answer, log)
        os.close(self._answer_fd)
        os.close(self._log_fd)
        self._answer_fd = self._log_fd = -1


def verify_in_process(package: Path, threads: int, timeout_s: float = DEFAULT_TIMEOUT_S) -> Verdict:
    """Check a package and wait for the verdict; never raises for anything the package holds."""
    check = Verification(package, threads, timeout_s)
    check.start()
    while (verdict := check.poll()) is None:
        time.sleep(0.01)
    return verdict


def _judge(status: int, answer: bytes, log: str) -> Verdict:
    """Verdict of a process that ended by itself with exit ``status`` (negative: by that signal)."""
    if status < 0:
        return _refused(f"the check process died by signal {_signal_name(-status)}", log)
    try:
        verdict = msgspec.json.decode(answer, type=Verdict)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _refused(f"the check process left with status {status} and no readable answer ({error})", log)
    if verdict.ok != (status == 0):
        return _refused(f"the check process left with status {status} and answered ok = {verdict.ok}", log)
    return verdict if verdict.ok else _with_log(verdict, log)


def _refused(why: str, log: str) -> Verdict:
    """A refusal that says what the process was doing."""
    stages = [line.removeprefix(STAGE) for line in log.splitlines() if line.startswith(STAGE)]
    doing = f" while {stages[-1]}" if stages else ""
    return _with_log(Verdict(ok=False, detail=why + doing), log)


def _with_log(verdict: Verdict, log: str) -> Verdict:
    """The verdict with the runtime's last words, each said once."""
    last = [line for line in worth_telling(log) if not line.startswith(STAGE)][-_LAST_WORDS:]
    return msgspec.structs.replace(verdict, detail="; ".join([verdict.detail, *last])[:4000])


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def main(arguments: list[str] | None = None) -> int:
    """Print the verdict as one JSON line; 0 for a package that may act, 1 for one that was refused."""
    parser = argparse.ArgumentParser(prog="daemon.infer.verify", description="Check a model package.")
    parser.add_argument("package", type=Path)
    parser.add_argument("--threads", type=int, default=1, help="size of the runtime's thread pool (1)")
    parser.add_argument("--timeout", type=float, default=DEFAULT_TIMEOUT_S, metavar="SECONDS")
    options = parser.parse_args(arguments)
    verdict = verify_in_process(options.package, options.threads, options.timeout)
    print(msgspec.json.encode(verdict).decode())
    return 0 if verdict.ok else 1


if __name__ == "__main__":
    sys.exit(main())
