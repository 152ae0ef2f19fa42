"""Getting log lines and reports onto a terminal without ever waiting for it, and the plain form of both."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from daemon.statistics import Report

KEPT_LINES = 1000
"""Lines that wait for a slow terminal; beyond that the oldest are lost, and counted."""
STATUS_EVERY_S = 5.0
_CLOSE_WITHIN_S = 0.2
_NOTABLE = ("starting", "degraded", "down", "killed", "failed")
"""States of a process that the status line names."""


class Screen(Protocol):
    """Where lines and reports end up; only called from the display's own thread."""

    def draw(self, lines: list[str], report: Report | None) -> None:
        """Show new lines, and the newest report, which may be the one of the last call."""

    def close(self, lines: list[str]) -> None:
        """Show the last lines and give the terminal back."""


class Display:
    """Feeds a screen from a thread of its own.

    A terminal that has stopped reading (Ctrl-S, a lost SSH connection, a paused pager) blocks whoever writes to
    it: that must be this thread and never the supervisor.

    Args:
        make_screen: makes what draws, when it is first needed: a live view's libraries load while the run starts.
        every_s: time between two drawings.
        keep: also takes each line.
    """

    def __init__(self, make_screen: Callable[[], Screen], every_s: float, keep: Callable[[str], None]) -> None:
        self._make_screen, self._every_s, self._keep = make_screen, every_s, keep
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._lost = 0
        self._report: Report | None = None
        self._stop = threading.Event()
        # A daemon thread: one that is stuck in a write must not hold up the end of the program.
        self._thread = threading.Thread(target=self._run, name="display", daemon=True)
        self._thread.start()

    def say(self, line: str) -> None:
        """Show a line of log, and have it kept."""
        self._keep(line)
        self._lost += len(self._lines) == KEPT_LINES
        self._lines.append(line)

    def show(self, report: Report) -> None:
        """Show a report in place of the one before."""
        self._report = report

    def close(self) -> None:
        """Show what is left, unless the terminal does not take it."""
        self._stop.set()
        self._thread.join(_CLOSE_WITHIN_S)

    def _run(self) -> None:
        try:
            stopped = self._stop.wait(self._every_s)
            screen = self._make_screen()
            while not stopped:
                screen.draw(self._take(), self._report)
                stopped = self._stop.wait(self._every_s)
            screen.close(self._take())
        except OSError:
            pass  # the terminal is gone: nothing left to show anything on

    def _take(self) -> list[str]:
        lines = [self._lines.popleft() for _ in range(len(self._lines))]
        if self._lost:
            lines.append(f"WARNING run: {self._lost} lines lost: this terminal is too slow for them")
            self._lost = 0
        return lines


class PlainScreen:
    """Lines as they come, and a status line now and then; for logs, pipes and journals.

    Args:
        descriptor: where to write.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._shown_s = 0.0

    def draw(self, lines: list[str], report: Report | None) -> None:
        """Write the lines, and the report if the last one was long ago."""
        if report is not None and report["seconds"] - self._shown_s >= STATUS_EVERY_S:
            self._shown_s = report["seconds"]
            lines = [*lines, status_line(report)]
        write_lines(self._descriptor, lines)

    def close(self, lines: list[str]) -> None:
        """Write the last lines."""
        write_lines(self._descriptor, lines)


def write_lines(descriptor: int, lines: list[str]) -> None:
    """Write lines straight to a descriptor.

    Python's own streams hold a lock while they write; the interpreter aborts when it ends with one of them held by a
    thread that a stopped terminal blocks.
    """
    data = "".join(f"{line}\n" for line in lines).encode(errors="replace")
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            return  # someone has made the descriptor non-blocking, and its reader has stopped


def status_line(report: Report) -> str:
    """A report in one line."""
    parts = [f"{report['seconds']:.0f} s"]
    parts += [f"{agent_text(name, agent)} [{agent['valve']}]" for name, agent in report["agents"].items()]
    states = {name: process["state"] for name, process in report["processes"].items()}
    parts += [f"{name} {state}" for name, state in states.items() if state in _NOTABLE]
    return " | ".join(parts)


def agent_text(name: str, agent: Report) -> str:
    """An agent in a few words."""
    score = "" if agent["score"] is None else f", score {agent['score']:+d}"
    drops = ", ".join(f"{reason} {count}" for reason, count in sorted(agent["dropped"].items()))
    latency = agent["latency_ms"]
    times = "" if latency["p50"] is None else f", {latency['p50']:.1f}/{latency['p99']:.1f} ms p50/p99"
    dropped = f", dropped: {drops}" if drops else ""
    return f"{name}: {agent['decisions']} decisions, {agent['rate_hz']:.1f}/s{times}{score}{dropped}"
