"""A supervisor in this process over a capture process with a faulty camera, and all it says."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import psutil
import zmq

from daemon.bus import Bus
from daemon.frames import RingError, RingReader
from daemon.messages import Health
from daemon.plan import load
from daemon.runtime import RuntimeFolder
from daemon.supervise import Supervisor
from daemon.table import process_table
from daemon.workers import choose_worker
from tests import stand_in
from tests.capture import faulty
from tests.configs import acting
from tests.infer.manifests import manifest_fields

PATIENCE_S = 40.0
BRIGHTEST = 220
"""The faulty camera's good pictures are darker."""
CONFIG = f"""
[daemon]
name = "test"
runtime = "{{folder}}/run"
state = "{{folder}}/state"
[sources.cam]
kind = "v4l2"
device = "/dev/none"
frozen_frames = 5
{acting("one", "arm")}
"""


class Rig:
    """Everything the processes say, and what has got into the ring.

    Attributes:
        healths: of the capture process, of all its lives.
        stamps: sensor times of the good pictures seen in the ring.
        bad: pictures seen there that should not have got there.
    """

    def __init__(self, folder: Path, fault: str, bus: Bus, runtime: RuntimeFolder, whole: bool) -> None:
        self.folder, self._runtime = folder, runtime
        self.plan = load(folder / "test.toml")
        self._ring = runtime.ring("cam", self.plan.views("cam")[0])
        argv = (sys.executable, faulty.__file__, fault, str(self.plan.path), "cam")
        rows = [
            msgspec.structs.replace(row, argv=argv) if row.identity == "capture@cam" else row
            for row in process_table(self.plan, runtime, choose_worker("auto").kind)
        ]
        if not whole:
            own = [row for row in rows if row.identity == "capture@cam"]
            rows = [*own, stand_in.entry(runtime.folder, "infer", "good")]
        self._poller = zmq.Poller()
        self.lines: list[str] = []
        self.supervisor = Supervisor(rows, bus, self._poller, self.lines.append)
        self.healths: list[Health] = []
        self.stamps: list[int] = []
        self.bad = 0
        self._reader: RingReader | None = None
        self._inode = self._seen_ns = 0

    def until(self, true: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}; {self.lines}; {self.healths[-1:]}"
            for health in self.supervisor.turn(time.monotonic_ns()):
                if health.process == "capture@cam":
                    self.healths.append(health)
            self._look()
            self._poller.poll(10)

    def strike(self) -> None:
        """Let the fault strike, once pictures flow."""
        self.until(lambda: len(self.stamps) > 5, "pictures before the fault")
        (self.folder / "strike").touch()
        self.until(self.struck, "the fault to strike")

    def struck(self) -> int:
        """When the fault struck, CLOCK_MONOTONIC ns; 0 before."""
        path = self.folder / "struck"
        return int(path.read_text() or 0) if path.exists() else 0

    def noticed(self, *states: str) -> int:
        """When the process first said, after the fault, that it was in one of these states; 0 before."""
        found = (h.at_ns for h in self.healths if self.struck() and h.at_ns > self.struck() and h.state in states)
        return next(found, 0)

    def back(self, since_ns: int) -> int:
        """Sensor time of the first picture in the ring after ``since_ns``; 0 before."""
        return next((stamp for stamp in self.stamps if since_ns and stamp > since_ns), 0)

    @property
    def restarts(self) -> int:
        return self.supervisor.watched["capture@cam"].policy.restarts

    @property
    def others_lives(self) -> int:
        return self.supervisor.watched["infer"].policy.starts

    def total(self, key: str) -> int:
        """A counter or a reason of refusal, over all lives of the process."""
        lives: dict[int, int] = {}
        for health in self.healths:
            counted = {**health.counts.get("cam", {}), **health.dropped.get("cam", {})}
            lives[health.pid] = counted.get(key, 0)
        return sum(lives.values())

    def says(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    def _look(self) -> None:
        """The newest picture in the ring."""
        try:
            if self._reader is None or self._ring.stat().st_ino != self._inode:
                self._reader, self._inode = RingReader(self._ring), self._ring.stat().st_ino
        except (OSError, RingError):
            return
        frame = self._reader.newest()
        if frame is None or frame.sensor_ns == self._seen_ns:
            return
        data = self._reader.copy(frame)
        if data is not None:
            is_bad = bool(np.frombuffer(data, np.uint8).min() > BRIGHTEST)
            self.bad += is_bad
            self._seen_ns = frame.sensor_ns
            self.stamps += [] if is_bad else [frame.sensor_ns]


@contextmanager
def rig(folder: Path, fault: str, more: str = "") -> Iterator[Rig]:
    """Run a faulty camera; afterwards everything has ended in time and nothing is left.

    Args:
        folder: for everything.
        fault: one of :mod:`tests.capture.faulty`.
        more: of the configuration; with it the whole daemon runs, on the package that the test has put there.
    """
    if not more:
        (folder / "package").mkdir()
        (folder / "package" / "manifest.json").write_text(json.dumps(manifest_fields()))
    (folder / "test.toml").write_text(CONFIG.format(folder=folder) + more)
    runtime = RuntimeFolder(load(folder / "test.toml").config.daemon)
    runtime.create()
    with Bus(runtime) as bus:
        found = Rig(folder, fault, bus, runtime, bool(more))
        try:
            yield found
        finally:
            began = time.monotonic()
            found.supervisor.shutdown()
            lasted = time.monotonic() - began
    pids = {health.pid for health in found.healths}
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    assert lasted < 2.5, f"stopping took {lasted} s"
