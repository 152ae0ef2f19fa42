"""What it costs to bring a frame from one process to another, beside other ways, in interleaved rounds."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks import transport

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1200)]

ROUNDS = 3
SECONDS = float(os.environ.get("BENCH_SECONDS", "20")) / 2
KINDS = ("ring", "copy", "iceoryx2")
P99_MS = 1.0


def test_from_capture_to_reader(run_folder: Path) -> None:
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for number in range(ROUNDS):
        for kind in KINDS:
            times[kind] += transport.measure(kind, run_folder / f"{kind}{number}", SECONDS).times[transport.WARM :]
    p50 = {kind: float(np.median(found)) for kind, found in times.items()}
    for kind, found in times.items():
        print(f"\n{kind}: p50 {p50[kind]:.3f} ms, p99 {np.percentile(found, 99):.3f} ms, n {len(found)}", end="")
    assert p50["ring"] <= 0.7 * p50["copy"]
    assert p50["ring"] <= 1.1 * p50["iceoryx2"], "target missed"
    assert np.percentile(times["ring"], 99) <= P99_MS, "target missed"


def test_flat_out(run_folder: Path) -> None:
    """Every frame a reader gets is whole and the newest there is, and it gets as many as without descriptors."""
    rates: dict[str, list[float]] = {"ring": [], "bare": []}
    for number in range(ROUNDS):
        for kind, found in rates.items():
            result = transport.measure(kind, run_folder / f"{kind}{number}", SECONDS, fps=0)
            read = len(result.times)
            found.append(read / SECONDS)
            print(f"\n{kind}: {result.written / SECONDS:.0f} written, {read / SECONDS:.0f} read a second", end="")
            assert result.whole == read, "a frame put together of two was taken for intact"
    assert np.median(rates["ring"]) >= 0.8 * np.median(rates["bare"]), "target missed"
