"""Two games for a long time, every process killed and stopped in turn: nothing leaks, nothing moves too long.

``SOAK_SECONDS`` is the length: half an hour by ``make soak``, a minute and a half in the short form of every test run.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.system.game import Game, game, late_outputs, processes_of

SHORT_SECONDS = 75.0
SLACK_MS = 150.0
RECOVERY_SECONDS = 45.0
PAUSE_SECONDS = 5.0
ENDLESS = {"games": 0, "seed": 101}
WORLDS = {"left": {**ENDLESS, "priority": 9}, "right": {**ENDLESS, "priority": 2}}
PROCESSES = ["worker0", "simulate@left", "actuate@left-paddle", "infer", "simulate@right", "actuate@right-paddle"]
SLOPE_LIMIT_MB_PER_HOUR = 4.0
"""Of the supervisor, which lives through it all: within what its sampling scatters by in half an hour."""


class Watch:
    """Memory, descriptors and files of a run, sampled as it goes."""

    def __init__(self, running: Game) -> None:
        self._running = running
        self._supervisor = psutil.Process(running.process.pid)
        self.samples: list[tuple[float, float, int, int]] = []
        self.shared_before = shared_memory()

    def sample(self) -> None:
        rss = self._supervisor.memory_info().rss / 1e6
        files = sum(1 for path in self._running.runtime.folder.rglob("*"))
        self.samples.append((time.monotonic(), rss, self._supervisor.num_fds(), files))

    def settled(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """Samples after the first fifth: imports and caches have come to rest."""
        return np.array(self.samples[len(self.samples) // 5 :])

    def slope_mb_per_hour(self) -> float:
        data = self.settled()
        return float(np.polyfit(data[:, 0] / 3600, data[:, 1], 1)[0])


def shared_memory() -> set[str]:
    """What a library or this project could have left in /dev/shm; other programs have theirs there, too."""
    kinds = ("reflexd", "torch", "sem.", "psm_", "pymp-")
    return {path.name for path in Path("/dev/shm").iterdir() if path.name.startswith(kinds)}


def inject(running: Game, process: str, sent: signal.Signals) -> str:
    """Strike one process and wait until both games go on."""
    pid = running.pid(process)
    os.kill(pid, sent)
    took = max(running.wait_for_decisions(world, seconds=RECOVERY_SECONDS) for world in WORLDS)
    assert running.pid(process) != pid, f"{process} was not replaced after {sent.name}"
    return f"{process} {sent.name}: played on after {took:.1f} s"


def check_timeline(running: Game) -> int:
    """Hold the worlds' record so far against the dead-man time; return how many moments were checked."""
    checked = 0
    for world in WORLDS:
        assert late_outputs(running, world, SLACK_MS) == []
        checked += len(running.states(world))
    kept = [(name, m) for name, m in running.record if getattr(m, "at_ns", None) or getattr(m, "applied_ns", None)]
    running.record = kept[-600:]
    return checked


def soak(folder: Path, seconds: float) -> None:
    with game(folder, WORLDS) as running:
        for world in WORLDS:
            running.wait_for_decisions(world)
        watch = Watch(running)
        end = time.monotonic() + seconds
        checked = struck = 0
        for process, sent in itertools.cycle(itertools.product(PROCESSES, (signal.SIGKILL, signal.SIGSTOP))):
            if time.monotonic() > end:
                break
            print(f"{seconds - (end - time.monotonic()):7.1f} s  {inject(running, process, sent)}", flush=True)
            struck += 1
            checked += check_timeline(running)
            quiet_until = time.monotonic() + PAUSE_SECONDS
            while time.monotonic() < quiet_until:
                running.listen(1.0)
                watch.sample()
        zombies = [p for p in psutil.Process(running.process.pid).children(True) if p.status() == psutil.STATUS_ZOMBIE]
        assert zombies == []
        took = running.stop()
        assert running.process.returncode == 0
    data = watch.settled()
    print(f"{struck} faults, {checked} moments of the worlds checked, none beyond the dead-man time")
    (fds_low, files_low), (fds_high, files_high) = data[:, 2:].min(axis=0), data[:, 2:].max(axis=0)
    print(f"stopped in {took:.2f} s; descriptors {fds_low:.0f}-{fds_high:.0f}, files {files_low:.0f}-{files_high:.0f}")
    print(f"supervisor {data[0, 1]:.1f} to {data[-1, 1]:.1f} MB, slope {watch.slope_mb_per_hour():+.2f} MB/h")
    assert processes_of(folder) == []
    assert shared_memory() <= watch.shared_before
    left = [path for path in (folder / "run").rglob("*") if not path.is_dir() and path.parent.name != "locks"]
    assert left == []
    half = len(data) // 2
    assert np.median(data[half:, 2]) <= np.median(data[:half, 2]) + 2, "descriptors grow"
    if seconds >= 600:
        assert watch.slope_mb_per_hour() < SLOPE_LIMIT_MB_PER_HOUR


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_soak_short(run_folder: Path) -> None:
    soak(run_folder, SHORT_SECONDS)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_soak(run_folder: Path) -> None:
    soak(run_folder, float(os.environ.get("SOAK_SECONDS", "1800")))
