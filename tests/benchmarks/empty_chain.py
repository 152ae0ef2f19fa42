"""The same hops as the daemon's chain, with nothing in them: what the operating system and the libraries cost.

Four processes: a 30 Hz writer of 640x480 frames into the mmap ring with a ZeroMQ descriptor, a relay that passes the
descriptor over a SEQPACKET pair to an echoing worker and the answer on by ZeroMQ, and a last one that stamps the
arrival. No scheduler, no encoding, no model, no valve.
"""

from __future__ import annotations

import json
import os
import socket
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
PAD = b"x" * 130
"""Makes a message as long as the daemon's."""


def subscriber(context: zmq.Context[zmq.Socket[bytes]], address: str) -> zmq.Socket[bytes]:
    found = context.socket(zmq.SUB)
    found.setsockopt(zmq.LINGER, 2000)
    found.setsockopt(zmq.SUBSCRIBE, b"")
    found.connect(address)
    return found


def publisher(context: zmq.Context[zmq.Socket[bytes]], address: str) -> zmq.Socket[bytes]:
    found = context.socket(zmq.PUB)
    found.setsockopt(zmq.LINGER, 2000)
    found.bind(address)
    return found


def write(folder: Path, frames: int) -> None:
    context = zmq.Context()
    ring = RingWriter(folder / "frames", VIEW, 8, epoch=1)
    out = publisher(context, f"ipc://{folder}/frame")
    picture = np.random.default_rng(0).integers(0, 255, VIEW.shape, np.uint8)
    due = time.monotonic()
    for _ in range(frames):
        due += 1 / 30
        time.sleep(max(0.0, due - time.monotonic()))
        now = time.monotonic_ns()
        seq = ring.write(picture, now)
        out.send(STAMP.pack(seq, now) + PAD)
    out.send(b"")
    context.destroy(2000)


def relay(folder: Path) -> None:
    context = zmq.Context()
    out = publisher(context, f"ipc://{folder}/proposal")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, __file__, "work", str(folder), str(theirs.fileno())]
    worker = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    theirs.close()
    ours.recv(16)
    inbox = subscriber(context, f"ipc://{folder}/frame")
    poller = zmq.Poller()
    poller.register(inbox, zmq.POLLIN)
    poller.register(ours.fileno(), zmq.POLLIN)
    print("ready", flush=True)
    while True:
        ready = dict(poller.poll())
        if ours.fileno() in ready:
            out.send(ours.recv(512))
        if inbox in ready:
            message = inbox.recv()
            if not message:
                break
            ours.send(message)
    out.send(b"")
    ours.close()
    worker.wait()
    context.destroy(2000)


def work(folder: Path, descriptor: int) -> None:
    link = socket.socket(fileno=descriptor)
    link.send(b"hello")
    reader: RingReader | None = None
    while message := link.recv(512):
        reader = reader or RingReader(folder / "frames")
        frame = reader.newest()
        assert frame is not None
        reader.pixels(frame)
        try:
            link.send(message)
        except BrokenPipeError:
            break


def finish(folder: Path) -> None:
    context = zmq.Context()
    inbox = subscriber(context, f"ipc://{folder}/proposal")
    applied = publisher(context, f"ipc://{folder}/applied")
    print("ready", flush=True)
    times = []
    while message := inbox.recv():
        now = time.monotonic_ns()
        times.append((now - STAMP.unpack_from(message)[1]) / 1e6)
        applied.send(message)
    context.destroy(2000)
    print(json.dumps(times[15:]), flush=True)


def measure(folder: Path, seconds: float) -> list[float]:
    """Capture to arrival, ms, one per frame."""
    folder.mkdir()
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, __file__, arguments[0], str(folder), *arguments[1:]]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    processes = [start("finish"), start("relay")]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        processes.append(start("write", str(round(seconds * 30))))
        output, _ = processes[0].communicate(timeout=seconds + 20)
        for process in processes:
            process.wait(timeout=5)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    times: list[float] = json.loads(output)
    return times


if __name__ == "__main__":
    role, where = sys.argv[1], Path(sys.argv[2])
    if role == "write":
        write(where, int(sys.argv[3]))
    elif role == "relay":
        relay(where)
    elif role == "work":
        work(where, int(sys.argv[3]))
    else:
        finish(where)
