"""A real worker process over its real link: right answers, and an answer with names to everything that is wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daemon.frames import RingWriter
from daemon.infer.link import Link, LinkClosed
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
from daemon.package import MANIFEST_FILE, MODEL_FILE, file_sha256
from daemon.views import View
from tests.packages import ACTIONS, HISTORY, PADDING_TOKEN, SIDE, tiny_package

VIEW = View(SIDE, SIDE, "gray8")
EPOCH = 5
MODEL = "tiny"


class Peer:
    """infer's end of the link."""

    def __init__(self, folder: Path) -> None:
        self.rings = folder / "rings"
        self.rings.mkdir()
        self.package = tiny_package(folder / "package", stack=2)
        self.ring = RingWriter(self.rings / "cam", VIEW, 4, EPOCH)
        self.socket, theirs = Link.pair()
        command = [
            sys.executable,
            "-m",
            "daemon.infer.worker",
            "--fd",
            str(theirs.fileno()),
            "--rings",
            str(self.rings),
        ]
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        self.socket.settimeout(60)
        self.link = Link(self.socket, FROM_WORKER)
        assert isinstance(self.link.receive(), WorkerHello)

    def load(self, model: str, package: Path) -> LoadModel:
        manifest = package / MANIFEST_FILE
        pinned = file_sha256(manifest) if manifest.exists() else "0" * 64
        return LoadModel(model=model, package=str(package), manifest_sha256=pinned, threads=1)

    def ask(self, message: Message) -> Message | None:
        self.link.send(message)
        return self.link.receive()

    def run(self, *inputs: InlineTensor | RingFrames, model: str = MODEL) -> RunDone | RunFailed:
        answer = self.ask(RunModel(request=7, model=model, inputs=list(inputs)))
        assert isinstance(answer, RunDone | RunFailed)
        assert (answer.request, answer.model) == (7, model)
        return answer

    def show(self, third: int) -> RingFrames:
        """Put a picture with one bright third into the ring, twice; the frames to ask for."""
        picture = np.zeros(VIEW.shape, np.uint8)
        picture[:, (0, 6, 11)[third] : (5, 10, 16)[third]] = 200
        seqs = [self.ring.write(picture, n) for n in range(2)][::-1]
        return RingFrames("cam", EPOCH, seqs)


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    peer = Peer(tmp_path_factory.mktemp("worker"))
    try:
        loaded = peer.ask(peer.load(MODEL, peer.package))
        assert isinstance(loaded, ModelLoaded)
        assert 0 < loaded.p50_ms <= loaded.p99_ms
        yield peer
    finally:
        peer.link.close()
        assert peer.process.wait(timeout=10) == 0, "a worker ends by itself when infer has gone"


def history(*tokens: int) -> InlineTensor:
    padded = [PADDING_TOKEN] * (HISTORY - len(tokens)) + list(tokens)
    return InlineTensor("int64", [1, HISTORY], np.array(padded, np.int64).tobytes())


@pytest.mark.parametrize("third", range(3))
def test_frames_from_the_ring_and_history_give_the_right_action(peer: Peer, third: int) -> None:
    done = peer.run(peer.show(third), history(1))
    assert isinstance(done, RunDone)
    assert done.forward_ns > 0
    logits = np.frombuffer(done.outputs[0].data, np.float32)
    assert ACTIONS[int(logits.argmax())] == ACTIONS[third]


def test_inline_frames_give_the_same_as_frames_in_the_ring(peer: Peer) -> None:
    frames = peer.show(2)
    picture = np.zeros((1, 2, SIDE, SIDE), np.uint8)
    picture[..., 11:16] = 200
    inline = InlineTensor("uint8", [1, 2, SIDE, SIDE], picture.tobytes())
    one, two = peer.run(frames, history()), peer.run(inline, history())
    assert isinstance(one, RunDone)
    assert isinstance(two, RunDone)
    assert one.outputs == two.outputs


def tensor(dtype: Any, *shape: int) -> InlineTensor:
    array = np.zeros(shape, dtype)
    return InlineTensor(str(array.dtype), list(shape), array.tobytes())  # type: ignore[arg-type]


WRONG: dict[str, tuple[list[InlineTensor], str]] = {
    "float frames": ([tensor(np.float32, 1, 2, SIDE, SIDE), history()], r"frames: expected uint8 .* got float32"),
    "HWC": ([tensor(np.uint8, 1, SIDE, SIDE, 2), history()], r"expected uint8 \[1, 2, 16, 16\], got uint8"),
    "no batch": ([tensor(np.uint8, 2, SIDE, SIDE), history()], r"got uint8 \[2, 16, 16\]"),
    "wrong size": ([tensor(np.uint8, 1, 2, 8, 8), history()], r"got uint8 \[1, 2, 8, 8\]"),
    "int32 history": ([tensor(np.uint8, 1, 2, SIDE, SIDE), tensor(np.int32, 1, HISTORY)], r"history: expected int64"),
    "swapped": ([history(), tensor(np.uint8, 1, 2, SIDE, SIDE)], r"frames: expected uint8"),
    "missing input": ([tensor(np.uint8, 1, 2, SIDE, SIDE)], "expected 2 inputs, got 1"),
    "short bytes": ([InlineTensor("uint8", [1, 2, SIDE, SIDE], b"\0"), history()], "1 bytes are not uint8"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_inputs_are_named_and_do_no_harm(peer: Peer, name: str) -> None:
    inputs, words = WRONG[name]
    failed = peer.run(*inputs)
    assert isinstance(failed, RunFailed)
    assert failed.reason == "malformed"
    assert re.search(words, failed.detail), failed.detail
    assert isinstance(peer.run(peer.show(0), history()), RunDone)


def test_frames_that_are_gone_are_torn(peer: Peer) -> None:
    old = peer.show(0)
    for _ in range(3):
        peer.show(1)
    failed = peer.run(old, history())
    assert isinstance(failed, RunFailed)
    assert failed.reason == "torn"


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        (RingFrames("cam", EPOCH + 1, [8, 7]), "torn"),
        (RingFrames("none", EPOCH, [8, 7]), "torn"),
        (RingFrames("../../etc/passwd", EPOCH, [8, 7]), "torn"),
        (RingFrames("cam", EPOCH, [2**62]), "malformed"),
        (RingFrames("cam", EPOCH, [2**62, 2**62 - 1]), "torn"),
    ],
)
def test_impossible_frames_are_refused(peer: Peer, frames: RingFrames, reason: str) -> None:
    peer.show(0)
    failed = peer.run(frames, history())
    assert isinstance(failed, RunFailed)
    assert failed.reason == reason
    assert isinstance(peer.run(peer.show(0), history()), RunDone)


def test_an_unknown_model_and_a_bad_package_are_answered(peer: Peer, tmp_path: Path) -> None:
    failed = peer.run(peer.show(0), history(), model="other")
    assert isinstance(failed, RunFailed)
    assert "other is not loaded" in failed.detail
    failed_load = peer.ask(peer.load("bad", tmp_path))
    assert isinstance(failed_load, RunFailed)
    assert (failed_load.request, failed_load.reason) == (0, "model_error")
    assert "manifest" in failed_load.detail


def test_only_what_was_verified_is_loaded(peer: Peer, tmp_path: Path) -> None:
    package = tiny_package(tmp_path / "changed", stack=2)
    verified = peer.load("changed", package)
    weights = bytearray((package / MODEL_FILE).read_bytes())
    weights[len(weights) // 2] ^= 1
    (package / MODEL_FILE).write_bytes(weights)
    failed = peer.ask(verified)
    assert isinstance(failed, RunFailed)
    assert "sha256" in failed.detail
    (package / MANIFEST_FILE).write_text((package / MANIFEST_FILE).read_text() + " ")
    failed = peer.ask(verified)
    assert isinstance(failed, RunFailed)
    assert "not the verified one" in failed.detail


def test_garbage_on_the_link_is_answered_by_a_log_line(peer: Peer) -> None:
    for garbage in (b"\xff" * 50, b"x" * 140_000):
        peer.socket.send(garbage)
        answer = peer.link.receive()
        assert isinstance(answer, WorkerLog)
        assert "refused a message" in answer.text
    assert isinstance(peer.run(peer.show(0), history()), RunDone)


def test_a_closed_link_is_said_so() -> None:
    ours, theirs = Link.pair()
    theirs.close()
    link = Link(ours, FROM_WORKER)
    with pytest.raises(LinkClosed):
        link.receive()
    with pytest.raises(LinkClosed):
        link.send(RunModel(request=1, model="m", inputs=[history()]))
    link.close()
