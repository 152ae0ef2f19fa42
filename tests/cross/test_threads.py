"""Threads are each model's own setting, within the one pool that a worker has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.messages import ModelLoaded, RunFailed
from tests.infer.peer import MODEL, Peer
from tests.peers import BUILD_LIMIT_S

pytestmark = pytest.mark.timeout(BUILD_LIMIT_S + 300)


@pytest.fixture(params=["native"])
def peer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Peer]:
    peer = Peer(tmp_path, request.param)
    yield peer
    assert peer.end() == 0


def threads(peer: Peer) -> int:
    return len(list(Path(f"/proc/{peer.process.pid}/task").iterdir()))


def test_models_of_one_thread_and_of_several_live_side_by_side(peer: Peer) -> None:
    assert isinstance(peer.load(MODEL, peer.package), ModelLoaded)
    assert threads(peer) == 1
    assert isinstance(peer.load("wide", peer.package, threads=3), ModelLoaded)
    assert threads(peer) == 3
    peer.works()
    assert isinstance(peer.load("wide-too", peer.package, threads=3), ModelLoaded)
    assert threads(peer) == 3


def test_a_pool_in_use_is_not_made_anew(peer: Peer) -> None:
    """It would be freed under the models that hold it."""
    assert isinstance(peer.load("two", peer.package, threads=2), ModelLoaded)
    refused = peer.load("three", peer.package, threads=3)
    assert isinstance(refused, RunFailed)
    assert "threads: 3 asked for, but models of this worker share a pool of 2" in refused.detail
    assert isinstance(peer.load(MODEL, peer.package), ModelLoaded)
    assert threads(peer) == 2
    peer.works()


def test_a_pool_nobody_uses_takes_another_size(peer: Peer, tmp_path: Path) -> None:
    assert isinstance(peer.load("three", tmp_path / "none", threads=3), RunFailed)
    assert isinstance(peer.load(MODEL, peer.package, threads=2), ModelLoaded)
    assert threads(peer) == 2
    peer.works()
