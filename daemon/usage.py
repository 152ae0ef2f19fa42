"""Memory and processor time of the processes of a run, over all lives of each."""

from __future__ import annotations

import psutil

from daemon.statistics import Report


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
            process = psutil.Process(pid)
            with process.oneshot():
                times = process.cpu_times()
                self._cpu_s, self._rss = times.user + times.system, process.memory_info().rss
                self.alive = process.status() != psutil.STATUS_ZOMBIE
        except (psutil.Error, OSError):
            self.lost()

    def lost(self) -> None:
        """The process is gone."""
        self.alive, self._rss = False, 0

    def report(self) -> Report:
        """Resident memory now, MB (10^6 bytes), and processor time since the first look, percent of one core."""
        seconds = self._now_s - self._since_s
        cpu = 100 * (self._cpu_before_s + self._cpu_s) / seconds if seconds > 0 else 0.0
        return {"rss_mb": round(self._rss / 1e6, 1), "cpu_percent": round(cpu, 1)}
