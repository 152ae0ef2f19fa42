"""Start, dispatch and reply of one worker, seen from infer's end of the socket pair; 30 requests a second."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from daemon.frames import RingWriter
from daemon.infer.link import Link
from daemon.messages import FROM_WORKER, InlineTensor, ModelLoaded, RingFrames, RunDone, RunModel
from daemon.package import FrameInput, Manifest, read_manifest
from daemon.wire import decode, encode
from daemon.workers import Worker
from tests.benchmarks.native import RATE_HZ
from tests.infer.peer import load_message

EPOCH = 1


class Measured(NamedTuple):
    """Times in ms, one per request where it is a list; memory in MB after the last."""

    first_result: float
    overhead: list[float]
    forward: list[float]
    rss_mb: float


def measure(worker: Worker, package: Path, folder: Path, seconds: float) -> Measured:
    """Start a worker, load the package, run it; ``overhead`` is send to answer less the worker's own forward."""
    folder.mkdir()
    manifest = read_manifest(package)
    ring = RingWriter(folder / "cam", manifest.frame.view, 8, EPOCH)
    ours, theirs = Link.pair()
    ours.settimeout(60)
    began = time.monotonic_ns()
    process = subprocess.Popen(worker.serve_command(theirs.fileno(), folder), pass_fds=[theirs.fileno()])
    theirs.close()
    try:
        link = Link(ours, FROM_WORKER)
        link.receive()
        link.send(load_message("model", package))
        loaded = link.receive()
        assert isinstance(loaded, ModelLoaded), loaded
        pairs, first_ns = [], 0
        due = time.monotonic()
        for number in range(round(seconds * RATE_HZ)):
            pairs.append(_ask(ours, _request(manifest, ring, number)))
            first_ns = first_ns or time.monotonic_ns()
            due += 1 / RATE_HZ
            time.sleep(max(0.0, due - time.monotonic()))
        rss_mb = psutil.Process(process.pid).memory_info().rss / 2**20
        ours.close()
        assert process.wait(timeout=10) == 0
    finally:
        process.kill()
        process.wait()
        ring.close()
    overhead, forward = zip(*pairs[RATE_HZ // 2 :], strict=True)
    return Measured((first_ns - began) / 1e6, list(overhead), list(forward), rss_mb)


def _request(manifest: Manifest, ring: RingWriter, number: int) -> bytes:
    """A request on fresh frames, packed before the clock runs."""
    rng = np.random.default_rng(number)
    inputs: list[InlineTensor | RingFrames] = []
    for spec in manifest.inputs:
        if isinstance(spec, FrameInput):
            picture = rng.integers(0, 256, spec.view.shape, np.uint8)
            seqs = [ring.write(picture, time.monotonic_ns()) for _ in spec.offsets_ms]
            inputs.append(RingFrames("cam", EPOCH, seqs[::-1]))
        else:
            tokens = rng.integers(0, spec.padding_token, spec.shape).astype(spec.dtype)
            inputs.append(InlineTensor(spec.dtype, spec.shape, tokens.tobytes()))
    return encode(RunModel(request=number, model="model", inputs=inputs))


def _ask(link: socket.socket, request: bytes) -> tuple[float, float]:
    began = time.perf_counter_ns()
    link.send(request)
    answer = link.recv(FROM_WORKER.max_bytes)
    whole_ns = time.perf_counter_ns() - began
    done = decode(answer, FROM_WORKER)
    assert isinstance(done, RunDone), done
    return (whole_ns - done.forward_ns) / 1e6, done.forward_ns / 1e6
