"""Fixtures of the worker tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from daemon.messages import ModelLoaded
from tests.infer.peer import MODEL, Peer
from tests.peers import KINDS


@pytest.fixture(scope="module", params=KINDS)
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A worker with the model MODEL, of every kind in turn."""
    peer = Peer(tmp_path_factory.mktemp("worker"), request.param)
    try:
        loaded = peer.load(MODEL, peer.package)
        assert isinstance(loaded, ModelLoaded), loaded
        assert 0 < loaded.p50_ms <= loaded.p99_ms
        yield peer
    finally:
        status = peer.end()
    assert status == 0, "a worker ends by itself when infer has gone"
