"""The workers tests run against: Python, native, and native for aarch64 under emulation; built if they are not.

A worker is a program: one of another machine is a script that hands it to the emulator, so that everything else is
as with any worker.
"""

from __future__ import annotations

import atexit
import functools
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from daemon.workers import CHECKOUT, VARIABLE, Candidate, Unfit, Worker, probe, python_worker

EMULATOR = "qemu-aarch64-static"
SYSROOT = "/usr/aarch64-linux-gnu"
EMULATION = [EMULATOR, "-L", SYSROOT, "-E", f"LD_LIBRARY_PATH={SYSROOT}/lib"]
"""Runs a program. Loader and libraries from one place: half from the host's own arm64 packages, they hang."""
CORES = ("cortex-a53", "cortex-a72", "max")
EMULATED = [] if platform.machine() == "aarch64" else [f"aarch64 {core}" for core in CORES]
"""On a host that is aarch64 itself, the native worker is the one to test."""
KINDS = ["python", "native", *EMULATED]
BUILD_LIMIT_S = 1200.0
"""A first build also fetches the runtime for the other machine; tests that use workers need a time limit above it."""


@functools.cache
def worker(kind: str) -> Worker:
    """The worker of this kind, one of :data:`KINDS`; built anew if it does not fit the daemon."""
    if kind == "python":
        return python_worker("a test asks for it")
    if kind == "native" and (named := os.environ.get(VARIABLE)):
        return probe(Candidate(Path(named), f"{VARIABLE} names it"))
    target = "worker" if kind == "native" else "worker-aarch64"
    machine = platform.machine() if kind == "native" else "aarch64"
    place = Candidate(CHECKOUT / "cross" / "dist" / machine / "reflexd-worker", f"make {target}")
    if kind != "native":
        place = place._replace(path=_emulated(place.path, kind.split()[1]))
    try:
        return probe(place)
    except Unfit:
        subprocess.run(["make", target], cwd=CHECKOUT, check=True, timeout=BUILD_LIMIT_S)
        return probe(place)


def patience(kind: str) -> float:
    """How much longer than on its own machine everything may take."""
    return 10.0 if kind in EMULATED else 1.0


def _emulated(binary: Path, core: str) -> Path:
    script = _scripts() / core
    script.write_text(f'#!/bin/sh\nexec {shlex.join(EMULATION)} -cpu {core} {binary} "$@"\n')
    script.chmod(0o755)
    return script


@functools.cache
def _scripts() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="reflexd-peers-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
