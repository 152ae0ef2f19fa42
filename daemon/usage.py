"""What the processes of a run cost, over all lives of each, and when this one began: from ``/proc``, see proc(5)."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

from daemon.statistics import Report

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class _Look(NamedTuple):
    """What the kernel says of a process now: its state's letter, processor time, memory, and start since boot."""

    state: str
    cpu_s: float
    rss_bytes: int
    started_ns: int


class Usage:
    """What one process costs; a process that is replaced goes on under its name."""

    def __init__(self, now_s: float) -> None:
        self._since_s = self._now_s = now_s
        self._pid = 0
        self._cpu_before_s = self._cpu_s = 0.0
        self._rss = 0
        self.lives = 0
        self.alive = False

    def sample(self, pid: int, now_s: float) -> None:
        """Look at the process; ``now_s`` is any steady clock in seconds."""
        if pid != self._pid:
            self._pid, self._cpu_before_s, self._cpu_s = pid, self._cpu_before_s + self._cpu_s, 0.0
            self.lives += 1
        self._now_s = now_s
        try:
            look = _look(pid)
        except OSError:
            self.lost()
            return
        self._cpu_s, self._rss, self.alive = look.cpu_s, look.rss_bytes, look.state != "Z"

    def lost(self) -> None:
        """The process is gone."""
        self.alive, self._rss = False, 0

    def report(self) -> Report:
        """Resident memory now, MB (10^6 bytes), and processor time since the first look, percent of one core."""
        seconds = self._now_s - self._since_s
        cpu = 100 * (self._cpu_before_s + self._cpu_s) / seconds if seconds > 0 else 0.0
        return {"rss_mb": round(self._rss / 1e6, 1), "cpu_percent": round(cpu, 1)}


def process_start_ns() -> int:
    """CLOCK_MONOTONIC when this process began, before there was any Python; up to a tick, 10 ms, too early."""
    age_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - _look(os.getpid()).started_ns
    return time.monotonic_ns() - age_ns


def _look(pid: int) -> _Look:
    """Read ``/proc/PID/stat``.

    Raises:
        OSError: there is no such process.
    """
    # The second field is the program's name in brackets, which may hold brackets and spaces itself.
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    user, system, started, pages = (int(fields[at]) for at in (11, 12, 19, 21))
    cpu_s = (user + system) / _TICKS_PER_S
    return _Look(fields[0], cpu_s, pages * _PAGE_BYTES, started * 1_000_000_000 // _TICKS_PER_S)
