"""The Debian roots of the lab: where they are kept, and what making and running them takes."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

from daemon.workers import CHECKOUT

CACHE = Path(os.environ.get("REFLEXD_LAB", "/var/cache/reflexd-lab"))
WORKER = CHECKOUT / "cross" / "dist" / platform.machine()
"""Folder of the native worker."""
_PACKAGES = {
    "systemd-nspawn": "systemd-container",
    "nsenter": "util-linux",
    "qemu-system-x86_64": "qemu-system-x86",
    "mke2fs": "e2fsprogs",
    "debugfs": "e2fsprogs",
}
"""Debian's packages of programs that are named otherwise."""


def why_not(*more: str) -> str:
    """Why no root can be made and run here; empty if one can.

    Args:
        more: programs needed beside those that every root needs.
    """
    if os.getuid() != 0:
        return "the lab makes a root of its own: run as root"
    lacking = [program for program in ("systemd-nspawn", "debootstrap", *more) if shutil.which(program) is None]
    if lacking:
        packages = sorted({_PACKAGES.get(program, program) for program in lacking})
        return f"not installed: {', '.join(lacking)} (apt install {' '.join(packages)})"
    return "" if (WORKER / "reflexd-worker").exists() else "the native worker is not built: make worker"


def cached_root(name: str, script: Path, *arguments: str) -> Path:
    """The root of this name; made by ``script ROOT ARGUMENT...`` if it is not there."""
    root = CACHE / name
    if not root.is_dir():
        subprocess.run([script, root, *arguments], check=True)
    return root
