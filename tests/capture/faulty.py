"""A capture process whose camera fails in a chosen way: ``faulty.py FAULT CONFIG SOURCE``.

The camera is a live one, 30 pictures of noise a second with right stamps. The first time it is opened, the fault
strikes as soon as there is a file ``strike`` beside the configuration; the file ``struck`` then says when it did. Bad
pictures are white, so that a test sees them wherever they get to.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event

import numpy as np

from daemon.capture.devices import present
from daemon.capture.ladder import OutOfMemory, Step, go_down, pool_text, steps
from daemon.capture.pace import Pace
from daemon.capture.raw import Plane, RawPicture, packed
from daemon.capture.service import Capture
from daemon.capture.source import SourceFailed
from daemon.pixels import Pixels
from daemon.process import main

WIDTH, HEIGHT = 32, 24
PERIOD_NS = 33_333_333
FOR_EVER_S = 3600.0
BRIEF_S = 0.8
WHITE = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)


class FaultyCamera:
    """See the module's text."""

    late = 0

    def __init__(self, folder: Path, fault: str, stop: Event) -> None:
        self.folder, self._pace, self._stop = folder, Pace(stop), stop
        self.note = OPENINGS[fault](folder) if fault in OPENINGS else ""
        with (folder / "openings").open("a") as file:
            file.write("x")
        self._fault = FAULTS.get(fault) if (folder / "openings").stat().st_size == 1 else None
        self._rng = np.random.default_rng(os.getpid())
        self.last_ns = 0
        self.since_ns = 0

    def read(self) -> RawPicture | None:
        now_ns = self._pace.wait(PERIOD_NS)
        if self._stop.is_set():
            return None
        if self._fault is not None and (self.since_ns or (self.folder / "strike").exists()):
            if not self.since_ns:
                self.since_ns = now_ns
                (self.folder / "struck").write_text(str(now_ns))
            return self._fault(self, now_ns)
        return self.good(now_ns)

    def good(self, now_ns: int) -> RawPicture:
        self.last_ns = now_ns
        return packed(self.noise(), now_ns)

    def noise(self) -> Pixels:
        return self._rng.integers(0, 200, (HEIGHT, WIDTH, 3), dtype=np.uint8)

    def bright(self) -> Pixels:
        return self._rng.integers(240, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)

    def close(self) -> None:
        pass


def blocks(camera: FaultyCamera, now_ns: int) -> RawPicture:
    time.sleep(FOR_EVER_S)
    return camera.good(now_ns)


def blocks_briefly(camera: FaultyCamera, now_ns: int) -> RawPicture:
    if now_ns < camera.since_ns + PERIOD_NS // 2:
        time.sleep(BRIEF_S)
    return camera.good(time.monotonic_ns())


def wedges(camera: FaultyCamera, now_ns: int) -> RawPicture:
    """Blocks in a call that keeps the interpreter's lock, as a bad binding does: nothing in this process goes on."""
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
    ctypes.PyDLL(None).sleep(int(FOR_EVER_S))
    return camera.good(now_ns)


def crashes(camera: FaultyCamera, now_ns: int) -> RawPicture:
    signal.raise_signal(signal.SIGKILL)
    return camera.good(now_ns)


def raises(number: int, camera: FaultyCamera, now_ns: int) -> RawPicture:
    raise OSError(number, os.strerror(number))


def always_raises(camera: FaultyCamera, now_ns: int) -> RawPicture:
    (camera.folder / "openings").unlink()  # the next opening is the first again
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def repeats_the_buffer(camera: FaultyCamera, now_ns: int) -> RawPicture:
    return packed(WHITE, now_ns)


def repeats_the_stamp(camera: FaultyCamera, now_ns: int) -> RawPicture:
    return packed(camera.bright(), camera.last_ns)


def goes_back(camera: FaultyCamera, now_ns: int) -> RawPicture:
    return packed(WHITE, camera.last_ns - 40_000_000)


def reads_the_wall_clock(camera: FaultyCamera, now_ns: int) -> RawPicture:
    return packed(camera.bright(), time.time_ns())


def is_empty(camera: FaultyCamera, now_ns: int) -> RawPicture:
    return packed(WHITE, now_ns)._replace(planes=(Plane(b"", WIDTH * 3),))


def is_half_written(camera: FaultyCamera, now_ns: int) -> RawPicture:
    return packed(WHITE, now_ns)._replace(planes=(Plane(WHITE.tobytes()[: WHITE.nbytes // 2], WIDTH * 3),))


def ends_the_thread(camera: FaultyCamera, now_ns: int) -> RawPicture:
    raise ZeroDivisionError(f"a mistake in a source, in thread {threading.current_thread().name}")


Fault = Callable[[FaultyCamera, int], RawPicture]
FAULTS: dict[str, Fault] = {
    "blocks": blocks,
    "blocks_briefly": blocks_briefly,
    "wedges": wedges,
    "crashes": crashes,
    "io_error": partial(raises, errno.EIO),
    "unplugged": partial(raises, errno.ENODEV),
    "always_io_error": always_raises,
    "repeats_the_buffer": repeats_the_buffer,
    "repeats_the_stamp": repeats_the_stamp,
    "goes_back": goes_back,
    "reads_the_wall_clock": reads_the_wall_clock,
    "is_empty": is_empty,
    "is_half_written": is_half_written,
    "ends_the_thread": ends_the_thread,
}


def by_stable_path(folder: Path) -> str:
    """As a real camera does it; the test moves the link ``by-id``."""
    node = present(str(folder / "by-id"))
    return f"opened {node.name}"


def out_of_memory(enough: int, folder: Path) -> str:
    """Memory for ``enough`` buffers only; the pool's size is the test's."""

    def configure(step: Step) -> None:
        if step.buffers > enough:
            raise OutOfMemory

    first, meminfo = Step(4, WIDTH, HEIGHT), folder / "meminfo"
    step = go_down(steps(first, may_shrink=True), configure, meminfo)
    return f"short of camera memory: {step} instead of {first}; {pool_text(meminfo)}" if step != first else ""


def busy(folder: Path) -> str:
    if (folder / "busy").exists():
        raise SourceFailed("/dev/camera is busy")
    return ""


OPENINGS: dict[str, Callable[[Path], str]] = {
    "unplugged": by_stable_path,
    "memory_for_two": partial(out_of_memory, 2),
    "no_memory": partial(out_of_memory, 0),
    "busy": busy,
}


if __name__ == "__main__":
    chosen, config = sys.argv[1], Path(sys.argv[2])

    def open_source(stop: Event) -> FaultyCamera:
        return FaultyCamera(config.parent, chosen, stop)

    status = main("capture", partial(Capture, open_source=open_source), sys.argv[2:])
    os._exit(status)
