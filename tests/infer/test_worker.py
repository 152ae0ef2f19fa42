"""Every kind of worker, a real process over its real link: right answers, and names for every input that is wrong."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daemon.frames import RingWriter
from daemon.infer.link import Link, LinkClosed
from daemon.messages import FROM_WORKER, MAX_INLINE, InlineTensor, ModelLoaded, RingFrames, RunDone, RunModel
from daemon.views import View
from tests.infer.peer import (
    EPOCH,
    RING,
    SLOTS,
    VIEW,
    Peer,
    action,
    failure,
    history,
    inline,
    logits,
    picture,
)
from tests.packages import ACTIONS, HISTORY, SIDE, tiny_package
from tests.peers import BUILD_LIMIT_S

pytestmark = pytest.mark.timeout(BUILD_LIMIT_S)


@pytest.mark.parametrize("third", range(3))
def test_frames_from_the_ring_and_history_give_the_right_action(peer: Peer, third: int) -> None:
    assert action(peer.run(peer.show(third), history(1))) == ACTIONS[third]


def test_inline_frames_give_the_same_as_frames_in_the_ring(peer: Peer) -> None:
    one, two = peer.run(peer.show(2), history()), peer.run(inline(2), history())
    np.testing.assert_array_equal(logits(one), logits(two))


def test_requests_are_answered_in_their_order(peer: Peer) -> None:
    for request in range(20):
        peer.link.send(RunModel(request=request, model="tiny", inputs=[inline(request % 3), history()]))
    for request in range(20):
        done = peer.link.receive()
        assert isinstance(done, RunDone)
        assert done.request == request
        assert action(done) == ACTIONS[request % 3]


def test_one_frame_is_read_where_it_lies(peer: Peer, tmp_path: Path) -> None:
    assert isinstance(peer.load("one", tiny_package(tmp_path / "one")), ModelLoaded)
    for third in range(3):
        frames = RingFrames(RING, EPOCH, peer.show(third).seqs[:1])
        from_ring, sent = peer.run(frames, history(2), model="one"), peer.run(inline(third, 1), history(2), model="one")
        assert action(from_ring) == ACTIONS[third]
        np.testing.assert_array_equal(logits(from_ring), logits(sent))


def test_an_inline_tensor_of_the_largest_size(peer: Peer, tmp_path: Path) -> None:
    tall = tiny_package(tmp_path / "tall", height=MAX_INLINE // SIDE)
    assert isinstance(peer.load("tall", tall), ModelLoaded)
    frames = np.repeat(picture(2)[:1], MAX_INLINE // SIDE, axis=0)[None, None]
    largest = InlineTensor("uint8", list(frames.shape), frames.tobytes())
    assert len(largest.data) == MAX_INLINE
    assert action(peer.run(largest, history(), model="tall")) == "RIGHT"


def test_outputs_that_are_not_numbers_are_not_hidden(peer: Peer, tmp_path: Path) -> None:
    """Refusing them is the decoder's business: here they must only not become numbers."""
    assert isinstance(peer.load("nan", tiny_package(tmp_path / "nan", nan_when_bright=True)), ModelLoaded)
    bright = InlineTensor("uint8", [1, 1, SIDE, SIDE], b"\xff" * SIDE * SIDE)
    assert np.isfinite(logits(peer.run(inline(1, 1), history(), model="nan"))).all()
    assert np.isnan(logits(peer.run(bright, history(), model="nan"))).all()


# --- inputs that do not fit ---


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
    "one too many": ([tensor(np.uint8, 1, 2, SIDE, SIDE), history(), history()], "expected 2 inputs, got 3"),
    "short bytes": ([InlineTensor("uint8", [1, 2, SIDE, SIDE], b"\0"), history()], "1 bytes are not uint8"),
    "a scalar": ([InlineTensor("uint8", [], b"\0"), history()], r"got uint8 \[\]"),
    "a shape of 2^248": ([InlineTensor("uint8", [2**31 - 1] * 8, b"\0"), history()], "1 bytes are not uint8"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_inputs_are_named_and_do_no_harm(peer: Peer, name: str) -> None:
    inputs, words = WRONG[name]
    detail = failure(peer.run(*inputs), "malformed")
    assert re.search(words, detail), detail
    peer.works()


def test_a_token_out_of_the_vocabulary_does_no_harm(peer: Peer) -> None:
    """An embedding has no such row: refused by the runtime, or a number of no meaning; never a crash."""
    for token in (1000, -1000, 2**62):
        answer = peer.run(inline(0), history(token))
        assert isinstance(answer, RunDone) or answer.reason == "model_error"
    peer.works()


# --- frames that are not there ---


def test_frames_that_are_gone_are_torn(peer: Peer) -> None:
    old = peer.show(0)
    for _ in range(3):
        peer.show(1)
    assert "no longer there" in failure(peer.run(old, history()), "torn")


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        (RingFrames(RING, EPOCH + 1, [8, 7]), "torn"),
        (RingFrames("none", EPOCH, [8, 7]), "torn"),
        (RingFrames("../../etc/passwd", EPOCH, [8, 7]), "torn"),
        (RingFrames("", EPOCH, [8, 7]), "torn"),
        (RingFrames("..", EPOCH, [8, 7]), "torn"),
        (RingFrames(RING, EPOCH, [2**62]), "malformed"),
        (RingFrames(RING, EPOCH, [2**62, 2**62 - 1]), "torn"),
        (RingFrames(RING, EPOCH, [2**63 - 1, 0]), "torn"),
    ],
)
def test_impossible_frames_are_refused(peer: Peer, frames: RingFrames, reason: str) -> None:
    peer.show(0)
    failure(peer.run(frames, history()), reason)
    peer.works()


def test_frames_of_a_model_without_history_do_not_fit_its_history(peer: Peer) -> None:
    frames = peer.show(0)
    failure(peer.run(frames, frames), "malformed")
    peer.works()


def test_a_ring_made_anew_is_mapped_anew(peer: Peer) -> None:
    writer = RingWriter(peer.rings / "renewed", VIEW, SLOTS, 1)
    for epoch, third in ((1, 0), (2, 2)):
        if epoch > 1:
            writer = RingWriter(peer.rings / "renewed", VIEW, SLOTS, epoch)
        seqs = [writer.write(picture(third), n) for n in range(2)][::-1]
        assert action(peer.run(RingFrames("renewed", epoch, seqs), history())) == ACTIONS[third]
    assert "made anew" in failure(peer.run(RingFrames("renewed", 1, seqs), history()), "torn")
    assert action(peer.run(RingFrames("renewed", 2, seqs), history())) == "RIGHT"
    writer.close()


def test_a_ring_of_another_view_does_not_fit(peer: Peer) -> None:
    other = View(SIDE, 2 * SIDE, "gray8")
    writer = RingWriter(peer.rings / "wide", other, SLOTS, EPOCH)
    seqs = [writer.write(np.zeros(other.shape, np.uint8), n) for n in range(2)][::-1]
    assert "wide" in failure(peer.run(RingFrames("wide", EPOCH, seqs), history()), "malformed")
    writer.close()


@pytest.mark.parametrize("content", [b"", b"RFXRING\0" + bytes(100), bytes(8192), b"RFXRING\0" + b"\xff" * 8192])
def test_a_file_that_is_no_ring_is_refused(peer: Peer, content: bytes) -> None:
    (peer.rings / "spoilt").write_bytes(content)
    assert "spoilt" in failure(peer.run(RingFrames("spoilt", EPOCH, [2, 1]), history()), "torn")
    peer.works()


@pytest.fixture(scope="module")
def slow(peer: Peer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model whose inference takes long enough for its frame to be overwritten meanwhile."""
    assert isinstance(peer.load("slow", tiny_package(tmp_path_factory.mktemp("slow") / "p", burn=24)), ModelLoaded)
    return "slow"


def test_a_frame_overwritten_while_it_is_used_gives_no_result(peer: Peer, slow: str) -> None:
    """Read in place, it is looked at again after the inference; the writer strikes at every moment of it."""
    details: set[str] = set()
    rng = np.random.default_rng(1)
    until = time.monotonic() + 20 * peer.patience
    while not any("while in use" in detail for detail in details):
        assert time.monotonic() < until, details
        [seq, _] = peer.show(2).seqs
        strike = threading.Timer(rng.uniform(0, 0.003 * peer.patience), lambda: [peer.show(0) for _ in range(SLOTS)])
        strike.start()
        answer = peer.run(RingFrames(RING, EPOCH, [seq]), history(), model=slow)
        strike.join()
        if isinstance(answer, RunDone):
            assert action(answer) == "RIGHT", "a result of a frame that was no longer this one"
        else:
            details.add(failure(answer, "torn"))
    peer.works()


# --- the link itself ---


def test_a_closed_link_is_said_so() -> None:
    ours, theirs = Link.pair()
    theirs.close()
    link = Link(ours, FROM_WORKER)
    with pytest.raises(LinkClosed):
        link.receive()
    with pytest.raises(LinkClosed):
        link.send(RunModel(request=1, model="m", inputs=[history()]))
    link.close()
