"""What the processes of a whole run have in memory: no torch with the native worker, and little of anything."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.peers import BUILD_LIMIT_S, worker
from tests.system.game import Game, game

pytestmark = [pytest.mark.slow, pytest.mark.timeout(BUILD_LIMIT_S)]

WORLD, ACTUATOR = "simulate@pong", "actuate@pong-paddle"
TOTAL_RSS_MB = 200.0
TORCH = ("/torch/", "/libtorch", "/libc10")
PIXELS = ("/numpy/", "/PIL/")


def pids(running: Game) -> dict[str, int]:
    """Every process of the run, the supervisor and the workers included."""
    stages = {name: running.pid(name) for name in (WORLD, ACTUATOR, "infer")}
    return {"run": running.process.pid, **stages, **running.health["infer"].children}


def mapped(pid: int, parts: tuple[str, ...]) -> set[str]:
    """Files with one of ``parts`` in their path that the process has mapped."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split(maxsplit=5)[5] for line in lines if any(part in line for part in parts)}


def test_the_daemon_with_the_native_worker_is_small_and_has_no_torch(run_folder: Path) -> None:
    worker("native")  # built, so that the run finds it
    with game(run_folder, {"pong": {}}) as running:
        running.wait_for_decisions("pong", count=30)
        found = pids(running)
        rss_mb = {name: psutil.Process(pid).memory_info().rss / 1e6 for name, pid in found.items()}
        torch = {name: mapped(pid, TORCH) for name, pid in found.items()}
        pixels = {name: mapped(pid, PIXELS) for name, pid in found.items()}
        assert "worker: native" in running.log()
    print({name: round(mb, 1) for name, mb in rss_mb.items()}, f"{sum(rss_mb.values()):.1f} MB")
    assert set(rss_mb) == {"run", WORLD, ACTUATOR, "infer", "worker0"}
    assert not any(torch.values()), torch
    assert {name for name, files in pixels.items() if files} == {WORLD}
    assert sum(rss_mb.values()) <= TOTAL_RSS_MB
