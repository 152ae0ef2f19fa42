"""Every process killed and stopped in mid-game: neutral in time, the other game goes on, play resumes."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.game import REFLEXD, Game, game, late_outputs, processes_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SLACK_MS = 150.0
"""A tick, and what a busy machine with two cores adds."""
RECOVERY_SECONDS = 45.0
ENDLESS = {"games": 0, "seed": 11}


@pytest.fixture(scope="module")
def two_games() -> Iterator[Game]:
    with tempfile.TemporaryDirectory(prefix="rfx-", dir="/dev/shm") as name:
        folder = Path(name)
        with game(folder, {"left": {**ENDLESS, "priority": 9}, "right": {**ENDLESS, "priority": 2}}) as running:
            running.wait_for_decisions("left")
            running.wait_for_decisions("right")
            yield running
        assert processes_of(folder) == []


FAULTS = [
    (process, sent)
    for process in ("worker0", "simulate@left", "actuate@left-paddle", "infer")
    for sent in (signal.SIGKILL, signal.SIGSTOP)
]


@pytest.mark.parametrize(("process", "sent"), FAULTS, ids=lambda value: getattr(value, "name", value))
def test_fault(two_games: Game, process: str, sent: signal.Signals) -> None:
    two_games.wait_for_decisions("left")
    two_games.wait_for_decisions("right")
    pid = two_games.pid(process)
    struck = time.monotonic_ns()
    os.kill(pid, sent)
    if process.endswith(("@left", "@left-paddle")):
        two_games.listen(1.0)
        others = two_games.decisions("right", struck)
        assert others >= 20, f"the other game made {others} decisions in the second after the fault"
    took = max(two_games.wait_for_decisions(world, seconds=RECOVERY_SECONDS) for world in two_games.worlds)
    print(f"{process} {sent.name}: both games play again after {took:.2f} s")
    assert two_games.pid(process) != pid, "the process was not replaced"
    for world in two_games.worlds:
        assert late_outputs(two_games, world, SLACK_MS) == []


def test_stop_is_quick_neutral_and_leaves_nothing(run_folder: Path) -> None:
    with game(run_folder, {"left": ENDLESS}, "--json", str(run_folder / "out.json")) as running:
        running.wait_for_decisions("left", 30)
        worlds_last = running.states("left")[-1]
        took = running.stop()
        assert took < 2.0
        assert running.process.returncode == 0
        assert worlds_last.tick > 0
        running.listen(0.1)
        assert running.applied("left")[-1].cause == "stop"
        assert running.applied("left")[-1].action == "NOOP"
    assert (run_folder / "out.json").exists()
    assert processes_of(run_folder) == []
    left = [path for path in (run_folder / "run").rglob("*") if not path.is_dir() and path.parent.name != "locks"]
    assert left == []


def test_the_supervisor_killed_leaves_neutral_outputs_and_the_next_run_starts(run_folder: Path) -> None:
    worlds = {"left": ENDLESS}
    with game(run_folder, worlds) as running:
        running.wait_for_decisions("left")
        stuck = running.pid("infer")
        os.kill(stuck, signal.SIGSTOP)
        running.process.kill()
        running.process.wait()
    with game(run_folder, worlds) as again:
        again.wait_for_decisions("left")
        assert f"{stuck}" in again.log()
        assert again.stop() < 2.0
    assert processes_of(run_folder) == []


def test_a_second_daemon_on_the_same_folder_is_refused_by_name(run_folder: Path) -> None:
    worlds = {"left": ENDLESS}
    with game(run_folder, worlds) as running:
        running.wait_for_decisions("left")
        command = [REFLEXD, "run", str(running.config), "--plain"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode != 0
        assert f"process {running.process.pid}" in done.stderr
        before = running.decisions("left")
        running.wait_for_decisions("left")
        assert running.decisions("left") > before
