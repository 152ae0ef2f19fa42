"""Libraries of cameras that do not load after an upgrade of one of their parts: named, with what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.process import EXIT_CONFIG
from tests.actuate.running import write_package
from tests.configs import acting

ROOT = Path(__file__).parents[2]
NUMPY_ABI = "numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, got 88"
NO_CORE = "numpy.core.multiarray failed to import"
HALVES = "module 'libcamera' has no attribute 'ColorSpace'"

BREAKAGES = [
    (
        "libcamera",
        f"raise ValueError({NUMPY_ABI!r})",
        f"does not load, as after an upgrade of one of its parts: ValueError: {NUMPY_ABI}",
    ),
    (
        "libcamera",
        f"raise ImportError({NO_CORE!r})",
        f"does not load, as after an upgrade of one of its parts: {NO_CORE}",
    ),
    ("libcamera", f"raise AttributeError({HALVES!r})", f"parts: AttributeError: {HALVES}"),
    ("libcamera", "import a_part_that_is_gone", "needs the system's picamera2: apt install python3-picamera2"),
]


@pytest.fixture
def environment(run_folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(run_folder / "site")])}


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(("module", "program", "said"), BREAKAGES)
def test_capture_gives_up_and_says_so(
    run_folder: Path, environment: dict[str, str], module: str, program: str, said: str
) -> None:
    """With the status after which nobody starts it again: another start mends nothing."""
    (run_folder / "site").mkdir()
    (run_folder / "site" / f"{module}.py").write_text(program)
    write_package(run_folder / "package", ["LEFT", "STAY", "RIGHT"])
    config = run_folder / "robot.toml"
    config.write_text(
        f'[daemon]\nname = "t"\nruntime = "{run_folder}/run"\nstate = "{run_folder}/state"\n'
        f'[sources.cam]\nkind = "picamera2"\n{acting("driver", "wheels")}'
    )
    done = run(environment, "daemon.capture", str(config), "cam")
    assert done.returncode == EXIT_CONFIG
    assert "Traceback" not in done.stderr
    assert f"{config}: sources.cam: " in done.stderr
    assert said in done.stderr


@pytest.mark.parametrize(
    ("module", "program", "said"), [*BREAKAGES, ("av", "raise ValueError('odd')", "ValueError: odd")]
)
def test_the_list_of_sources_says_so_and_goes_on(
    run_folder: Path, environment: dict[str, str], module: str, program: str, said: str
) -> None:
    (run_folder / "site").mkdir()
    (run_folder / "site" / f"{module}.py").write_text(program)
    done = run(environment, "daemon.cli", "sources")
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert 'kind = "screen"' in done.stdout
