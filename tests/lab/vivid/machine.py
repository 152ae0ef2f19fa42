"""A machine of its own, with Debian's kernel and its vivid camera, in software: any x86-64 host can do that."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

from daemon.workers import CHECKOUT
from tests.lab import debian

HERE = Path(__file__).parent
BOOT_LIMIT_S = 900.0
_GUEST = "tests/lab/vivid"


def why_not() -> str:
    """Why no such machine can be had here; empty if one can."""
    if platform.machine() != "x86_64":
        return "the machine is an x86-64 one and runs this host's native worker"
    return debian.why_not("qemu-system-x86_64", "mke2fs", "debugfs")


def run(folder: Path, disk: Path) -> Path:
    """Boot, wait until the machine has powered off.

    Args:
        folder: for the disk image and the console's text.
        disk: what the machine finds in ``/mnt``, beside the daemon, the native worker and its own part of the tests.

    Returns:
        What it left in ``/mnt/results``.
    """
    image = debian.cached_root("vivid-trixie", HERE / "make_image.sh")
    _fill(disk)
    medium, console = folder / "disk.ext4", folder / "console.txt"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", str(disk), str(medium), "256M"], check=True)
    with console.open("wb") as said:
        subprocess.run(
            _command(image, medium), stdin=subprocess.DEVNULL, stdout=said, stderr=said, timeout=BOOT_LIMIT_S
        )
    subprocess.run(["debugfs", "-R", f"rdump /results {folder}", str(medium)], check=True, capture_output=True)
    results = folder / "results"
    assert (results / "results.json").exists(), _last_words(results / "guest.txt", console)
    return results


def _fill(disk: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(CHECKOUT / "daemon", disk / "daemon", ignore=ignored)
    shutil.copytree(HERE, disk / _GUEST, ignore=ignored)
    shutil.copytree(debian.WORKER, disk / "worker")
    shutil.copy(HERE / "init.sh", disk)


def _command(image: Path, medium: Path) -> list[str]:
    # `max` in software: hardware help is left alone even where it is, the machine is then the same everywhere.
    # A panic ends it instead of the time limit: panic=-1 and -no-reboot.
    words = "root=/dev/vda rw console=ttyS0 quiet panic=-1 init=/usr/local/sbin/lab-init"
    return [
        *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "1024", "-smp", "2"),
        *("-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"),
        *("-kernel", str(image / "vmlinuz"), "-initrd", str(image / "initrd"), "-append", words),
        *("-drive", f"file={image / 'root.ext4'},format=raw,if=virtio,snapshot=on"),
        *("-drive", f"file={medium},format=raw,if=virtio"),
    ]


def _last_words(*files: Path) -> str:
    return "\n".join(file.read_text(errors="replace")[-4000:] for file in files if file.exists())
