"""What any worker makes of bytes that are not for it: refused by name in a line of log, never a crash or a default."""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgpack
import psutil
import pytest

from daemon.messages import MAX_INLINE, RunDone, RunModel
from daemon.wire import encode
from tests.infer.peer import MODEL, Peer, history, inline, load_message
from tests.peers import BUILD_LIMIT_S, EMULATED, KINDS, patience, worker

pytestmark = pytest.mark.timeout(BUILD_LIMIT_S)


def run_fields() -> dict[str, Any]:
    """A good request, as a map that can be spoilt."""
    fields: dict[str, Any] = msgpack.unpackb(encode(RunModel(request=7, model=MODEL, inputs=[inline(0), history()])))
    return fields


def load_fields() -> dict[str, Any]:
    """A good load, of a folder where nothing is."""
    fields: dict[str, Any] = msgpack.unpackb(encode(load_message("other", Path("/nonexistent"))))
    return fields


def test_a_worker_says_what_it_is(peer: Peer) -> None:
    chosen = worker(peer.kind)
    assert peer.hello.kind == chosen.kind
    assert peer.hello.versions["executorch"] == "1.5.1"
    if peer.kind != "python":
        assert peer.hello.versions["arch"] == ("aarch64" if peer.kind in EMULATED else platform.machine())


HOSTILE = {
    "garbage": (b"\xff" * 50, "not a msgpack"),
    "too long": (b"x" * 140_000, r"message of \d+ bytes; this link takes 131072 at most"),
    "a huge array of nothing": (b"\xdd\xff\xff\xff\xff", "not a msgpack"),
    "deep nesting": (b"\x91" * 100_000, "not a msgpack"),
    "many empty arrays": (b"\xdd" + (100_000).to_bytes(4, "big") + b"\x90" * 100_000, "not a msgpack"),
    "a list": (msgpack.packb([1, 2]), "not a msgpack map"),
    "integer keys": (msgpack.packb({1: 2}), ""),
    "an extension": (b"\xc7\x04\x05abcd", "not a msgpack"),
    "trailing bytes": (encode(RunModel(request=1, model=MODEL, inputs=[history()])) + b"\0", ""),
    "a cut message": (encode(RunModel(request=1, model=MODEL, inputs=[history()]))[:-9], "not a msgpack"),
    "no type": (msgpack.packb({"v": 1}), "message type None; this link carries LoadModel, RunModel"),
    "another type": (
        msgpack.packb({"v": 1, "type": "Dance"}),
        "message type 'Dance'; this link carries LoadModel",
    ),
    "its own answer": (msgpack.packb({"v": 1, "type": "RunDone"}), "message type 'RunDone'; this link carries"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_message_is_refused(peer: Peer, name: str) -> None:
    data, words = HOSTILE[name]
    text = peer.refuses(data)
    assert re.search(words, text), text
    peer.works()


@pytest.mark.parametrize("field", ["request", "model", "inputs"])
def test_a_missing_field_is_refused_by_name(peer: Peer, field: str) -> None:
    fields = run_fields()
    del fields[field]
    assert f"RunModel: Object missing required field `{field}`".lower() in peer.refuses(msgpack.packb(fields)).lower()
    peer.works()


@pytest.mark.parametrize("field", ["model", "package", "manifest_sha256", "threads"])
def test_a_load_that_lacks_a_field_is_refused_by_name(peer: Peer, field: str) -> None:
    fields = load_fields()
    del fields[field]
    assert f"missing required field `{field}`" in peer.refuses(msgpack.packb(fields))
    peer.works()


WRONG: dict[str, dict[str, Any]] = {
    "a request in words": {"request": "seven"},
    "a negative request": {"request": -1},
    "a request of 64 bits": {"request": 2**63},
    "half a request": {"request": 0.5},
    "no request": {"request": None},
    "a model that is no name": {"model": "Not A Name"},
    "a model with a line end": {"model": "tiny\n"},
    "a model in bytes": {"model": b"tiny"},
    "no inputs": {"inputs": []},
    "too many inputs": {"inputs": [{"type": "RingFrames", "ring": "cam", "epoch": 5, "seqs": [1]}] * 17},
    "inputs that are a map": {"inputs": {}},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_field_of_another_kind_or_out_of_its_limits_is_refused_by_name(peer: Peer, name: str) -> None:
    [(field, value)] = WRONG[name].items()
    text = peer.refuses(msgpack.packb(run_fields() | {field: value}))
    assert text.startswith("RunModel: "), text
    assert field in text, text
    peer.works()


TENSORS: dict[str, tuple[dict[str, Any], str]] = {
    "another dtype": ({"dtype": "float16"}, "dtype"),
    "a shape in words": ({"shape": "1x4"}, "shape"),
    "a shape with a zero": ({"shape": [1, 0]}, "shape"),
    "too many axes": ({"shape": [1] * 9}, "shape"),
    "too many bytes": ({"data": bytes(MAX_INLINE + 1)}, "data"),
    "bytes that are text": ({"data": "text"}, "data"),
    "another kind of input": ({"type": "Picture"}, "type"),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_spoilt_tensor_is_refused_by_name(peer: Peer, name: str) -> None:
    change, words = TENSORS[name]
    fields = run_fields()
    fields["inputs"][1] |= change
    text = peer.refuses(msgpack.packb(fields))
    assert text.startswith("RunModel: "), text
    assert words in text or "Picture" in text, text
    assert "inputs" in text, text
    peer.works()


@pytest.mark.parametrize("threads", [0, 65, "one"])
def test_a_load_with_impossible_threads_is_refused_by_name(peer: Peer, threads: Any) -> None:
    assert "threads" in peer.refuses(msgpack.packb(load_fields() | {"threads": threads}))


@pytest.mark.parametrize("version", [2, 0, -1, "1", None])
def test_another_protocol_version_is_refused(peer: Peer, version: Any) -> None:
    text = peer.refuses(msgpack.packb(run_fields() | {"v": version}))
    assert "protocol version" in text, text
    assert "this build speaks 1" in text, text
    peer.works()


def test_fields_added_by_a_later_version_are_ignored(peer: Peer) -> None:
    fields = run_fields()
    fields["added_later"] = {"deep": [1, {"deeper": [b"x", None, 1.5]}]}
    fields["inputs"][0]["also_later"] = 1
    peer.socket.send(msgpack.packb(fields))
    done = peer.link.receive()
    assert isinstance(done, RunDone), done
    assert done.request == 7


def test_signals_meant_for_the_terminal_do_not_end_a_worker(peer: Peer) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(peer.process.pid, number)
    peer.works()


_PARENT = """
import socket, subprocess, sys
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
command = [*sys.argv[1:], "--fd", str(theirs.fileno()), "--rings", "/nonexistent"]
child = subprocess.Popen(command, pass_fds=[theirs.fileno()])
ours.recv(65536)
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_worker_ends_with_its_parent(kind: str) -> None:
    """Its end-of-file reaches only who runs."""
    command = worker(kind).serve_command(0, Path())[:-4]
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, *command], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    try:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.kill(pid, signal.SIGSTOP)
    finally:
        parent.kill()
        parent.communicate()
    until = time.monotonic() + 5 * patience(kind)
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < until, "the worker has outlived its parent"
        time.sleep(0.01)
