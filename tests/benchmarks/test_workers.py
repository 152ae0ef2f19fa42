"""The native worker beside the Python worker and the bare C++ loop over the same program, in interleaved rounds."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from daemon.workers import CHECKOUT
from tests.benchmarks import dispatch
from tests.benchmarks.native import RATE_HZ, run_bare_loop
from tests.peers import worker

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

ROUNDS = 3
SECONDS = float(os.environ.get("BENCH_SECONDS", "20")) / 2
PACKAGE = CHECKOUT / "models" / "pong" / "package"


def text(times: list[float]) -> str:
    p50, p99 = np.percentile(times, [50, 99])
    return f"p50 {p50:.3f} ms, p99 {p99:.3f} ms"


def test_start_memory_and_dispatch(run_folder: Path) -> None:
    measured: dict[str, list[dispatch.Measured]] = {"native": [], "python": []}
    bare: list[float] = []
    for number in range(ROUNDS):
        for kind, rounds in measured.items():
            rounds.append(dispatch.measure(worker(kind), PACKAGE, run_folder / f"{kind}{number}", SECONDS))
        bare += run_bare_loop(PACKAGE, SECONDS)
    print(f"\nPong, {RATE_HZ} requests/s; bare C++ loop: forward {text(bare)}")
    overheads: dict[str, list[float]] = {}
    for kind, rounds in measured.items():
        overheads[kind] = [time for one in rounds for time in one.overhead]
        forward = [time for one in rounds for time in one.forward]
        firsts = [round(one.first_result) for one in rounds]
        rss = max(one.rss_mb for one in rounds)
        print(f"{kind}: dispatch to reply less forward {text(overheads[kind])}; forward {text(forward)}")
        print(f"  process start to first result {firsts} ms; RSS {rss:.1f} MB")
    native = measured["native"]
    assert min(one.first_result for one in native) <= 50.0, "target missed: start to first result"
    assert max(one.rss_mb for one in native) <= 30.0, "target missed: memory"
    p50, p99 = np.percentile(overheads["native"], [50, 99])
    assert p50 <= 0.15, f"target missed: {p50:.3f} ms"
    assert p99 <= 0.5, f"target missed: {p99:.3f} ms"
