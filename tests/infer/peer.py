"""infer's end of the link to a real worker process, for tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

from daemon.frames import RingWriter
from daemon.infer.link import Link
from daemon.messages import (
    FROM_WORKER,
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
from daemon.package import MANIFEST_FILE, file_sha256
from daemon.views import View
from tests.packages import ACTIONS, HISTORY, PADDING_TOKEN, SIDE, tiny_package
from tests.peers import patience, worker

VIEW = View(SIDE, SIDE, "gray8")
EPOCH = 5
SLOTS = 4
MODEL = "tiny"
"""Loaded from the start: the tiny policy with a stack of two frames."""
RING = "cam"


class Peer:
    """A worker of one kind, and a ring for it."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.kind, self.patience = kind, patience(kind)
        self.rings = folder / "rings"
        self.rings.mkdir()
        self.package = tiny_package(folder / "package", stack=2)
        self.ring = RingWriter(self.rings / RING, VIEW, SLOTS, EPOCH)
        self.socket, theirs = Link.pair()
        command = worker(kind).serve_command(theirs.fileno(), self.rings)
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        self.socket.settimeout(60 * self.patience)
        self.link = Link(self.socket, FROM_WORKER)
        hello = self.link.receive()
        assert isinstance(hello, WorkerHello)
        self.hello = hello

    def end(self) -> int:
        """Close the link; the exit status of the worker."""
        self.link.close()
        self.ring.close()
        try:
            return self.process.wait(timeout=10 * self.patience)
        finally:
            self.process.kill()
            self.process.wait()

    def ask(self, message: Message) -> Message:
        """The next message that is not a line of log."""
        self.link.send(message)
        while isinstance(answer := self.link.receive(), WorkerLog):
            pass
        assert answer is not None
        return answer

    def load(self, model: str, package: Path, threads: int = 1) -> ModelLoaded | RunFailed:
        """Have a package loaded as it is now."""
        answer = self.ask(load_message(model, package, threads))
        assert isinstance(answer, ModelLoaded | RunFailed)
        assert answer.model == model
        return answer

    def run(self, *inputs: InlineTensor | RingFrames, model: str = MODEL) -> RunDone | RunFailed:
        """Have one inference done."""
        answer = self.ask(RunModel(request=7, model=model, inputs=list(inputs)))
        assert isinstance(answer, RunDone | RunFailed)
        assert (answer.request, answer.model) == (7, model)
        return answer

    def refuses(self, data: bytes) -> str:
        """Send bytes the worker must not take; what it says to them."""
        self.socket.send(data)
        answer = self.link.receive()
        assert isinstance(answer, WorkerLog), answer
        assert answer.level == "error"
        assert answer.text.startswith("refused a message: "), answer.text
        return answer.text.removeprefix("refused a message: ")

    def show(self, third: int) -> RingFrames:
        """Put a picture with one bright third into the ring, twice; the frames to ask for."""
        seqs = [self.ring.write(picture(third), n) for n in range(2)][::-1]
        return RingFrames(RING, EPOCH, seqs)

    def works(self) -> None:
        """Assert that the worker is as good as new."""
        for third in range(3):
            assert action(self.run(self.show(third), history())) == ACTIONS[third]


def load_message(model: str, package: Path, threads: int = 1) -> LoadModel:
    """What infer sends for a package it has just verified."""
    manifest = package / MANIFEST_FILE
    pinned = file_sha256(manifest) if manifest.exists() else "0" * 64
    return LoadModel(model=model, package=str(package), manifest_sha256=pinned, threads=threads)


def picture(third: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Dark, with one third of the columns bright."""
    shown = np.zeros(VIEW.shape, np.uint8)
    shown[:, (0, 6, 11)[third] : (5, 10, 16)[third]] = 200
    return shown


def inline(third: int, stack: int = 2) -> InlineTensor:
    """The same, as a tensor."""
    frames = np.stack([picture(third)] * stack)[None]
    return InlineTensor("uint8", list(frames.shape), frames.tobytes())


def history(*tokens: int) -> InlineTensor:
    """These past actions, the newest last."""
    padded = [PADDING_TOKEN] * (HISTORY - len(tokens)) + list(tokens)
    return InlineTensor("int64", [1, HISTORY], np.array(padded, np.int64).tobytes())


def logits(answer: RunDone | RunFailed) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """The output of an inference that went well."""
    assert isinstance(answer, RunDone), answer
    assert answer.forward_ns > 0
    [output] = answer.outputs
    assert output.dtype == "float32"
    return np.frombuffer(output.data, np.float32).reshape(output.shape)


def action(answer: RunDone | RunFailed) -> str:
    """The action chosen."""
    return ACTIONS[int(logits(answer).argmax())]


def failure(answer: Message, reason: str) -> str:
    """The detail of an answer that says why there is no result."""
    assert isinstance(answer, RunFailed), answer
    assert answer.reason == reason, answer
    return answer.detail
