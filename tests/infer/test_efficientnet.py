"""A real network of 18 MB in every kind of worker: it sees what is in two pictures, here and on an emulated core."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from daemon.frames import RingWriter
from daemon.messages import ModelLoaded, RingFrames
from tests.efficientnet import VIEW, efficientnet_package, known_pictures
from tests.infer.peer import EPOCH, SLOTS, Peer, logits
from tests.peers import BUILD_LIMIT_S, EMULATED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(BUILD_LIMIT_S)]

KINDS = ["python", "native", *EMULATED[1:2]]
"""One emulated core has to do: an inference takes it five seconds, and a load a dozen of them."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return efficientnet_package(tmp_path_factory.mktemp("lite0") / "package")


@pytest.fixture(scope="module", params=KINDS)
def seeing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, package: Path) -> Iterator[Peer]:
    """A worker that has the network."""
    peer = Peer(tmp_path_factory.mktemp("worker"), request.param)
    try:
        loaded = peer.load("lite0", package, threads=2)
        assert isinstance(loaded, ModelLoaded), loaded
        print(f"{peer.kind}: loaded in {loaded.load_ms:.0f} ms, forward p50 {loaded.p50_ms:.2f} ms")
        yield peer
    finally:
        peer.end()


@pytest.mark.parametrize("name", known_pictures())
def test_a_picture_read_from_the_ring_has_its_class(seeing: Peer, name: str) -> None:
    picture, number = known_pictures()[name]
    ring = RingWriter(seeing.rings / name, VIEW, SLOTS, EPOCH)
    found = logits(seeing.run(RingFrames(name, EPOCH, [ring.write(picture, 0)]), model="lite0"))[0]
    ring.close()
    assert found.argmax() == number
    assert np.sort(found)[-1] - np.sort(found)[-2] > 1.0
