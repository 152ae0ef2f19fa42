"""A Debian machine for tests: systemd in a root, a cgroup and a network of its own, to install reflexd in.

The root is made once for each release (``make_root.sh``) and stays; each machine is an overlay over it that goes with
the test. What is installed is the package, by apt, as on a device.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from daemon import __version__
from daemon.workers import CHECKOUT
from tests.lab.debian import cached_root, why_not
from tests.lab.systemd.emulator import emulated

HERE = Path(__file__).parent
CGROUPS = Path("/sys/fs/cgroup")
UP_WITHIN_S = 30.0
DOWN_WITHIN_S = 20.0
CONFIG = "etc/reflexd/reflexd.toml"
INSTALL = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "--allow-downgrades")


def package(architecture: str = "amd64") -> Path:
    """The package of this checkout, as `make deb` makes it."""
    return CHECKOUT / "dist" / f"reflexd_{__version__}_{architecture}.deb"


class Machine:
    """A machine; ``root`` is its file system, seen from outside, whether it runs or not."""

    def __init__(self, root: Path, name: str) -> None:
        self.root, self._name = root, name
        unified = CGROUPS / "unified"
        self._cgroup = (unified if unified.is_dir() else CGROUPS) / name
        self._container: subprocess.Popen[bytes] | None = None
        self._leader = 0

    def boot(self) -> None:
        """Start systemd and return once it can be talked to; services may still be starting."""
        self._cgroup.mkdir(exist_ok=True)
        begin = 'echo $$ >"$0/cgroup.procs" && exec "$@"'
        nspawn = ["systemd-nspawn", "--quiet", "-D", str(self.root), "-b", f"--machine={self._name}"]
        options = ["--register=no", "--keep-unit", "--link-journal=no", "--private-network"]
        self._container = subprocess.Popen(
            ["sh", "-c", begin, str(self._cgroup), *nspawn, *options],
            env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self._answers, UP_WITHIN_S, "systemd answers")

    def power_off(self) -> None:
        """End the machine and whatever runs in it."""
        if self._container is None:
            return
        try:
            self.run("systemctl", "--no-block", "poweroff", check=False)
            self._container.wait(DOWN_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._container.terminate()  # nspawn ends its machine at once
            self._container.wait(DOWN_WITHIN_S)
        finally:
            self._container, self._leader = None, 0
            self._remove_cgroups()

    def run(self, *command: str, check: bool = True, timeout: float = 60.0) -> str:
        """Run a command in the machine; return its output, stderr after stdout."""
        done = subprocess.run(
            ["nsenter", "-t", str(self._leader), "-a", *command], capture_output=True, text=True, timeout=timeout
        )
        assert not check or done.returncode == 0, f"{command}: {done.returncode}: {done.stdout}{done.stderr}"
        return (done.stdout + done.stderr).strip()

    def kill(self, pid: int, sent: signal.Signals) -> None:
        """Send a signal to a process, by its pid in the machine."""
        self.run("sh", "-c", f"kill -{sent.value} {pid}")

    def show(self, unit: str, prop: str) -> str:
        """A property of a unit."""
        return self.run("systemctl", "show", "-P", prop, unit)

    def journal(self, *matches: str) -> list[dict[str, Any]]:
        """Entries of the journal of this boot, oldest first."""
        text = self.run("journalctl", "-b", "-o", "json", "--no-pager", "-q", *matches)
        return [json.loads(line) for line in text.splitlines()]

    def put(self, file: Path) -> str:
        """Copy a file into the machine; return its path there."""
        shutil.copy(file, self.root / "srv")
        return f"/srv/{file.name}"

    def chroot(self, *command: str) -> None:
        """Run a command in the file system of a machine that is off."""
        subprocess.run(["chroot", str(self.root), *command], check=True, capture_output=True, timeout=120)

    def _answers(self) -> bool:
        assert self._container is not None
        assert self._container.poll() is None, "systemd-nspawn has ended"
        children = Path(f"/proc/{self._container.pid}/task/{self._container.pid}/children").read_text().split()
        if not children:
            return False
        self._leader = int(children[0])
        state = self.run("systemctl", "is-system-running", check=False)
        return state in ("starting", "running", "degraded")

    def _remove_cgroups(self) -> None:
        for folder, _, _ in os.walk(self._cgroup, topdown=False):
            Path(folder).rmdir()


@contextmanager
def debian(folder: Path, suite: str = "trixie", architecture: str = "amd64") -> Iterator[Machine]:
    """A machine with what the package depends on, and nothing of reflexd; to be booted."""
    deb = package(architecture)
    reason = why_not("nsenter")
    if reason or not deb.exists():
        pytest.skip(reason or f"dist/{deb.name} is not built: make deb")
    with emulated() if architecture == "arm64" else nullcontext():
        root = cached_root(f"systemd-{suite}-{architecture}", HERE / "make_root.sh", suite, architecture)
        with _overlay(folder, root):
            machine = Machine(folder / "root", f"reflexd-lab-{os.getpid()}")
            try:
                yield machine
            finally:
                machine.power_off()


@contextmanager
def _overlay(folder: Path, root: Path) -> Iterator[None]:
    for name in ("upper", "work", "root"):
        (folder / name).mkdir()
    options = f"lowerdir={root},upperdir={folder / 'upper'},workdir={folder / 'work'}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(folder / "root")], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder / "root")], check=True)


@contextmanager
def installed(folder: Path, config: str) -> Iterator[Machine]:
    """A machine with reflexd and a configuration, to be booted."""
    with debian(folder) as machine:
        machine.chroot(*INSTALL, machine.put(package()))
        (machine.root / CONFIG).write_text(config)
        yield machine


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> float:
    """Wait until it holds; return how long that took, s."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < seconds, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)
    return time.monotonic() - begun
