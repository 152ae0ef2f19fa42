"""A Debian root with a real Picamera2 on libcamera's virtual camera: the whole stack but the sensor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from daemon.workers import CHECKOUT
from tests.lab import debian

HERE = Path(__file__).parent
SHIM = CHECKOUT.parent / "shared" / "lab" / "virtual_camera.py"
NOISE = (" INFO Camera ", "DmaBufAllocator", "Attempted to remove disk file system")


def why_not() -> str:
    """Why no such root can be had here; empty if one can."""
    if not SHIM.exists():
        return f"needs {SHIM.relative_to(CHECKOUT.parent)}, which paces libcamera's virtual camera"
    return debian.why_not()


class CameraRoot:
    """The cached root, made if it is not there; ``folder`` is ``/lab`` in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._root = debian.cached_root("camera-sid", HERE / "make_root.sh", sys.executable)

    def run(self, script: str, seconds: float) -> str:
        """Run a shell script in a process namespace of its own; everything left in it ends with it.

        Returns:
            What it said, without what libcamera always says.
        """
        done = subprocess.run(
            [*self._nspawn(), "sh", "-euc", script], capture_output=True, text=True, timeout=seconds, check=False
        )
        said = [
            line for line in done.stdout.splitlines() + done.stderr.splitlines() if not any(n in line for n in NOISE)
        ]
        assert done.returncode == 0, "\n".join(said[-40:])
        return "\n".join(said)

    def _nspawn(self) -> list[str]:
        binds = {
            f"{SHIM.parent}": "/lab-shim",
            f"{CHECKOUT / 'daemon'}": "/usr/lib/reflexd/daemon",
            f"{debian.WORKER}": "/opt/worker",
        }
        return [
            *("systemd-nspawn", "--quiet", f"--directory={self._root}", "--as-pid2", "--pipe", "--private-network"),
            *("--register=no", "--keep-unit", "--link-journal=no", f"--machine=reflexd-camera-{os.getpid()}"),
            *(f"--bind-ro={outside}:{inside}" for outside, inside in binds.items()),
            *(f"--bind={self.folder}:/lab", "--setenv=PYTHONPATH=/usr/lib/reflexd"),
            "--setenv=REFLEXD_WORKER=/opt/worker/reflexd-worker",
        ]
