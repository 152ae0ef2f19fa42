"""The daemon in the machine, watched over its own bus."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from daemon.bus import Bus
from daemon.config import Daemon
from daemon.messages import Applied, Health
from daemon.runtime import RuntimeFolder

CAMERA = Path("/dev/v4l/by-path/platform-vivid.0-video-index0")
FPS = 5.0
"""Pictures a second; few, because the emulated machine is slow, and slower beside other work of its host."""
BACK_WITHIN_S = 40.0
DECISIONS = 5
"""So many in a row, and it acts again."""
NEUTRAL_AFTER_S = 1.0
"""A fault has shown by then what it does: pictures and actions that were under way are through."""


def set_controls(*settings: str) -> None:
    """Set controls of the camera, such as ``horizontal_flip=1``."""
    subprocess.run(["v4l2-ctl", "-d", str(CAMERA.resolve()), "-c", ",".join(settings)], check=True, timeout=20)


class Watched:
    """``reflexd run`` of a configuration, its log and report in a folder.

    Args:
        config: whose daemon is named ``lab``, with the runtime folder ``/dev/shm/lab``.
        folder: for ``run.txt`` and ``out.json``.
    """

    def __init__(self, config: Path, folder: Path) -> None:
        self._command = ["python3", "-m", "daemon.cli", "run", str(config), "--plain", "--json", f"{folder}/out.json"]
        self._log = folder / "run.txt"
        runtime = RuntimeFolder(Daemon(name="lab", runtime="/dev/shm/lab"))
        runtime.create()
        self._bus = Bus(runtime)
        self._health = self._bus.subscriber("health", "capture@cam")
        self._applied = self._bus.subscriber("applied", "servo")
        self._last: Health | None = None
        self._decided_ns: list[int] = []

    def __enter__(self) -> Watched:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(timeout=30)
        self._bus.__exit__(kind, error, tb)

    def said(self) -> str:
        """Its log so far."""
        return self._log.read_text()

    def state(self) -> str:
        """The capture process's state, as of its last message."""
        return self._last.state if self._last else ""

    def listen(self, seconds: float = 0.05) -> None:
        """Take in what it sends, for a while."""
        until = time.monotonic() + seconds
        while True:
            for message in self._health.receive() + self._applied.receive():
                if isinstance(message, Health):
                    self._last = message
                elif isinstance(message, Applied) and message.cause == "proposal":
                    self._decided_ns.append(message.applied_ns)
            if time.monotonic() >= until:
                return
            time.sleep(0.02)

    def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Take in what it sends until the condition holds; False if it does not in time."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or self._process.poll() is not None:
                return False
            self.listen()
        return True

    def step(self, act: Callable[[], object]) -> dict[str, Any]:
        """Do something to the camera; what it did to the daemon.

        Returns:
            ``begun_ns``, ``acted_ns`` and ``end_ns`` (CLOCK_MONOTONIC; the last when it acts again); ``back``: whether
            it does; ``before`` and ``after``: the capture process's pid, ``counts`` and ``dropped``; ``said``: its log;
            ``result``: what ``act`` said.
        """
        self.listen()
        before, offset, begun_ns = self._counters(), len(self.said()), time.monotonic_ns()
        result = act()
        acted_ns = time.monotonic_ns()
        self.listen(NEUTRAL_AFTER_S)
        since_ns = time.monotonic_ns()
        back = self.until(lambda: sum(at > since_ns for at in self._decided_ns) >= DECISIONS, BACK_WITHIN_S)
        end_ns = time.monotonic_ns()
        self.listen(0.5)  # the counters are sent five times a second
        return {
            "begun_ns": begun_ns,
            "acted_ns": acted_ns,
            "end_ns": end_ns,
            "back": back,
            "before": before,
            "after": self._counters(),
            "said": self.said()[offset:],
            "result": result if isinstance(result, str) else "",
        }

    def _counters(self) -> dict[str, Any]:
        if self._last is None:
            return {}
        source = {"counts": self._last.counts.get("cam", {}), "dropped": self._last.dropped.get("cam", {})}
        return {"pid": self._last.pid, "state": self._last.state, "detail": self._last.detail, **source}
