"""From the command to the first action, and what the whole daemon has in memory then."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from daemon.workers import CHECKOUT
from tests.benchmarks.test_speed import CONFIG
from tests.efficientnet import full_frame_efficientnet_package
from tests.peers import worker
from tests.system.game import pong_config

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1200)]

ROUNDS = 5
SECONDS = 3.0
FIRST_ACTION_MS = 1000.0
TOTAL_RSS_MB = 200.0


def run(config: Path) -> dict[str, Any]:
    """The report of a short run."""
    report = config.with_name("out.json")
    command = [str(Path(sys.executable).with_name("reflexd")), "run", str(config), "--plain"]
    subprocess.run(
        [*command, "--for", str(SECONDS), "--json", str(report)],
        check=True,
        cwd=CHECKOUT,
        timeout=SECONDS + 60,
        stderr=subprocess.DEVNULL,
    )
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def measure(name: str, config: Path) -> tuple[float, float]:
    """First action, ms, median of some runs; memory of all processes in the last, MB."""
    worker("native")  # built, so that the runs find it
    reports = [run(config) for _ in range(ROUNDS)]
    firsts = [report["first_action_ms"] for report in reports]
    rss_mb = {process: cost["rss_mb"] for process, cost in reports[-1]["processes"].items()}
    total = sum(rss_mb.values())
    print(f"\n{name}, {reports[0]['worker']['kind']} worker: first action after {median(firsts):.0f} ms: {firsts}")
    print(f"resident: {rss_mb}, {total:.1f} MB together")
    return median(firsts), total


def test_pong(run_folder: Path) -> None:
    first_ms, rss_mb = measure("Pong", pong_config(run_folder, {"pong": {"games": 0}}))
    assert rss_mb <= TOTAL_RSS_MB, "target missed"
    assert first_ms <= FIRST_ACTION_MS, "target missed"


def test_a_network_of_18_mb(run_folder: Path) -> None:
    full_frame_efficientnet_package(run_folder / "package")
    config = run_folder / "start.toml"
    config.write_text(CONFIG.format(folder=run_folder, worker="native"))
    first_ms, _ = measure("EfficientNet-Lite0 at 640x480", config)
    assert first_ms <= FIRST_ACTION_MS, "target missed"
