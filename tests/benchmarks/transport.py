"""640x480 RGB from one process to another: the ring with descriptors, and what else there is for it.

``measure`` gives the times from capture to reader of paced frames or, at 0 frames a second, of as many as the copy lets
through. Kinds: ``ring`` is the daemon's ring, messages and sockets; ``bare`` the same
ring, copy and looks without descriptors; ``copy`` plain pyzmq; ``iceoryx2`` its shared memory and its events.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import zmq

from daemon.frames import RingReader, RingWriter
from daemon.messages import TOPICS, FrameReady
from daemon.pixels import Pixels
from daemon.views import View
from daemon.wire import decode, encode

VIEW = View(640, 480, "rgb24")
EPOCH, SLOTS = 1, 8
WARM = 10
"""Frames at the start that do not count: everything is new then."""
STAMP_BYTES = 16
WAIT_MS = 5000
CONTEXT: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()


class Sender(Protocol):
    """The writing end of one kind."""

    def send(self, picture: Pixels, now_ns: int) -> None:
        """Send a picture taken now."""


def picture_of(seq: int, picture: Pixels) -> Pixels:
    """Mark a picture with its number, first and last, so that one which is put together of two is seen."""
    picture[0, 0] = picture[-1, -1] = seq % 251
    return picture


class Seen(NamedTuple):
    """A frame as it is handed to its reader, in place; what was made of it counts if it is ``intact`` after use."""

    pixels: Pixels
    sensor_ns: int
    intact: Callable[[], bool]

    @property
    def whole(self) -> bool:
        """Its first and its last pixel are of the same frame."""
        return bool((self.pixels[0, 0] == self.pixels[-1, -1]).all())


def always() -> bool:
    """Nobody writes over this frame."""
    return True


class RingOut:
    """The daemon's way; ``descriptors`` False is the bare ring."""

    def __init__(self, folder: Path, descriptors: bool = True) -> None:
        self._ring = RingWriter(folder / "frames", VIEW, SLOTS, EPOCH)
        self._socket = CONTEXT.socket(zmq.PUB)
        self._socket.setsockopt(zmq.SNDHWM, TOPICS["frame"].queue)
        self._socket.connect(f"ipc://{folder}/frame")
        self._descriptors = descriptors

    def send(self, picture: Pixels, now_ns: int) -> None:
        seq = self._ring.write(picture, now_ns)
        if self._descriptors:
            message = FrameReady(view=VIEW.name, epoch=EPOCH, seq=seq, sensor_ns=now_ns)
            self._socket.send(encode(message), zmq.NOBLOCK)


class CopyOut:
    """Plain pyzmq."""

    def __init__(self, folder: Path) -> None:
        self._socket = CONTEXT.socket(zmq.PUB)
        self._socket.connect(f"ipc://{folder}/frame")

    def send(self, picture: Pixels, now_ns: int) -> None:
        self._socket.send(now_ns.to_bytes(8), zmq.SNDMORE)
        self._socket.send(picture.data)


class Iceoryx:
    """A service of iceoryx2 named after the folder."""

    def __init__(self, folder: Path) -> None:
        import iceoryx2  # it is asked for by one kind only

        self.iox: Any = iceoryx2
        self._node = iceoryx2.NodeBuilder.new().create(iceoryx2.ServiceType.Ipc)
        name = iceoryx2.ServiceName.new(str(folder))
        builder = self._node.service_builder(name)
        self.samples = builder.publish_subscribe(iceoryx2.Slice[ctypes.c_uint8]).open_or_create()
        self.events = self._node.service_builder(name).event().open_or_create()


class IceoryxOut(Iceoryx):
    """Its shared memory: one copy into a loaned sample, and an event."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._publisher = self.samples.publisher_builder().initial_max_slice_len(STAMP_BYTES + VIEW.nbytes).create()
        self._notifier = self.events.notifier_builder().create()

    def send(self, picture: Pixels, now_ns: int) -> None:
        sample = self._publisher.loan_slice_uninit(STAMP_BYTES + VIEW.nbytes)
        at = sample.payload_ptr
        ctypes.c_int64.from_address(at).value = now_ns
        ctypes.memmove(at + STAMP_BYTES, picture.ctypes.data, VIEW.nbytes)
        sample.assume_init().send()
        self._notifier.notify()


class NewFrames:
    """The newest frame of the ring, each once."""

    def __init__(self, folder: Path) -> None:
        self._ring = RingReader(folder / "frames")
        self._last = 0

    def look(self) -> Iterator[Seen]:
        """The newest frame, if it was not the newest before."""
        frame = self._ring.newest()
        if frame is not None and frame.seq != self._last:
            self._last = frame.seq
            yield Seen(self._ring.pixels(frame), frame.sensor_ns, partial(self._ring.intact, frame))


def ring_frames(folder: Path) -> Iterator[Seen]:
    """Each frame that is the newest when it is looked at."""
    inbox = _subscriber(folder)
    frames: NewFrames | None = None
    while inbox.poll(WAIT_MS):
        message = inbox.recv()
        if not message:
            return
        decode(message, TOPICS["frame"])
        frames = frames or NewFrames(folder)
        yield from frames.look()


def bare_frames(folder: Path) -> Iterator[Seen]:
    """The same looks without a word from the writer, as often as they can be had."""
    inbox = _subscriber(folder)
    while not (folder / "frames").exists():
        time.sleep(0.001)
    frames = NewFrames(folder)
    while not inbox.poll(0):  # the end is still announced
        yield from frames.look()


def copied_frames(folder: Path) -> Iterator[Seen]:
    inbox = _subscriber(folder)
    while inbox.poll(WAIT_MS):
        parts = inbox.recv_multipart()
        if len(parts) == 1:
            return
        yield Seen(np.frombuffer(parts[1], np.uint8).reshape(VIEW.shape), int.from_bytes(parts[0]), always)


def iceoryx_frames(folder: Path) -> Iterator[Seen]:
    """Until nothing has come for a second."""
    service = Iceoryx(folder)
    subscriber = service.samples.subscriber_builder().create()
    listener = service.events.listener_builder().create()
    print("ready", flush=True)
    listener.timed_wait(service.iox.Duration.from_millis(WAIT_MS))
    while True:
        while (sample := subscriber.receive()) is not None:
            at = sample.payload_ptr
            data = (ctypes.c_uint8 * VIEW.nbytes).from_address(at + STAMP_BYTES)
            pixels = np.ctypeslib.as_array(data).reshape(VIEW.shape)
            yield Seen(pixels, ctypes.c_int64.from_address(at).value, always)
            sample.delete()
        began = time.monotonic()
        listener.timed_wait(service.iox.Duration.from_millis(1000))
        if time.monotonic() - began > 0.9:
            return


def _subscriber(folder: Path) -> zmq.Socket[bytes]:
    inbox = CONTEXT.socket(zmq.SUB)
    inbox.setsockopt(zmq.SUBSCRIBE, b"")
    inbox.bind(f"ipc://{folder}/frame")
    print("ready", flush=True)
    return inbox


WRITERS: dict[str, Callable[[Path], Sender]] = {
    "ring": RingOut,
    "bare": lambda f: RingOut(f, descriptors=False),
    "copy": CopyOut,
    "iceoryx2": IceoryxOut,
}
READERS = {"ring": ring_frames, "bare": bare_frames, "copy": copied_frames, "iceoryx2": iceoryx_frames}


def write(kind: str, folder: Path, seconds: float, fps: float) -> None:
    """Send frames for a time, ``fps`` of them a second or, at 0, as many as there can be."""
    out = WRITERS[kind](folder)
    picture = np.random.default_rng(0).integers(0, 255, VIEW.shape, np.uint8)
    time.sleep(0.5)  # for the reader to be connected
    end = due = time.monotonic()
    end += seconds
    seq = 0
    while due < end:
        due = due + 1 / fps if fps else time.monotonic()
        time.sleep(max(0.0, due - time.monotonic()))
        seq += 1
        out.send(picture_of(seq, picture), time.monotonic_ns())
    last = CONTEXT.socket(zmq.PUB)
    last.connect(f"ipc://{folder}/frame")
    time.sleep(0.3)
    last.send(b"")
    print(seq, flush=True)
    CONTEXT.destroy(2000)


def read(kind: str, folder: Path) -> None:
    """Print the time of each frame that was intact after use, ms, and how many of these were whole."""
    times, whole = [], 0
    for seen in READERS[kind](folder):
        now_ns, is_whole = time.monotonic_ns(), seen.whole
        if seen.intact():
            times.append((now_ns - seen.sensor_ns) / 1e6)
            whole += is_whole
    print(json.dumps([times, whole]), flush=True)
    CONTEXT.destroy(0)


class Found(NamedTuple):
    """What a reader got: capture to reader, ms, of each frame; how many were whole; frames written."""

    times: list[float]
    whole: int
    written: int


def measure(kind: str, folder: Path, seconds: float, fps: float = 30.0) -> Found:
    """Frames of one kind from a process to another; ``fps`` 0 is flat out."""
    folder.mkdir()
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, __file__]
    reader = subprocess.Popen([*command, "read", kind, str(folder)], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert reader.stdout is not None
        reader.stdout.readline()
        writer = [*command, "write", kind, str(folder), str(seconds), str(fps)]
        done = subprocess.run(
            writer, env=environment, check=True, timeout=seconds + 20, stdout=subprocess.PIPE, text=True
        )
        output, _ = reader.communicate(timeout=10)
    finally:
        reader.kill()
        reader.communicate()
    times, whole = json.loads(output)
    return Found(times, whole, int(done.stdout))


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], Path(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))
    else:
        read(sys.argv[2], Path(sys.argv[3]))
