"""What the daemon adds to an inference, beside the bare hops and the bare inference.

Rounds are interleaved, so that a noisy machine is noisy for all. ``BENCH_SECONDS`` is the length of one round.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.benchmarks import empty_chain
from tests.benchmarks.native import run_bare_loop
from tests.configs import acting
from tests.efficientnet import full_frame_efficientnet_package
from tests.packages import full_frame_package
from tests.peers import worker

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1200)]

ROUNDS = 3
SECONDS = float(os.environ.get("BENCH_SECONDS", "20"))
START_SECONDS = 10.0
ROOT = Path(__file__).parents[2]

CONFIG = f"""
[daemon]
name = "bench"
runtime = "{{folder}}/run"
state = "{{folder}}/state"
[sources.cam]
kind = "synthetic"
width = 640
height = 480
fps = 30.0
{acting("driver", "servo")}
[infer]
worker = "{{worker}}"
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


def run_bare(package: Path, seconds: float) -> list[float]:
    command = [sys.executable, str(Path(__file__).with_name("bare_loop.py")), str(package), str(seconds)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=seconds + 60)
    times: list[float] = json.loads(done.stdout.splitlines()[-1])
    return times


class Round(NamedTuple):
    """What interleaved rounds gave, ms: medians of the daemon's figures, every time of the others."""

    overhead: tuple[float, float]
    latency_p50: float
    empty: list[float]
    bare: list[float]


def chain(folder: Path, kind: str, bare: Callable[[Path, float], list[float]]) -> Round:
    """The daemon with this worker, the empty chain and a bare loop, in turn; prints every figure."""
    worker(kind)  # built, so that the runs find it
    (folder / "bench.toml").write_text(CONFIG.format(folder=folder, worker=kind))
    daemon: list[dict[str, dict[str, float]]] = []
    found = Round((0.0, 0.0), 0.0, [], [])
    for number in range(ROUNDS):
        daemon.append(run_daemon(folder))
        found.empty.extend(empty_chain.measure(folder / f"chain{number}", SECONDS))
        found.bare.extend(bare(folder / "package", SECONDS))
    p50, p99 = (float(np.median([one["overhead_ms"][key] for one in daemon])) for key in ("p50", "p99"))
    print(f"\nreflexd, {kind} worker, capture to applied less its own forward: p50 {p50:.3f} ms, p99 {p99:.3f} ms")
    for one in daemon:
        print(f"  overhead {one['overhead_ms']}, forward {one['forward_ms']}, latency {one['latency_ms']}")
    print(f"empty chain of the same hops: {percentiles(found.empty)}")
    print(f"bare loop: {percentiles(found.bare)}")
    return found._replace(
        overhead=(p50, p99), latency_p50=float(np.median([one["latency_ms"]["p50"] for one in daemon]))
    )


def test_overhead_of_the_chain(run_folder: Path) -> None:
    full_frame_package(run_folder / "package")
    found = chain(run_folder, "python", run_bare)
    (p50, p99), (empty_p50, empty_p99) = found.overhead, np.percentile(found.empty, [50, 99])
    # The target, and what a slower machine is allowed beyond its own bare hops.
    assert p50 <= max(1.2, empty_p50 + 0.6), f"target missed: {p50:.2f} ms"
    assert p99 <= max(2.5, empty_p99 + 1.5), f"target missed: {p99:.2f} ms"


def test_overhead_with_the_native_worker(run_folder: Path) -> None:
    full_frame_efficientnet_package(run_folder / "package")
    found = chain(run_folder, "native", run_bare_loop)
    (p50, p99), (empty_p50, empty_p99) = found.overhead, np.percentile(found.empty, [50, 99])
    ratio = found.latency_p50 / float(np.median(found.bare))
    print(f"capture to applied beside the bare forward, p50: {ratio:.3f}")
    assert p50 <= max(0.7, empty_p50 + 0.3), f"target missed: {p50:.2f} ms"
    assert p99 <= max(1.2, empty_p99 + 0.3), f"target missed: {p99:.2f} ms"
    assert ratio <= 1.15, f"target missed: {ratio:.3f}"
