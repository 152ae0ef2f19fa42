"""640x480 RGB at 30 Hz from one process to another: the ring with a descriptor, and plain pyzmq copying."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import zmq

from daemon.frames import RingReader, RingWriter
from daemon.views import View

VIEW = View(640, 480, "rgb24")
STAMP = struct.Struct("<qq")


def write(kind: str, folder: Path, frames: int) -> None:
    context = zmq.Context()
    out = context.socket(zmq.PUB)
    out.setsockopt(zmq.LINGER, 2000)
    out.connect(f"ipc://{folder}/{kind}")
    ring = RingWriter(folder / "frames", VIEW, 4, epoch=1)
    picture = np.random.default_rng(0).integers(0, 255, VIEW.shape, np.uint8)
    time.sleep(0.3)
    due = time.monotonic()
    for n in range(frames):
        due += 1 / 30
        time.sleep(max(0.0, due - time.monotonic()))
        now = time.monotonic_ns()
        if kind == "ring":
            out.send(STAMP.pack(ring.write(picture, now), now))
        else:
            out.send(STAMP.pack(n, now), zmq.SNDMORE)
            out.send(picture.data)
    out.send(b"")
    context.destroy(2000)


def read(kind: str, folder: Path) -> None:
    context = zmq.Context()
    inbox = context.socket(zmq.SUB)
    inbox.setsockopt(zmq.LINGER, 2000)
    inbox.setsockopt(zmq.SUBSCRIBE, b"")
    inbox.bind(f"ipc://{folder}/{kind}")
    print("ready", flush=True)
    inbox.poll(0)
    reader: RingReader | None = None
    times = []
    while message := inbox.recv_multipart():
        if not message[0]:
            break
        if kind == "ring":
            reader = reader or RingReader(folder / "frames")
            frame = reader.newest()
            assert frame is not None
            pixels = reader.pixels(frame)
            assert reader.intact(frame)
        else:
            pixels = np.frombuffer(message[1], np.uint8).reshape(VIEW.shape)
        now = time.monotonic_ns()
        assert pixels.shape == VIEW.shape
        times.append((now - STAMP.unpack(message[0])[1]) / 1e6)
    context.destroy(2000)
    print(json.dumps(times[10:]), flush=True)


def measure(kind: str, folder: Path, seconds: float) -> list[float]:
    """Capture to reader, ms, one per frame."""
    folder.mkdir()
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, __file__]
    reader = subprocess.Popen([*command, "read", kind, str(folder)], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert reader.stdout is not None
        reader.stdout.readline()
        frames = str(round(seconds * 30))
        writer = [*command, "write", kind, str(folder), frames]
        subprocess.run(writer, env=environment, check=True, timeout=seconds + 20)
        output, _ = reader.communicate(timeout=10)
    finally:
        reader.kill()
        reader.communicate()
    times: list[float] = json.loads(output)
    return times


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        read(sys.argv[2], Path(sys.argv[3]))
