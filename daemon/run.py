"""``reflexd run``: the whole process table of a configuration in the foreground, watched, measured and shown."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from daemon.bus import Bus
from daemon.config import ConfigError
from daemon.course import Course
from daemon.display import Display, PlainScreen, Screen
from daemon.leftovers import RUN_LOCK, clear_leftovers
from daemon.logfile import LogFile
from daemon.plan import Plan
from daemon.process import EXIT_CONFIG, stop_signals
from daemon.runtime import InstanceLock, RuntimeFolder, RuntimeFolderError, probe_runtime
from daemon.statistics import Report
from daemon.table import Entry, process_table
from daemon.wholefile import fresh_name, replace_file
from daemon.workers import Worker, choose_worker

DRAW_EVERY_S = 1 / 8


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to run.

    Attributes:
        seconds: end after this long; None for never.
        json: file for the report at the end.
        live: draw the live view on stdout instead of writing lines to stderr.
    """

    seconds: float | None = None
    json: Path | None = None
    live: bool = False


def run(plan: Plan, options: Options, table: list[Entry] | None = None) -> int:
    """Run until a stop signal, the end of ``options.seconds``, the end of what ends by itself, or a failure for good.

    Args:
        plan: what to run.
        options: how to run it.
        table: the processes; by default those of the plan.

    Returns:
        0; 78 (EX_CONFIG) if a process could not work with its configuration; 1 if an agent never decided although
        there was time, or a process was down at the end.

    Raises:
        ConfigError: the report cannot be written where it should be, or no inference worker can run.
        RuntimeFolderError: another supervisor, or a process that is not ours, has the runtime folder.
    """
    if options.json is not None:
        check_writable(options.json)
    worker = choose_worker(plan.config.infer.worker)
    runtime = RuntimeFolder(plan.config.daemon)
    runtime.create()
    probe_runtime(runtime.folder)
    with InstanceLock(runtime.lock(RUN_LOCK)), _kept(runtime) as keep, _shown(plan, runtime, options, keep) as display:
        clear_leftovers(runtime, display.say)
        with Bus(runtime) as bus, stop_signals() as wake:
            table = process_table(plan, runtime, worker.kind) if table is None else table
            course = Course(plan, table, bus, display)
            try:
                course.main_loop(wake.fileno(), options.seconds)
            finally:
                course.shutdown()
        complaints = course.complaints()
        if options.json is not None:
            complaints += _write(options.json, plan, worker, course.report)
        for complaint in complaints:
            display.say(f"ERROR run: {complaint}")
        return EXIT_CONFIG if course.failure else 1 if complaints else 0


@contextmanager
def _kept(runtime: RuntimeFolder) -> Iterator[Callable[[str], None]]:
    """What writes lines to the files of the log, in a thread of its own: a slow disk must not hold up the supervisor.

    Raises:
        RuntimeFolderError: they cannot be written.
    """
    try:
        log = LogFile(runtime.state / "log")
    except OSError as error:
        raise RuntimeFolderError(f"{runtime.state / 'log'}: cannot write the log here: {error.strerror}") from None
    with closing(log), ThreadPoolExecutor(1, "log") as writer:

        def keep(line: str) -> None:
            writer.submit(log.append, line)

        yield keep


@contextmanager
def _shown(plan: Plan, runtime: RuntimeFolder, options: Options, keep: Callable[[str], None]) -> Iterator[Display]:
    """A display that also takes this process's own log."""
    display = Display(lambda: _screen(plan, runtime, options.live), DRAW_EVERY_S, keep)
    handler = _DisplayHandler(display)
    logging.getLogger().addHandler(handler)
    try:
        yield display
    finally:
        logging.getLogger().removeHandler(handler)
        display.close()


def _screen(plan: Plan, runtime: RuntimeFolder, live: bool) -> Screen:
    if not live:
        return PlainScreen(sys.stderr.fileno())
    from daemon.view import LiveView  # rich and Pillow: for those who watch

    return LiveView(plan, runtime, sys.stdout.fileno())


class _DisplayHandler(logging.Handler):
    """Sends log records to the display."""

    def __init__(self, display: Display) -> None:
        super().__init__()
        self._display = display

    def emit(self, record: logging.LogRecord) -> None:
        """Show the record."""
        self._display.say(f"{record.levelname} run: {record.getMessage()}")


def check_writable(path: Path) -> None:
    """Try now whether a report can be written, and not after hours of running.

    Raises:
        ConfigError: it cannot.
    """
    fresh = fresh_name(path)
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"--json {path}: expected a file or nothing there, found something else")
        fresh.write_bytes(b"")
        fresh.unlink()
    except OSError as error:
        raise ConfigError(f"--json {path}: cannot write there: {error.strerror}") from None


def write_report(path: Path, report: Report) -> None:
    """Write the report whole or not at all.

    Raises:
        OSError: not possible; what was there before is untouched.
    """
    replace_file(path, (json.dumps(report, indent=2) + "\n").encode())


def _write(path: Path, plan: Plan, worker: Worker, report: Report) -> list[str]:
    """Write the report of a run; return what went wrong."""
    from daemon.versions import versions  # reading package metadata takes a tenth of a second

    setting = {"config": str(plan.path), "versions": versions(), "worker": msgspec.to_builtins(worker)}
    try:
        write_report(path, {**setting, **report})
    except OSError as error:
        return [f"report {path} not written: {error.strerror}"]
    return []
