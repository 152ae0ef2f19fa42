"""The throw-away process that meets a package first, for the Python worker; ``verify`` starts it and reads its answer.

Nothing here protects itself from a crash: that is the point of the process. Steps go from cheap and safe to
native: manifest, hashes, program, operators, shapes, goldens, latency.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib.metadata
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from daemon.infer.verify import STAGE, Verdict
from daemon.package import (
    MANIFEST_FILE,
    MODEL_FILE,
    Manifest,
    PackageError,
    file_sha256,
    read_goldens,
    read_manifest,
    verify_files,
)

if TYPE_CHECKING:
    from daemon.infer.runtime import Array, LoadedModel

WARM_UP_RUNS = 5
MIN_RUNS, MAX_RUNS = 20, 300
MEASURE_S = 1.5
"""Time spent measuring latency, once MIN_RUNS are done."""
SPARE_MEMORY = 1 << 30
"""Bytes a check may allocate beside a few copies of the model: a damaged file can ask for terabytes."""
MAX_CPU_S = 600
"""The kernel ends a check that computes for longer, also when nobody is left to do it."""
_PR_SET_PDEATHSIG = 1


def verify(package: Path, threads: int, measured: bool) -> Verdict:
    """Check the package; what is wrong is in the verdict's detail."""
    try:
        _say(f"reading {package}")
        manifest_sha256 = file_sha256(package / MANIFEST_FILE) if (package / MANIFEST_FILE).exists() else ""
        manifest = read_manifest(package)
        _say("comparing hashes")
        verify_files(package, manifest)
        verdict = _verify_native(package, manifest, threads, measured)
        return msgspec.structs.replace(verdict, manifest_sha256=manifest_sha256)
    except (PackageError, OSError) as error:
        return Verdict(ok=False, detail=str(error), versions=_versions())


def _verify_native(package: Path, manifest: Manifest, threads: int, measured: bool) -> Verdict:
    """The steps that need the runtime, which is imported only now: a wrong hash is answered without it."""
    _say("starting the runtime")
    try:
        from daemon.infer.runtime import LoadedModel, RuntimeFailure, missing_parts, set_threads
    except ImportError as error:
        raise PackageError(f"{package}: cannot be checked here, ExecuTorch for Python is missing: {error}") from None

    _limit_memory(package)
    try:
        set_threads(threads)
        if missing := missing_parts(manifest):
            raise PackageError(f"{package}: this runtime lacks " + ", ".join(missing))
        _say("loading the program")
        model = LoadedModel(package, manifest)
        _say("running the goldens")
        inputs, max_abs_error = _check_goldens(model, package, manifest)
        p50_ms = p99_ms = 0.0
        if measured:
            _say("measuring")
            p50_ms, p99_ms = measure(model, inputs)
    except RuntimeFailure as failure:
        raise PackageError(f"{package}: {failure.detail}") from None
    return Verdict(
        ok=True,
        detail="",
        p50_ms=p50_ms,
        p99_ms=p99_ms,
        peak_rss_mb=_peak_rss_mb(),
        versions=_versions(),
        goldens=manifest.goldens.count,
        max_abs_error=max_abs_error,
    )


def _check_goldens(model: LoadedModel, package: Path, manifest: Manifest) -> tuple[list[Array], float]:
    """Run every golden; returns the inputs of one and the largest error of all.

    Raises:
        PackageError: an output is not finite or not the recorded one.
    """
    inputs: list[Array] = []
    worst = 0.0
    for index, (inputs, expected) in enumerate(read_goldens(package, manifest)):
        found = model.forward(inputs)[0]
        if not np.isfinite(found).all():
            raise PackageError(f"{package}: golden {index}: expected finite outputs, got {found.ravel()[:8].tolist()}")
        error = float(np.abs(np.subtract(found, expected)).max())
        if not error <= manifest.goldens.tolerance:
            raise PackageError(
                f"{package}: golden {index}: the output is {error:.3g} off, {manifest.goldens.tolerance:g} allowed: "
                "damaged weights, or kernels that compute something else than the exporter's"
            )
        worst = max(worst, error)
    return inputs, worst


def measure(model: LoadedModel, inputs: list[Array]) -> tuple[float, float]:
    """Forward time, p50 and p99 in ms, of repeated runs on the same inputs."""
    for _ in range(WARM_UP_RUNS):
        model.forward(inputs)
    times_ms: list[float] = []
    end = time.perf_counter() + MEASURE_S
    while len(times_ms) < MIN_RUNS or (len(times_ms) < MAX_RUNS and time.perf_counter() < end):
        began = time.perf_counter()
        model.forward(inputs)
        times_ms.append((time.perf_counter() - began) * 1e3)
    return float(np.percentile(times_ms, 50)), float(np.percentile(times_ms, 99))


def _limit_memory(package: Path) -> None:
    """Cap the address space: a terabyte the file asks for must fail here, not push the device into swap."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = mapped + 4 * (package / MODEL_FILE).stat().st_size + SPARE_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _peak_rss_mb() -> float:
    """High-water mark of this program; ``getrusage`` would include what ran before exec."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _versions() -> dict[str, str]:
    """Versions of the runtime and what it is linked to; without those that are not installed."""
    versions = {}
    for name in ("executorch", "torch"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _say(doing: str) -> None:
    """Tell the parent what comes next, in case it is the last thing done."""
    os.write(2, f"{STAGE}{doing}\n".encode())


def main() -> None:
    """Check the package named on the command line and leave with 0 (may act) or 1 (refused)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("package", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--unmeasured", action="store_true", help="leave the latency out of the verdict")
    options = parser.parse_args()
    # Native code prints where it likes: the answer goes to a copy of standard output that only this code knows.
    answer = os.dup(1)
    os.dup2(2, 1)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # nobody would read the answer
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))
    verdict = verify(options.package, options.threads, not options.unmeasured)
    os.write(answer, msgspec.json.encode(verdict) + b"\n")
    sys.stderr.flush()
    os._exit(0 if verdict.ok else 1)  # no tear-down of native libraries: the answer is out, nothing may spoil it


if __name__ == "__main__":
    main()
