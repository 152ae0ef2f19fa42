"""A slow reader gets the newest frame and not a backlog; a restarted writer is found again."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from daemon.bus import Bus
from daemon.config import Daemon
from daemon.frames import RingWriter
from daemon.infer.source import SourceReader, ViewReader
from daemon.messages import FrameReady
from daemon.runtime import RuntimeFolder
from daemon.views import View

VIEW = View(16, 8, "gray8")
FLOOD = """
import sys, time
import numpy as np
from daemon.bus import Bus
from daemon.config import Daemon
from daemon.frames import RingWriter
from daemon.messages import FrameReady
from daemon.runtime import RuntimeFolder
from daemon.views import View
view = View(16, 8, "gray8")
runtime = RuntimeFolder(Daemon(name="test", runtime=sys.argv[1], state=sys.argv[1] + "/state"))
with Bus(runtime) as bus:
    topic = bus.publisher("frame", "cam")
    ring = RingWriter(runtime.ring("cam", view), view, 8, epoch=1)
    until = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < until:
        now = time.monotonic_ns()
        seq = ring.write(np.zeros(view.shape, np.uint8), now)
        topic.send(FrameReady(view=view.name, epoch=1, seq=seq, sensor_ns=now))
        time.sleep(0.002)
"""


@pytest.fixture
def runtime(run_folder: Path) -> RuntimeFolder:
    folder = RuntimeFolder(Daemon(name="test", runtime=f"{run_folder}/run", state=f"{run_folder}/state"))
    folder.create()
    return folder


@pytest.fixture
def flood(runtime: RuntimeFolder) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", FLOOD, str(runtime.folder), "30"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def reader(runtime: RuntimeFolder, bus: Bus) -> SourceReader:
    views = {VIEW.name: ViewReader(runtime, "cam", VIEW, 4)}
    return SourceReader("cam", bus.subscriber("frame", "cam"), views, 500_000_000)


def wait_for_frame(source: SourceReader, seconds: float = 15.0) -> int:
    until = time.monotonic() + seconds
    while not (found := source.observe(time.monotonic_ns())):
        assert time.monotonic() < until, "no frame"
        time.sleep(0.005)
    assert found[0] == VIEW.name
    return found[1].newest.sensor_ns


def test_a_reader_that_slept_sees_the_newest_frame_first(
    runtime: RuntimeFolder, flood: subprocess.Popen[bytes]
) -> None:
    with Bus(runtime) as bus:
        source = reader(runtime, bus)
        wait_for_frame(source)
        for _ in range(5):
            time.sleep(0.6)
            age_ns = time.monotonic_ns() - wait_for_frame(source)
            assert age_ns < 50e6, f"{age_ns / 1e6:.1f} ms old: a backlog (300 frames were written meanwhile)"


def test_a_stopped_reader_costs_the_writer_nothing(runtime: RuntimeFolder, flood: subprocess.Popen[bytes]) -> None:
    with Bus(runtime) as bus:
        source = reader(runtime, bus)
        wait_for_frame(source)
        writer = psutil.Process(flood.pid)
        time.sleep(1.0)
        before = writer.memory_info().rss
        time.sleep(4.0)
        assert writer.memory_info().rss - before < 1_000_000
        assert len(source.topic.receive()) < 300


def test_a_ring_made_anew_is_followed_and_announcements_of_the_old_are_ignored(runtime: RuntimeFolder) -> None:
    views = ViewReader(runtime, "cam", VIEW, 4)

    def ready(epoch: int, seq: int) -> FrameReady:
        return FrameReady(view=VIEW.name, epoch=epoch, seq=seq, sensor_ns=seq)

    assert views.observe(ready(1, 1)) is None
    old = RingWriter(runtime.ring("cam", VIEW), VIEW, 4, epoch=1)
    for n in range(3):
        old.write(np.zeros(VIEW.shape, np.uint8), n)
    seen = views.observe(ready(1, 1))
    assert seen is not None
    assert [frame.seq for frame in seen.frames] == [3, 2, 1]
    assert views.observe(ready(1, 3)) is None, "the same frame twice"
    new = RingWriter(runtime.ring("cam", VIEW), VIEW, 4, epoch=2)
    new.write(np.zeros(VIEW.shape, np.uint8), 9)
    seen = views.observe(ready(2, 1))
    assert seen is not None
    assert (seen.epoch, seen.newest.seq) == (2, 1)
    assert views.observe(ready(1, 3)) is None
