"""Bytes nobody should send, on the sockets everybody can reach: counted, answered where due, and nothing moves."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import psutil
import pytest
import zmq

from daemon.commander import command
from daemon.messages import DESKS, REPLIES, CommandReply, Hello, Welcome
from daemon.wire import decode, encode
from tests.actuate.running import Peer, Setup, make_setup, running

GOOD: dict[str, Any] = {
    "type": "ActionProposal", "v": 1, "agent": "high", "sensor_ns": 0, "frame_seq": 1, "action": "JUMP",
}  # fmt: skip

FLOODER = """
import sys, zmq
socket = zmq.Context().socket(zmq.PUB)
socket.connect(sys.argv[1])
while True:
    socket.send(b"\\x81" * 200)
"""


def changed(**changes: Any) -> bytes:
    """A proposal of just now with one thing wrong."""
    fields = {**GOOD, "sensor_ns": time.monotonic_ns(), **changes}
    return bytes(msgpack.packb({key: value for key, value in fields.items() if value is not ...}))


HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "zero bytes": b"\0" * 100,
    "random": bytes(range(256)) * 4,
    "huge array header": b"\xdd\xff\xff\xff\xff",
    "huge map header": b"\xdf\xff\xff\xff\xff",
    "huge string header": b"\xdb\xff\xff\xff\xff",
    "deep nesting": b"\x91" * 4000,
    "many empty containers": b"\x90" * 4000,
    "pickle": pickle.dumps({"type": "ActionProposal"}),
    "not a map": bytes(msgpack.packb([1, 2, 3])),
    "integer keys": bytes(msgpack.packb({1: 2})),
    "two messages in one": changed() * 2,
    "truncated": changed()[:-1],
    "another type": changed(type="Applied"),
    "no type": changed(type=...),
    "another version": changed(v=2),
    "agent missing": changed(agent=...),
    "sensor time missing": changed(sensor_ns=...),
    "agent too long": changed(agent="a" * 65),
    "action too long": changed(action="J" * 65),
    "action as bytes": changed(action=b"JUMP"),
    "negative time": changed(sensor_ns=-1),
    "time as float": changed(sensor_ns=1.5),
    "time as bool": changed(sensor_ns=True),
    "time beyond 63 bits": changed(sensor_ns=2**63),
    "confidence as text": changed(confidence="1"),
    "values as text": changed(values="0.5"),
    "too many values": changed(values=[0.0] * 33),
}
"""Refused by the link, and counted there."""

WELL_FORMED: dict[str, tuple[dict[str, Any], str]] = {
    "foreign agent": ({"agent": "stranger"}, "foreign"),
    "agent that is a path": ({"agent": "../../etc"}, "foreign"),
    "agent with a line end": ({"agent": "high\n"}, "foreign"),
    "agent of no letters": ({"agent": ""}, "foreign"),
    "NaN confidence": ({"confidence": float("nan")}, "nonfinite"),
    "NaN values": ({"action": None, "values": [float("nan")]}, "malformed"),
    "values to an actuator of actions": ({"values": [0.5]}, "malformed"),
    "no action": ({"action": None}, "malformed"),
    "unknown action": ({"action": "EXPLODE"}, "unknown_action"),
    "sensor time 0": ({"sensor_ns": 0}, "stale"),
    "sensor time of another clock": ({"sensor_ns": 2**62}, "stale"),
}
"""Understood by the link, refused by the arbiter or the valve."""


@contextlib.contextmanager
def raw(setup: Setup, kind: int, topic: str) -> Iterator[zmq.Socket[bytes]]:
    """A socket without any of the daemon's manners."""
    context = zmq.Context()
    socket: zmq.Socket[bytes] = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(setup.runtime.endpoint(topic, "paddle"))
    try:
        yield socket
    finally:
        socket.close()
        context.term()


def refused_by(peer: Peer, link: str) -> int:
    return peer.health.counts.get("links", {}).get(link, 0) if peer.health else 0


def test_hostile_proposals(tmp_path: Path) -> None:
    setup = make_setup(tmp_path)
    with running(setup) as (process, peer), raw(setup, zmq.PUB, "proposal") as socket:
        memory = psutil.Process(process.pid).memory_info().rss

        def linked() -> bool:
            socket.send(b"")
            return refused_by(peer, "proposal@paddle") > 0

        peer.wait(linked, "count of the first refused message")
        command(setup.runtime, "paddle", "arm", 3000)
        peer.wait(lambda: peer.health and peer.health.detail.startswith("armed"), "armed")
        before = refused_by(peer, "proposal@paddle")
        for data in HOSTILE.values():
            socket.send(data)
        peer.wait(lambda: refused_by(peer, "proposal@paddle") >= before + len(HOSTILE), "count of every message")
        for name, (changes, reason) in WELL_FORMED.items():
            known = len(peer.refused)
            socket.send(changed(**changes))
            peer.wait(lambda known=known: len(peer.refused) > known, name)  # type: ignore[misc]
            assert (name, peer.refused[-1].reason) == (name, reason)
        socket.send(b"x" * 1_000_000)
        assert setup.causes() == ["start"]
        assert process.poll() is None
        assert psutil.Process(process.pid).memory_info().rss - memory < 64 * 2**20
        peer.propose("JUMP")
        peer.wait(lambda: peer.applied and peer.applied[-1].action == "JUMP", "applied JUMP after all that")


def test_hostile_commands(tmp_path: Path) -> None:
    setup = make_setup(tmp_path)
    with running(setup) as (process, peer), raw(setup, zmq.DEALER, "command") as socket:
        for data in HOSTILE.values():
            socket.send(data)
        socket.send_multipart([b"", encode(Hello())])
        peer.wait(lambda: refused_by(peer, "command@paddle") >= len(HOSTILE) + 1, "count of every message")
        assert socket.poll(50) == 0, "nothing of that is answered"
        assert process.poll() is None
        assert command(setup.runtime, "paddle", "status", 3000).state.startswith("disarmed")
        with raw(setup, zmq.DEALER, "command") as huge:
            huge.send(b"x" * (DESKS["command"].max_bytes + REPLIES.max_bytes))
        assert command(setup.runtime, "paddle", "status", 3000).status == "done"
        assert setup.causes() == ["start"]


def test_commands_late_twice_or_for_another_life(tmp_path: Path) -> None:
    setup = make_setup(tmp_path)
    with running(setup), raw(setup, zmq.DEALER, "command") as socket:

        def ask(data: bytes) -> Any:
            socket.send(data)
            assert socket.poll(3000)
            return decode(socket.recv(), REPLIES)

        welcome = ask(encode(Hello()))
        assert isinstance(welcome, Welcome)

        def order(**changes: Any) -> CommandReply:
            fields = {
                "type": "Command", "v": 1, "id": "command-1", "epoch": welcome.epoch, "who": "a test",
                "expires_ns": welcome.now_ns + 5_000_000_000, "operation": "arm", **changes,
            }  # fmt: skip
            reply = ask(msgpack.packb(fields))
            assert isinstance(reply, CommandReply)
            return reply

        assert order(id="an-old-one", expires_ns=welcome.now_ns).status == "refused"
        assert order(id="other-life", epoch=welcome.epoch + 1).status == "refused"
        assert order().status == "done"
        assert order(id="command-2", operation="disarm").status == "done"
        assert order().status == "done", "the same answer as before"
        assert order(id="command-3", operation="status").state.startswith("disarmed"), "but it ran once"


@pytest.mark.parametrize("flooders", [2])
def test_a_flood_does_not_hold_up_the_deadman(tmp_path: Path, flooders: int) -> None:
    setup = make_setup(tmp_path, deadman_ms=250.0)
    with running(setup) as (_, peer), contextlib.ExitStack() as stack:
        command(setup.runtime, "paddle", "arm", 3000)
        peer.propose("JUMP")
        peer.wait(lambda: peer.applied and peer.applied[-1].action == "JUMP", "applied JUMP")
        for _ in range(flooders):
            argv = [sys.executable, "-c", FLOODER, setup.runtime.endpoint("proposal", "paddle")]
            process = subprocess.Popen(argv, env=os.environ)
            stack.callback(process.wait)
            stack.callback(process.kill)

        def flooded() -> bool:
            peer.propose("JUMP")
            return refused_by(peer, "proposal@paddle") > 1000

        peer.wait(flooded, "flood", 10.0)
        peer.wait(lambda: any(one.cause == "deadman" for one in peer.applied), "dead-man")
        gap_ns = peer.applied[-1].applied_ns - peer.applied[-2].applied_ns
        assert gap_ns < 500_000_000
        assert command(setup.runtime, "paddle", "estop", 3000).status == "done"
