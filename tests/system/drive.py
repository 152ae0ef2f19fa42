"""The driving policy, learned from a real drive by the commands of its page, and a daemon that replays the drive."""

from __future__ import annotations

import functools
import re
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from daemon.bus import Bus
from daemon.frames import RingError, RingReader
from daemon.messages import Applied, Health
from daemon.plan import load
from daemon.runtime import RuntimeFolder
from models.drive.tub import view
from tests.actuate.pins import Trace
from tests.packages import shared_folder
from tests.system.game import REFLEXD, ROOT, START_SECONDS

DRIVE = ROOT / "models" / "drive"
ARCHIVE = ROOT.parent / "shared" / "fixtures" / "donkeycar_tub.tar.gz"
NEEDS_DRIVE = pytest.mark.skipif(
    not ARCHIVE.exists(), reason="needs the recorded drive ../shared/fixtures/donkeycar_tub.tar.gz"
)
PIN = 18
MODEL_TIME_S = 400
"""For learning and exporting on a busy machine; a quiet one takes a minute."""


@functools.cache
def tub() -> Path:
    """The recorded drive, unpacked: a thousand pictures at 20 Hz."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(shared_folder() / "drive", filter="data")
    return shared_folder() / "drive" / "tub"


def page_commands(heading: str) -> list[str]:
    """The commands below a heading of the policy's page, for bash, with this machine's paths in them."""
    section = (DRIVE / "README.md").read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    paths = {"path/to/tub": tub(), "my-car": tub().with_name("model"), ".venv/bin": Path(sys.executable).parent}
    for word, path in paths.items():
        block = block.replace(word, str(path))
    return [line for line in block.splitlines() if line.strip()]


@functools.cache
def model() -> Path:
    """The model folder: learned, exported, with ``drive.toml`` as it is tried without a car."""
    for command in [*page_commands("Train and export, on the host"), *page_commands("Try it without a car")[:-1]]:
        done = subprocess.run(
            ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=MODEL_TIME_S, check=False
        )
        assert done.returncode == 0, f"{command}:\n{done.stderr}"
    return tub().with_name("model")


class Replay:
    """A daemon that replays the drive, what its actuator was told, and the pictures in its ring.

    Attributes:
        told: all that was applied, in order.
        pictures: bytes of the model's view by the frame's number, of the first life of ``capture``.
    """

    def __init__(self, config: Path, process: subprocess.Popen[str], bus: Bus, trace: Trace) -> None:
        self.process, self.trace = process, trace
        self.runtime = RuntimeFolder(load(config).config.daemon)
        self.told: list[Applied] = []
        self.pictures: dict[int, bytes] = {}
        self._log = config.with_name("log")
        self._applied = bus.subscriber("applied", "steering")
        self._health = bus.subscriber("health", "infer")
        self._worker = 0
        self._ring: RingReader | None = None

    def look(self) -> None:
        """Take in what has happened."""
        self.told += [message for message in self._applied.receive() if isinstance(message, Applied)]
        for message in self._health.receive():
            if isinstance(message, Health):
                self._worker = message.children.get("worker0", 0)
        self._look_at_pictures()

    def _look_at_pictures(self) -> None:
        try:
            self._ring = self._ring or RingReader(self.runtime.ring("front", view()))
        except RingError:
            return
        newest = self._ring.newest()
        if newest is not None and newest.seq not in self.pictures:
            data = self._ring.copy(newest)
            if data is not None:
                self.pictures[newest.seq] = data

    def until(self, condition: Callable[[], bool], what: str, within_s: float = START_SECONDS) -> None:
        """Look until ``condition`` holds."""
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, f"no {what} within {within_s} s; log:\n{self._log.read_text()}"
            self.look()
            time.sleep(0.005)

    def decisions(self, since_ns: int = 0) -> list[Applied]:
        """Decisions of the policy that were carried out."""
        return [one for one in self.told if one.cause == "proposal" and one.applied_ns > since_ns]

    def wait_for_decisions(self, count: int) -> None:
        """Look until so many more decisions have been carried out."""
        now_ns = time.monotonic_ns()
        self.until(lambda: len(self.decisions(now_ns)) >= count, f"{count} decisions")

    def pid(self, process: str) -> int:
        """Pid of ``run``, ``worker0`` or one of the processes by its identity."""
        if process == "worker0":
            self.until(lambda: self._worker > 0, "word of a worker")
            return self._worker
        return self.process.pid if process == "run" else int(self.runtime.lock(process).read_text())

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20.0)


@contextmanager
def replay(folder: Path, trace: Trace) -> Iterator[Replay]:
    """Run ``drive.toml`` with folders below ``folder``; afterwards nothing of it is left running."""
    config = replay_config(folder)
    RuntimeFolder(load(config).config.daemon).create()
    with (folder / "log").open("w") as log, Bus(RuntimeFolder(load(config).config.daemon)) as bus:
        command = [REFLEXD, "run", str(config), "--plain"]
        process = subprocess.Popen(command, stderr=log, text=True, stdin=subprocess.DEVNULL)
        try:
            yield Replay(config, process, bus, trace)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
                try:
                    process.wait(10.0)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def replay_config(folder: Path) -> Path:
    """``drive.toml`` as the page's commands leave it, with its model and its folders by their full paths."""
    changes = {
        'name = "drive"': f'name = "drive"\nruntime = "{folder}/run"\nstate = "{folder}/state"',
        'path = "tub"': f'path = "{model()}/tub"',
        'package = "package"': f'package = "{model()}/package"',
    }
    text = (model() / "drive.toml").read_text()
    for line, changed in changes.items():
        assert text.count(f"\n{line}\n") == 1, line
        text = text.replace(f"\n{line}\n", f"\n{changed}\n")
    (folder / "drive.toml").write_text(text)
    return folder / "drive.toml"
