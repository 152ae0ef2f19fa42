"""Builds the C++ that tests run, in ``cross/build/tests``; what is up to date is left alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_BUILDS = ROOT / "cross/build/tests"
_SECONDS = 1200
"""For a compiler on a slow and busy machine."""


def build(name: str, source: Path, target: str, *options: str) -> Path:
    """Configure and build the CMake project ``source``.

    Args:
        name: of the build folder; one for each set of options.
        source: folder of the project.
        target: what to build.
        options: for CMake.

    Returns:
        The build folder. What is missing or does not compile fails the test, with CMake's or the compiler's words.
    """
    folder = _BUILDS / name
    _run(find_tool("cmake", "cmake"), "-S", source, "-B", folder, f"-DPython3_EXECUTABLE={sys.executable}", *options)
    _run(find_tool("cmake", "cmake"), "--build", folder, "--target", target, "--parallel", "2")
    return folder


def find_tool(program: str, package: str) -> str:
    """Path of a program; pytest's environment comes before the system. A missing one fails the test."""
    beside = Path(sys.executable).with_name(program)
    found = str(beside) if beside.exists() else shutil.which(program)
    if found is None:
        pytest.fail(f"{program} is missing and these tests need it: apt install {package}")
    return found


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr)[-4000:]
        pytest.fail(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{said}", pytrace=False)
