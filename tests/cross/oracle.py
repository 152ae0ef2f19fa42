"""What the daemon's own decoders say of the same bytes."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import msgspec

from daemon import package, wire
from daemon.messages import FROM_WORKER, TO_WORKER
from daemon.package import PackageError, read_manifest
from tests.cross.probe import Answer, What

_TOPICS = {"w": TO_WORKER, "d": FROM_WORKER}
_encoder = msgspec.msgpack.Encoder(order="deterministic")
"""Writes a map in the order of its keys, as the C++ side does; else as daemon/wire.py."""


def python_answer(what: What, data: bytes) -> Answer:
    """The same answer as ``Probe.ask`` gives, from ``daemon.wire.decode`` or the schema part of ``read_manifest``."""
    try:
        value = _manifest(data) if what == "m" else wire.decode(data, _TOPICS[what])
    except (wire.WireError, PackageError) as refusal:
        return Answer(False, str(refusal).encode())
    return Answer(True, _encoder.encode(value))


def _manifest(data: bytes) -> package.Manifest:
    with patch.object(package, "_complaints", return_value=()), patch.object(Path, "read_bytes", return_value=data):
        return read_manifest(Path())
