"""What the daemon adds to an inference, beside the bare hops and the bare inference; and what frame transport costs.

Rounds are interleaved, so that a noisy machine is noisy for all. ``BENCH_SECONDS`` is the length of one round.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks import empty_chain, transport
from tests.packages import full_frame_package

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1200)]

ROUNDS = 3
SECONDS = float(os.environ.get("BENCH_SECONDS", "20"))
START_SECONDS = 10.0
ROOT = Path(__file__).parents[2]

CONFIG = """
[daemon]
name = "bench"
runtime = "{folder}/run"
state = "{folder}/state"
[sources.cam]
kind = "synthetic"
width = 640
height = 480
fps = 30.0
[agents.driver]
package = "package"
source = "cam"
actuator = "servo"
[actuators.servo]
driver = "log"
actions = ["LEFT", "STAY", "RIGHT"]
neutral = "STAY"
deadman_ms = 250.0
arm_on_start = true
after_deadman = "resume"
"""


def percentiles(times: list[float]) -> str:
    p50, p99 = np.percentile(times, [50, 99])
    return f"p50 {p50:.3f} ms, p99 {p99:.3f} ms, n {len(times)}"


def run_daemon(folder: Path) -> dict[str, dict[str, float]]:
    report = folder / "out.json"
    command = [str(Path(sys.executable).with_name("reflexd")), "run", str(folder / "bench.toml"), "--plain"]
    subprocess.run(
        [*command, "--for", str(SECONDS + START_SECONDS), "--json", str(report)],
        check=True,
        cwd=ROOT,
        timeout=SECONDS + START_SECONDS + 30,
        stderr=subprocess.DEVNULL,
    )
    found: dict[str, dict[str, float]] = json.loads(report.read_text())["agents"]["driver"]
    return found


def run_bare(package: Path) -> list[float]:
    command = [sys.executable, str(Path(__file__).with_name("bare_loop.py")), str(package), str(SECONDS)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=SECONDS + 60)
    times: list[float] = json.loads(done.stdout.splitlines()[-1])
    return times


def test_overhead_of_the_chain(run_folder: Path) -> None:
    full_frame_package(run_folder / "package")
    (run_folder / "bench.toml").write_text(CONFIG.format(folder=run_folder))
    daemon: list[dict[str, dict[str, float]]] = []
    empty: list[float] = []
    bare: list[float] = []
    for number in range(ROUNDS):
        daemon.append(run_daemon(run_folder))
        empty += empty_chain.measure(run_folder / f"chain{number}", SECONDS)
        bare += run_bare(run_folder / "package")
    p50 = float(np.median([found["overhead_ms"]["p50"] for found in daemon]))
    p99 = float(np.median([found["overhead_ms"]["p99"] for found in daemon]))
    empty_p50, empty_p99 = np.percentile(empty, [50, 99])
    print(f"\nreflexd, capture to applied less its own forward: p50 {p50:.3f} ms, p99 {p99:.3f} ms, {ROUNDS} rounds")
    for found in daemon:
        print(f"  overhead {found['overhead_ms']}, forward {found['forward_ms']}, latency {found['latency_ms']}")
    print(f"empty chain of the same hops: {percentiles(empty)}")
    print(f"bare executorch.runtime loop: {percentiles(bare)}")
    # The target, and what a slower machine is allowed beyond its own bare hops.
    assert p50 <= max(1.2, empty_p50 + 0.6), f"target missed: {p50:.2f} ms"
    assert p99 <= max(2.5, empty_p99 + 1.5), f"target missed: {p99:.2f} ms"


def test_frame_transport(run_folder: Path) -> None:
    ring: list[float] = []
    copying: list[float] = []
    for number in range(ROUNDS):
        ring += transport.measure("ring", run_folder / f"ring{number}", SECONDS / 2)
        copying += transport.measure("copy", run_folder / f"copy{number}", SECONDS / 2)
    print(f"\nring and descriptor: {percentiles(ring)}\nplain pyzmq copying: {percentiles(copying)}")
    assert np.median(ring) <= 0.7 * np.median(copying)
