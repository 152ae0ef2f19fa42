"""The life of every process: lock, sockets, startup, main loop, shutdown, signals, health.

A stage does its work in :meth:`Stage.turn` and never blocks there. The loop waits for its sockets or its next due
time, and publishes its health in between: health can only be sent by a loop that still turns.
"""

from __future__ import annotations

import gc
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol

import msgspec
import zmq

from daemon.bus import Bus
from daemon.config import ConfigError
from daemon.journal import journal_handler
from daemon.messages import Health
from daemon.notify import Notifier, Send, connect, status_line, watchdog_ns
from daemon.plan import Plan, load
from daemon.runtime import InstanceLock, RuntimeFolder
from daemon.table import restart_policy

logger = logging.getLogger(__name__)

HEALTH_EVERY_NS = 200_000_000
LIFELINE_VARIABLE = "REFLEXD_LIFELINE"
"""Environment: file descriptor whose end-of-file says that the supervisor is gone."""
EXIT_CONFIG = 78
"""Exit status for what a restart cannot mend (EX_CONFIG of sysexits.h)."""
EXIT_OS = 71
"""Exit status for folders, sockets and rings that could not be had (EX_OSERR): worth another try."""

EXIT_FAILED = 70
"""Exit status of a stage that gave up (EX_SOFTWARE): its supervisor starts it anew."""

Ready = set[object]


class StageFailed(RuntimeError):
    """A stage cannot go on by itself, but a new start may help; the text says what it tried."""


class Report(msgspec.Struct, kw_only=True):
    """What a stage says of itself; becomes a Health message."""

    state: Literal["starting", "running", "waiting", "degraded", "done"]
    progress: int
    detail: str = ""
    children: dict[str, int] = {}
    counts: dict[str, dict[str, int]] = {}
    dropped: dict[str, dict[str, int]] = {}


class Stage(Protocol):
    """One process's work."""

    def turn(self, ready: Ready, now_ns: int) -> int:
        """Do what is due; return the time of the next due work.

        Args:
            ready: registered sockets and file descriptors that can be read.
            now_ns: CLOCK_MONOTONIC.
        """

    def report(self) -> Report:
        """How the stage is doing."""

    def shutdown(self) -> None:
        """Make safe and let go; called once, also after a failure in turn."""


Opener = Callable[[Plan, RuntimeFolder, str, Bus, zmq.Poller], Stage]
"""Startup of a stage: builds it from the plan and the instance's name, and registers its sockets."""


def main(kind: str, opener: Opener, argv: list[str] | None = None, read: Callable[[Path], Plan] = load) -> int:
    """Run one process: ``python -m daemon.<kind> CONFIG NAME``; return its exit status.

    Args:
        kind: of process.
        opener: makes the stage.
        argv: CONFIG and NAME; by default the command line's.
        read: reads the plan; a stage that needs no packages must not depend on them.
    """
    arguments = sys.argv[1:] if argv is None else argv
    if len(arguments) != 2:
        print(f"usage: python -m daemon.{kind} CONFIG NAME", file=sys.stderr)
        return EXIT_CONFIG
    name = arguments[1]
    process = kind if name == kind else f"{kind}@{name}"
    configure_logging(process)
    use_all_descriptors()
    tell = connect()
    try:
        plan = read(Path(arguments[0]))
        _check_name(plan, kind, name)
        runtime = RuntimeFolder(plan.config.daemon)
        runtime.create()
        with InstanceLock(runtime.lock(process)), Bus(runtime) as bus, stop_signals() as wake:
            notifier = _notifier(tell, plan, kind, name)
            serve(process, bus, wake, lambda poller: opener(plan, runtime, name, bus, poller), notifier)
    except ConfigError as error:
        return _give_up(tell, error, EXIT_CONFIG)
    except OSError as error:  # folders, sockets, rings, drivers
        return _give_up(tell, error, EXIT_OS)
    except StageFailed as error:
        return _give_up(tell, error, EXIT_FAILED)
    return 0


def _check_name(plan: Plan, kind: str, name: str) -> None:
    """A service that is left over from an earlier configuration says so, once; actuate looks for itself."""
    tables = {"capture": ("sources", list(plan.config.sources)), "simulate": ("worlds", list(plan.config.worlds))}
    table, names = tables.get(kind, ("", [name]))
    if name not in names:
        raise ConfigError(f"{plan.path}: {table}.{name}: not there; {table}: {', '.join(names) or 'none'}")


def _notifier(tell: Send | None, plan: Plan, kind: str, name: str) -> Notifier | None:
    """What keeps systemd informed, if it has started this process."""
    if tell is None:
        return None
    policy = restart_policy(plan, kind, name)
    policy.started(time.monotonic_ns())
    return Notifier(tell, policy, watchdog_ns())


def _give_up(tell: Send | None, error: Exception, status: int) -> int:
    """Say why the process ends, in its log and to systemd; return its exit status."""
    logger.error("%s", error)
    if tell is not None:
        tell(status_line(str(error)))
    return status


def serve(
    process: str,
    bus: Bus,
    wake: socket.socket,
    startup: Callable[[zmq.Poller], Stage],
    notifier: Notifier | None = None,
) -> None:
    """Start the stage and turn it until a stop signal comes or the supervisor is gone."""
    poller = zmq.Poller()
    poller.register(wake.fileno(), zmq.POLLIN)
    lifeline = os.environ.get(LIFELINE_VARIABLE)
    if lifeline is not None:
        poller.register(int(lifeline), zmq.POLLIN)
    stopping = {wake.fileno(), int(lifeline or -1)}
    stage = startup(poller)  # first of all: an actuator's stage writes neutral
    health = bus.publisher("health", process)
    gc.collect()
    gc.freeze()  # what start-up has made stays: no collection looks at it again in the middle of a frame

    def publish(report: Report, now_ns: int) -> None:
        health.send(_health(process, report, now_ns, bus))
        if notifier is not None:
            notifier.turn(report.state, report.progress, _in_words(report), now_ns)

    try:
        _main_loop(stage, poller, stopping, publish)
    finally:
        stage.shutdown()  # before a word to systemd: an actuator's neutral waits for nothing
        if notifier is not None:
            notifier.stopping()


def _main_loop(stage: Stage, poller: zmq.Poller, stopping: set[int], publish: Callable[[Report, int], None]) -> None:
    health_due = 0
    starting = True
    ready: Ready = set()
    while not ready & stopping:
        due = stage.turn(ready, time.monotonic_ns())
        now = time.monotonic_ns()
        report = stage.report() if starting or now >= health_due else None
        # The end of the start is told at once: until it is heard, a stuck process has the long time of a start.
        if report is not None and (now >= health_due or report.state != "starting"):
            publish(report, now)
            starting, health_due = report.state == "starting", now + HEALTH_EVERY_NS
        wait_ms = max(0, -((now - min(due, health_due)) // 1_000_000))
        ready = {item for item, _ in poller.poll(wait_ms)}


def _health(process: str, report: Report, now_ns: int, bus: Bus) -> Health:
    counts = report.counts
    if bus.refused:
        counts = {**counts, "links": dict(bus.refused)}
    return Health(
        process=process,
        pid=os.getpid(),
        state=report.state,
        progress=report.progress,
        at_ns=now_ns,
        detail=report.detail[:512],
        children=report.children,
        counts=counts,
        dropped=report.dropped,
    )


def _in_words(report: Report) -> str:
    """What `systemctl status` shows: the detail, or the first figure of each part; and what was dropped."""
    figures = [
        f"{part} {number} {what}" for part, counts in report.counts.items() for what, number in [*counts.items()][:1]
    ]
    dropped = sum((Counter(reasons) for reasons in report.dropped.values()), Counter[str]())
    texts = [report.detail or ", ".join(figures), ", ".join(f"{number} {reason}" for reason, number in dropped.items())]
    return "; dropped: ".join(filter(None, texts))


@contextmanager
def stop_signals() -> Iterator[socket.socket]:
    """A socket that becomes readable when SIGTERM or SIGINT comes."""
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    previous_fd = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    previous = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield reading
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(previous_fd)
        reading.close()
        writing.close()


def use_all_descriptors() -> None:
    """Raise the soft limit of open files to the hard one.

    libzmq 4.3 ends the whole process when a local socket has a caller and no descriptor is left for it (an assertion in
    ``ipc_listener_t::accept``): the usual 1024 are within the reach of one program that forgets to close connections.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def configure_logging(process: str) -> None:
    """Log to stderr, one line a record, or to the journal where stderr leads there.

    A reader that has stopped loses lines; it never stops the control loop.
    """
    if not sys.stderr.isatty():
        os.set_blocking(sys.stderr.fileno(), False)
    logging.raiseExceptions = False
    journal = journal_handler(process)
    if journal is not None:
        logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[journal])
        return
    logging.basicConfig(level=logging.INFO, format=f"%(levelname)s {process}: %(message)s", stream=sys.stderr)
