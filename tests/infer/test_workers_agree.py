"""One package, one recording, every worker: the same actions, and logits that differ by no more than rounding.

Which kernels run depends on the processor, so each emulated core is a worker of its own. An emulated inference takes a
quarter of a second: a test run shows those workers a part of the recording, ``make parity`` all of it, half an hour
long, and says what it found.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from daemon.frames import RingWriter
from daemon.messages import InlineTensor, ModelLoaded, RingFrames
from daemon.pixels import Pixels
from models.pong.evaluate import eager_logits
from models.pong.play import Disturbance, Episode, Tokens, policy_choice
from models.pong.policy import HISTORY, STACK, VIEW
from tests.infer.peer import EPOCH, Peer, logits
from tests.peers import BUILD_LIMIT_S, EMULATED, KINDS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * BUILD_LIMIT_S)]

PACKAGE = Path(__file__).parents[2] / "models" / "pong" / "package"
FRAMES = 2000
EMULATED_FRAMES = int(os.environ.get("PARITY_FRAMES", "100"))
GAMES = [(5001, Disturbance()), (9001, Disturbance(0.1)), (9002, Disturbance(0.02, 0.25)), (9003, Disturbance(0.3))]
TOLERANCE = 1e-4
"""Largest difference of a logit; two best logits nearer than this may change places, and are listed apart."""


class Observation(NamedTuple):
    """What the policy sees at one decision: ``uint8 [S, height, width]``, ``int64 [HISTORY]``."""

    frames: Pixels
    history: Tokens


@cache
def recording() -> list[Observation]:
    """Decision after decision of games the policy plays itself, undisturbed and disturbed."""
    return [seen for seed, disturbance in GAMES for seen in play(seed, disturbance, FRAMES // len(GAMES))]


def play(seed: int, disturbance: Disturbance, count: int) -> Iterator[Observation]:
    seen: list[Observation] = []

    def watched(frames: Pixels, history: Tokens) -> NDArray[np.float32]:
        seen.append(Observation(frames[0], history[0]))
        return eager_logits()(frames, history)

    episode, choose = Episode(seed, disturbance), policy_choice(watched)
    for _ in range(count):
        episode.step(choose(episode))
        yield seen[-1]


def answers(kind: str, folder: Path, observations: list[Observation]) -> NDArray[np.float32]:
    """A worker's logits, [N, actions]: pictures through the ring, as in a run."""
    peer = Peer(folder, kind)
    try:
        assert isinstance(peer.load("pong", PACKAGE), ModelLoaded)
        ring = RingWriter(peer.rings / "table", VIEW, len(STACK) + 1, EPOCH)
        found = []
        for frames, history in observations:
            seqs = [ring.write(picture, 0) for picture in frames[::-1]][::-1]
            tokens = InlineTensor("int64", [1, HISTORY], history.tobytes())
            found.append(logits(peer.run(RingFrames("table", EPOCH, seqs), tokens, model="pong"))[0])
        return np.array(found)
    finally:
        peer.end()


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> NDArray[np.float32]:
    """What the Python worker answers to the whole recording."""
    return answers("python", tmp_path_factory.mktemp("python"), recording())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "python"])
def test_every_worker_acts_as_the_python_one(kind: str, tmp_path: Path, python: NDArray[np.float32]) -> None:
    count = EMULATED_FRAMES if kind in EMULATED else FRAMES
    every = FRAMES // count
    expected, found = python[::every], answers(kind, tmp_path, recording()[::every])
    error = float(np.abs(found - expected).max())
    best, second = np.sort(expected)[:, :-3:-1].T
    near = np.flatnonzero(best - second <= TOLERANCE)
    others = np.flatnonzero(found.argmax(1) != expected.argmax(1))
    print(f"{kind}: {len(found)} frames, largest difference of a logit {error:.2e}, actions differ in {len(others)}")
    print(f"{kind}: two best logits within {TOLERANCE:g}: frames {(near * every).tolist()}")
    assert len(found) == count
    assert len(set(expected.argmax(1))) > 2, "a recording in which little happens proves little"
    assert error <= TOLERANCE
    assert set(others) <= set(near)
