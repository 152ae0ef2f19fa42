"""When a process is started, when it counts as stuck, and how long a restart waits. Pure: time is passed in.

    down ──start──▶ starting ──progress──▶ running ──exit──▶ down (after a pause)
                        └────── too long without progress ──▶ killed ──exit──▶ down
    any exit that a restart cannot mend ──▶ failed          exit 0 after "done" ──▶ finished

The first restart comes at once. Each further one waits twice as long as the one before, until the process has run
well for :data:`GOOD_RUN_NS`.
"""

from __future__ import annotations

from typing import Literal

FIRST_PAUSE_NS = 250_000_000
LONGEST_PAUSE_NS = 5_000_000_000
GOOD_RUN_NS = 30_000_000_000

Phase = Literal["down", "starting", "running", "killed", "failed", "finished"]
Step = Literal["start", "kill"]
_QUIET = ("waiting", "done")
"""States of Health in which a process has nothing to advance: that it still sends Health is enough."""


class RestartPolicy:
    """One process's life as its supervisor sees it.

    Args:
        start_limit_ns: longest time from start to the first progress, also while Health says ``starting``.
        stall_limit_ns: longest time without progress after that.
    """

    def __init__(self, start_limit_ns: int, stall_limit_ns: int) -> None:
        self._start_limit_ns, self._stall_limit_ns = start_limit_ns, stall_limit_ns
        self.phase: Phase = "down"
        self.starts = 0
        self._pause_ns = 0
        self._start_at_ns = 0
        self._advanced_ns = 0
        self._good_since_ns: int | None = None
        self._progress = -1

    @property
    def restarts(self) -> int:
        """Starts after the first."""
        return max(0, self.starts - 1)

    @property
    def limit_ns(self) -> int:
        """How long the process may go without progress as things stand."""
        return self._start_limit_ns if self.phase == "starting" else self._stall_limit_ns

    def due(self, now_ns: int) -> Step | None:
        """What to do now: start the process, kill its whole group, or nothing."""
        if self.phase == "down" and now_ns >= self._start_at_ns:
            return "start"
        if self.phase in ("starting", "running") and now_ns - self._advanced_ns > self.limit_ns:
            return "kill"
        return None

    def started(self, now_ns: int) -> None:
        """The process has been started."""
        self.phase = "starting"
        self.starts += 1
        self._advanced_ns, self._good_since_ns, self._progress = now_ns, None, -1

    def health(self, now_ns: int, state: str, progress: int) -> None:
        """A Health message of the running process has come; ``state`` and ``progress`` are its fields."""
        if self.phase not in ("starting", "running"):
            return
        if state == "starting":
            self.phase = "starting"
        elif self.phase == "starting":
            self.phase, self._advanced_ns = "running", now_ns
        if progress > self._progress or state in _QUIET:
            self._advanced_ns = now_ns
        self._progress = progress
        if self.phase == "running" and self._good_since_ns is None:
            self._good_since_ns = now_ns

    def killed(self) -> None:
        """The process has been sent SIGKILL and is not gone yet."""
        self.phase = "killed"

    def ended(self, now_ns: int, outcome: Literal["fault", "final", "finished"] = "fault") -> int:
        """The process is gone, or could not be started.

        Args:
            now_ns: when.
            outcome: ``fault`` asks for a restart, ``final`` is a failure that a restart cannot mend, ``finished``
                the end of work that was done.

        Returns:
            The pause before the restart, ns; 0 also when there is none.
        """
        if outcome != "fault":
            self.phase = "failed" if outcome == "final" else "finished"
            return 0
        if self._good_since_ns is not None and now_ns - self._good_since_ns >= GOOD_RUN_NS:
            self._pause_ns = 0
        pause = self._pause_ns
        self.phase, self._start_at_ns, self._good_since_ns = "down", now_ns + pause, None
        self._pause_ns = min(LONGEST_PAUSE_NS, max(FIRST_PAUSE_NS, 2 * pause))
        return pause
