"""The Python inference worker: ``python -m daemon.infer.worker --fd N --rings FOLDER``, a child of infer.

It reads frames from the rings itself, runs one inference at a time and answers every request, if only with why
there is no result. The native worker speaks the same messages.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import logging
import math
import signal
import socket
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

from daemon.frames import RingError, RingReader
from daemon.infer.link import Link, LinkClosed
from daemon.infer.runtime import Array, LoadedModel, RuntimeFailure, set_threads
from daemon.infer.runtime_log import captured
from daemon.messages import (
    TO_WORKER,
    InlineTensor,
    LoadModel,
    Message,
    ModelLoaded,
    RingFrames,
    RunDone,
    RunFailed,
    RunModel,
    WorkerHello,
    WorkerLog,
)
from daemon.package import (
    MANIFEST_FILE,
    FrameInput,
    Manifest,
    PackageError,
    file_sha256,
    read_goldens,
    read_manifest,
    verify_files,
)
from daemon.process import configure_logging
from daemon.wire import WireError

logger = logging.getLogger(__name__)

WARM_BATCHES, WARM_RUNS, WARM_SECONDS = 5, (5, 60), 0.1
"""After a load: batches of inferences, the least and the most in one, and how long one may take beyond the least.
The first real inference is then not the slow one. The calmest batch counts as the latency: what else the machine
does while it starts is not the model's, and a set of agents must not be refused for it."""
_PR_SET_PDEATHSIG = 1


class FrameStack:
    """Reads the frames of one model's requests from the rings."""

    def __init__(self, rings: Path, spec: FrameInput) -> None:
        self._rings, self._spec = rings, spec
        self._readers: dict[str, RingReader] = {}
        self._stack = np.empty((len(spec.offsets_ms), *spec.view.shape), np.uint8)

    def read(self, frames: RingFrames) -> Array:
        """The input tensor: one frame in place, or several copied into one stack.

        Raises:
            RuntimeFailure: ``torn`` when a frame is no longer in the ring, ``malformed`` when the ring has
                another view or the request another number of frames.
        """
        reader = self._reader(frames)
        if len(frames.seqs) != len(self._stack):
            raise RuntimeFailure("malformed", f"expected {len(self._stack)} frames, got {len(frames.seqs)}")
        found = [reader.find(seq) for seq in frames.seqs]
        whole = [frame for frame in found if frame is not None]
        if len(whole) < len(found):
            raise RuntimeFailure("torn", f"frames {frames.seqs} of {frames.ring} are no longer there")
        if len(whole) == 1:
            return reader.pixels(whole[0]).reshape(self._spec.shape)
        for place, frame in zip(self._stack, whole, strict=True):
            place[...] = reader.pixels(frame)
        self.check(frames)
        return self._stack.reshape(self._spec.shape)

    def check(self, frames: RingFrames) -> None:
        """Raise RuntimeFailure ``torn`` unless the frames are still what they were."""
        reader = self._readers[frames.ring]
        if any(reader.find(seq) is None for seq in frames.seqs):
            raise RuntimeFailure("torn", f"frames {frames.seqs} of {frames.ring} were overwritten while in use")

    def _reader(self, frames: RingFrames) -> RingReader:
        reader = self._readers.get(frames.ring)
        if reader is None or reader.epoch != frames.epoch:
            try:
                reader = RingReader(self._rings / Path(frames.ring).name)
            except RingError as error:
                raise RuntimeFailure("torn", str(error)) from None
            if reader.epoch != frames.epoch:
                raise RuntimeFailure("torn", f"ring {frames.ring} was made anew")
            if reader.view.shape != self._spec.view.shape:
                raise RuntimeFailure("malformed", f"{frames.ring}: {reader.view.shape}, not {self._spec.view.shape}")
            self._readers[frames.ring] = reader
        return reader


class Model:
    """A loaded package and its frame reading."""

    def __init__(self, message: LoadModel, rings: Path) -> None:
        self.name, package = message.model, Path(message.package)
        found = file_sha256(package / MANIFEST_FILE)
        if found != message.manifest_sha256:
            raise PackageError(f"{package}: the manifest is not the verified one any more: start infer anew")
        self.manifest: Manifest = read_manifest(package)
        verify_files(package, self.manifest)
        self._package = package
        self._loaded = LoadedModel(package, self.manifest)
        self._frames = FrameStack(rings, self.manifest.frame)

    def warm_up(self) -> list[float]:
        """Run the first golden over and over; forward times in ms of the calmest batch, sorted."""
        inputs = next(read_goldens(self._package, self.manifest))[0]
        batches = [self._batch(inputs) for _ in range(WARM_BATCHES)]
        return min(batches, key=lambda times: times[len(times) * 99 // 100])

    def _batch(self, inputs: list[Array]) -> list[float]:
        until = time.monotonic() + WARM_SECONDS
        times: list[float] = []
        while len(times) < WARM_RUNS[0] or (len(times) < WARM_RUNS[1] and time.monotonic() < until):
            times.append(self._timed(inputs)[1] / 1e6)
        return sorted(times)

    def run(self, request: RunModel) -> RunDone:
        """One inference.

        Raises:
            RuntimeFailure: why there is no result.
        """
        inputs = [self._frames.read(i) if isinstance(i, RingFrames) else _array(i) for i in request.inputs]
        outputs, forward_ns = self._timed(inputs)
        for i in request.inputs:
            if isinstance(i, RingFrames) and len(i.seqs) == 1:
                self._frames.check(i)
        tensors = [
            InlineTensor(spec.dtype, list(output.shape), output.tobytes())
            for spec, output in zip(self.manifest.outputs, outputs, strict=True)
        ]
        return RunDone(request=request.request, model=self.name, outputs=tensors, forward_ns=forward_ns)

    def _timed(self, inputs: list[Array]) -> tuple[list[Array], int]:
        began = time.monotonic_ns()
        outputs = self._loaded.forward(inputs)
        return outputs, time.monotonic_ns() - began


class Worker:
    """Answers the messages of one infer."""

    def __init__(self, rings: Path) -> None:
        self._rings = rings
        self._models: dict[str, Model] = {}

    def answer(self, message: Message) -> Message:
        """The reply to one message."""
        if isinstance(message, LoadModel):
            return self._load(message)
        assert isinstance(message, RunModel)  # noqa: S101 - the link accepts nothing else
        try:
            return self._model(message.model).run(message)
        except RuntimeFailure as failure:
            detail = failure.detail[:512]
            return RunFailed(request=message.request, model=message.model, reason=failure.reason, detail=detail)

    def _load(self, message: LoadModel) -> Message:
        began = time.monotonic()
        log: list[str] = []
        try:
            with captured(log):
                set_threads(message.threads)
                model = Model(message, self._rings)
                loaded = time.monotonic()
                times = model.warm_up()
        except (RuntimeFailure, OSError, ValueError) as failure:
            detail = "; ".join([str(failure), *log])[:512]
            return RunFailed(request=0, model=message.model, reason="model_error", detail=detail)
        self._models[message.model] = model
        gc.collect()
        gc.freeze()
        return ModelLoaded(
            model=message.model,
            load_ms=(loaded - began) * 1e3,
            p50_ms=times[len(times) // 2],
            p99_ms=times[len(times) * 99 // 100],
        )

    def _model(self, name: str) -> Model:
        if name not in self._models:
            raise RuntimeFailure("model_error", f"model {name} is not loaded in this worker")
        return self._models[name]


def _array(tensor: InlineTensor) -> Array:
    dtype = np.dtype(tensor.dtype)
    if len(tensor.data) != math.prod(tensor.shape) * dtype.itemsize:
        raise RuntimeFailure("malformed", f"{len(tensor.data)} bytes are not {tensor.dtype} {tensor.shape}")
    return np.frombuffer(tensor.data, dtype).reshape(tensor.shape)


def main() -> None:
    """Serve until infer closes its end."""
    parser = argparse.ArgumentParser(description="Inference worker of reflexd's infer; not started by hand.")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--rings", type=Path, required=True)
    arguments = parser.parse_args()
    # A stopped worker would outlive a killed infer: its end-of-file reaches only who runs.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    configure_logging("worker")
    link = Link(socket.socket(fileno=arguments.fd), TO_WORKER)
    worker = Worker(arguments.rings)
    versions = {name: version(name) for name in ("torch", "executorch", "numpy")}
    try:
        link.send(WorkerHello(kind="python", versions=versions | {"python": sys.version.split()[0]}))
        while True:
            link.send(_next_answer(link, worker))
    except LinkClosed:
        return


def _next_answer(link: Link, worker: Worker) -> Message:
    try:
        message = link.receive()
    except WireError as error:
        return WorkerLog(level="error", text=f"refused a message: {error}"[:512])
    assert message is not None  # noqa: S101 - this end blocks
    return worker.answer(message)


if __name__ == "__main__":
    main()
