"""Checking a model package in a throw-away process: ``python -m daemon.infer.verify PACKAGE [--threads N]``.

A damaged program can crash, hang or flood whoever loads it, so native code meets it first in a process nobody
misses: ``reflexd-worker --check``, or ``verify_child`` for the Python worker. This side starts that process, reads its
one line and turns every way of not answering into a refusal. It imports neither torch nor ExecuTorch.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import get_args

import msgspec

from daemon.config import WorkerWanted
from daemon.infer.runtime_log import worth_telling
from daemon.oneshot import OneShot, Outcome
from daemon.workers import Worker, choose_worker

DEFAULT_TIMEOUT_S = 60.0
STAGE = "verify: "
"""What the child writes to its error stream before each step, followed by what it is about to do."""

_LAST_WORDS = 12
"""Lines of the runtime's log that go into a refusal."""


class Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Result of a check. The measurements are the throw-away process's; 0 if it did not get that far or was not asked.

    Attributes:
        ok: the package may act.
        detail: why it was refused, with the runtime's own last words.
        p50_ms, p99_ms: forward times.
        peak_rss_mb: most memory the process had, MiB.
        versions: of the runtime and what it is linked to.
        manifest_sha256: of the manifest that was checked.
        goldens: recorded inputs that were run.
        max_abs_error: largest difference between an output and the recorded one.
    """

    ok: bool
    detail: str
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    peak_rss_mb: float = 0.0
    versions: dict[str, str] = {}
    manifest_sha256: str = ""
    goldens: int = 0
    max_abs_error: float = 0.0


class Verification:
    """One check under way; never blocks, so that it can sit in a main loop.

    Args:
        worker: checks with the runtime that will run the package.
        package: folder of the package.
        threads: size of the runtime's thread pool.
        timeout_s: time the whole check may take, counted from :meth:`start`.
        measured: whether the verdict says how long an inference takes.
    """

    def __init__(
        self,
        worker: Worker,
        package: Path,
        threads: int,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        measured: bool = True,
    ) -> None:
        self._process = OneShot(worker.check_command(package, threads, measured), timeout_s)
        self._verdict: Verdict | None = None

    def start(self) -> None:
        """Start the process.

        Raises:
            OSError: the worker's program could not be started.
        """
        self._process.start()

    def fileno(self) -> int:
        """Descriptor that becomes readable when :meth:`poll` should be called; -1 before and after."""
        return self._process.fileno()

    def poll(self) -> Verdict | None:
        """The verdict, once there is one. Call it when readable, and now and then for the time limit."""
        if self._verdict is None and (outcome := self._process.poll()) is not None:
            self._verdict = _judge(outcome)
        return self._verdict

    def wait(self) -> Verdict:
        """Block until there is a verdict."""
        self._process.wait()
        verdict = self.poll()
        assert verdict is not None  # noqa: S101 - the process has ended
        return verdict

    def kill(self) -> None:
        """End the check; without a verdict so far it is a refusal."""
        self._process.kill()


def verify_in_process(worker: Worker, package: Path, threads: int, timeout_s: float = DEFAULT_TIMEOUT_S) -> Verdict:
    """Check a package and wait for the verdict; never raises for anything the package holds."""
    check = Verification(worker, package, threads, timeout_s)
    check.start()
    return check.wait()


def _judge(outcome: Outcome) -> Verdict:
    """Verdict of a process that has ended, by itself or not."""
    status, log = outcome.status, outcome.log
    if outcome.failure:
        return _refused(f"the check process {outcome.failure}", log)
    try:
        verdict = msgspec.json.decode(outcome.answer, type=Verdict)
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


def main(arguments: list[str] | None = None) -> int:
    """Print the verdict as one JSON line; 0 for a package that may act, 1 for one that was refused."""
    parser = argparse.ArgumentParser(prog="daemon.infer.verify", description="Check a model package.")
    parser.add_argument("package", type=Path)
    parser.add_argument("--threads", type=int, default=1, help="size of the runtime's thread pool (1)")
    parser.add_argument("--worker", choices=get_args(WorkerWanted), default="auto", help="whose runtime checks (auto)")
    parser.add_argument("--timeout", type=float, default=DEFAULT_TIMEOUT_S, metavar="SECONDS")
    options = parser.parse_args(arguments)
    verdict = verify_in_process(choose_worker(options.worker), options.package, options.threads, options.timeout)
    print(msgspec.json.encode(verdict).decode())
    return 0 if verdict.ok else 1


if __name__ == "__main__":
    sys.exit(main())
