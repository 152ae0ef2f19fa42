"""The build for 64-bit Arm runs on the first of them: no later instruction, no other machine's file, no new glibc."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from daemon.workers import CHECKOUT
from tests.cross.elf import foreign_instructions, machine, needed_versions, search_path
from tests.peers import BUILD_LIMIT_S, CORES, EMULATED, worker

pytestmark = [
    pytest.mark.timeout(BUILD_LIMIT_S + 300),
    pytest.mark.skipif(not EMULATED, reason="this machine is aarch64 itself"),
]
PONG = CHECKOUT / "models" / "pong" / "package"
BASELINE = "armv8-a"
BOOKWORM_GLIBC = (2, 36)
"""Of the oldest system the worker is for, Raspberry Pi OS bookworm."""

LATER_IN_LIBRARIES: dict[str, set[str]] = {
    "libexecutorch.so": {"ldaddal"},
    "libexecutorch_etdump.so": set(),
    "libexecutorch_kernels_quantized.so": set(),
    "libexecutorch_kernels_optimized.so": {"ldaddal", "swpalb", "bfdot"},
    "libexecutorch_threadpool.so": {"cas", "casal", "ldadd", "ldaddal", "swpa", "swpal"},
}
"""Beyond the baseline in ExecuTorch 1.5.1: atomics in the compiler's helpers and one dot product, both behind a check
of the processor. XNNPACK is not listed: its kernels for every extension are chosen at start. That the checks hold is
what the emulated Cortex-A53 shows."""
LATER_IN_OPENSSL = {"sha256h", "sha256h2", "sha256su0", "sha256su1", "sha1h", "aese", "pmull"}
"""Its SHA-256, and how it finds out what a processor has where the system does not say; after a check as well."""


@pytest.fixture(scope="module")
def folder() -> Path:
    """What goes onto the device."""
    worker(EMULATED[0])
    return CHECKOUT / "cross" / "dist" / "aarch64"


def test_every_file_is_for_the_device(folder: Path) -> None:
    binaries = [folder / "reflexd-worker", *folder.glob("*.so")]
    assert {path.name for path in binaries} == {
        "reflexd-worker",
        "libexecutorch_backend_xnnpack.so",
        *LATER_IN_LIBRARIES,
    }
    assert {machine(path) for path in binaries} == {"AArch64"}


def test_the_worker_has_no_instruction_beyond_the_baseline(folder: Path) -> None:
    """As it was before it was stripped: constants among the instructions are marked as such there."""
    assert folder.is_dir()
    built = CHECKOUT / "cross" / "build" / "aarch64" / "reflexd-worker"
    assert foreign_instructions(built, BASELINE) <= LATER_IN_OPENSSL


def check_pong(core: str, **environment: str) -> dict[str, Any]:
    """What a worker on this core says of the package."""
    command = worker(f"aarch64 {core}").check_command(PONG, 1)
    checked = subprocess.run(command, capture_output=True, check=True, timeout=300, env=os.environ | environment)
    verdict: dict[str, Any] = json.loads(checked.stdout)
    return verdict


def test_hashes_are_right_without_the_instructions_for_them() -> None:
    """An emulated Cortex-A53 has them, that of a Raspberry Pi 3 has not. A hash that is off refuses the package."""
    assert check_pong(CORES[0], OPENSSL_armcap="0")["ok"]


@pytest.mark.parametrize("name", LATER_IN_LIBRARIES)
def test_later_instructions_in_the_libraries_are_the_known_ones(folder: Path, name: str) -> None:
    assert foreign_instructions(folder / name, BASELINE) <= LATER_IN_LIBRARIES[name]


def test_the_scan_finds_later_instructions(folder: Path) -> None:
    found = foreign_instructions(folder / "libexecutorch_backend_xnnpack.so", BASELINE)
    assert {"sdot", "smmla", "ldaddal"} <= found


def test_the_system_it_needs_is_not_newer_than_bookworm(folder: Path) -> None:
    for path in [folder / "reflexd-worker", *folder.glob("*.so")]:
        assert needed_versions(path, "GLIBC")[-1] <= BOOKWORM_GLIBC, path.name
    assert search_path(folder / "reflexd-worker") == "$ORIGIN"


@pytest.mark.parametrize("core", CORES)
def test_it_says_what_the_core_has_and_checks_a_package(core: str) -> None:
    emulated = worker(f"aarch64 {core}")
    said = subprocess.run([emulated.path, "--version", "--json"], capture_output=True, check=True, timeout=60)
    told = json.loads(said.stdout)
    assert told["arch"] == "aarch64"
    assert told["cpu_used"].startswith(BASELINE)
    assert ("asimddp" in told["cpu_found"]) == (core == "max")
    verdict = check_pong(core)
    assert verdict["ok"], verdict["detail"]
    assert verdict["goldens"] == 8
    assert verdict["max_abs_error"] < 1e-4
