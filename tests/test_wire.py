"""Messages on the wire: golden bytes, and refusal by name of everything else."""

from __future__ import annotations

import contextlib
import json
import pickle
import resource
from pathlib import Path
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon import messages
from daemon.messages import TOPICS, ActionProposal, FrameReady, Message
from daemon.wire import WireError, decode, encode

ALL = [*TOPICS.values(), *messages.DESKS.values(), messages.REPLIES, messages.TO_WORKER, messages.FROM_WORKER]

GOLDEN_FILE = Path(__file__).parent / "golden" / "messages.json"
"""Message name to its bytes, hexadecimal: what the native worker's decoder is held to as well."""

SAMPLES: list[Message] = [
    messages.Hello(),
    FrameReady(view="a", epoch=1, seq=2, sensor_ns=3, after=4),
    ActionProposal(agent="one", sensor_ns=1, frame_seq=2, values=[0.5], confidence=0.25),
    messages.Applied(seq=1, applied_ns=2, cause="deadman", action="STAY"),
    messages.Refused(agent="one", reason="stale", detail="old", sensor_ns=1, refused_ns=2),
    messages.Output(seq=1, sent_ns=2, frame_seq=3, action="UP"),
    messages.Health(process="infer", pid=1, state="running", progress=2, at_ns=3, dropped={"a": {"stale": 1}}),
    messages.Welcome(epoch=1, now_ns=2),
    messages.Command(id="12345678", epoch=1, expires_ns=2, operation="estop", who="me"),
    messages.AgentCommand(id="12345678", epoch=1, expires_ns=2, agent="a", change="rate", value=5.0, who="me"),
    messages.CommandReply(id="12345678", status="done", detail="", state="armed"),
    messages.RunModel(request=1, model="m", inputs=[messages.RingFrames("r", 1, [1])]),
    messages.RunDone(request=1, model="m", outputs=[messages.InlineTensor("float32", [1, 1], b"\0" * 4)], forward_ns=1),
    messages.RunFailed(request=1, model="m", reason="torn", detail=""),
    messages.LoadModel(model="m", package="/p", manifest_sha256="0" * 64, threads=1),
    messages.ModelLoaded(model="m", load_ms=1.0, p50_ms=0.1, p99_ms=0.2),
    messages.WorkerHello(kind="python", versions={"torch": "2"}),
    messages.WorkerLog(level="info", text="x"),
    messages.WorldState(tick=1, at_ns=2, points=[1, 2], finished=[], over=False, in_force="NOOP", late=0),
]


@pytest.mark.parametrize("message", SAMPLES, ids=lambda m: type(m).__name__)
def test_golden_bytes(message: Message) -> None:
    golden = json.loads(GOLDEN_FILE.read_text())
    assert golden[type(message).__name__] == encode(message).hex(), "the wire format changed: raise PROTOCOL"


def test_every_message_has_golden_bytes() -> None:
    carried = {kind.__name__ for topic in ALL for kind in topic.carries}
    assert carried == set(json.loads(GOLDEN_FILE.read_text()))


@pytest.mark.parametrize("message", SAMPLES, ids=lambda m: type(m).__name__)
def test_round_trip_and_every_damage_is_refused_by_name(message: Message) -> None:
    topic = next(t for t in ALL if type(message) in t.carries)
    assert decode(encode(message), topic) == message
    fields: dict[str, Any] = msgpack.unpackb(encode(message))
    name = type(message).__name__
    for field in msgspec.structs.fields(message):
        if field.required:
            with pytest.raises(WireError, match=f"{name}: Object missing required field `{field.name}`"):
                decode(msgpack.packb({k: v for k, v in fields.items() if k != field.name}), topic)
        if field.name != "v":
            with pytest.raises(WireError, match=rf"{name}: Expected .* at `\$\.{field.name}"):
                decode(msgpack.packb(fields | {field.name: {"unexpected": []}}), topic)
    assert decode(msgpack.packb(fields | {"added_later": 1}), topic) == message
    with pytest.raises(WireError, match="protocol version None; this build speaks 1"):
        decode(msgpack.packb({key: value for key, value in fields.items() if key != "v"}), topic)
    for odd in ("nothing", None, 5):
        with pytest.raises(WireError, match=f"message type {odd!r}; this link carries"):
            decode(msgpack.packb(fields | {"type": odd}), topic)
    with pytest.raises(WireError, match="message type None; this link carries"):
        decode(msgpack.packb({key: value for key, value in fields.items() if key != "type"}), topic)
    with pytest.raises(WireError, match="protocol version 2; this build speaks 1"):
        decode(msgpack.packb(fields | {"v": 2}), topic)
    with pytest.raises(WireError, match="message type 'Other'; this link carries"):
        decode(msgpack.packb(fields | {"type": "Other"}), topic)


HOSTILE = {
    "nothing": b"",
    "a huge array of nothing": b"\xdd\xff\xff\xff\xff",
    "deep nesting": b"\x91" * 200_000,
    "shallow limit, deep nesting": b"\x91" * 4000,
    "millions of empty arrays": b"\xdd" + (5_000_000).to_bytes(4, "big") + b"\x90" * 5_000_000,
    "a pickle": pickle.dumps({"type": "FrameReady"}),
    "integer keys": msgpack.packb({1: 2}),
    "a list": msgpack.packb([1, 2]),
    "an extension": b"\xc7\x04\x05abcd",
    "trailing bytes": encode(SAMPLES[0]) + b"\0",
    "two maps": encode(SAMPLES[0]) * 2,
}


@pytest.mark.parametrize("topic", ALL, ids=lambda t: t.carries[0].__name__)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_are_refused_cheaply(name: str, topic: messages.Topic) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(WireError):
        decode(HOSTILE[name], topic)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


@given(st.binary(max_size=300))
def test_random_bytes_never_do_anything_else(data: bytes) -> None:
    for topic in ALL:
        with pytest.raises(WireError):
            decode(data, topic)


@given(st.data())
def test_flipped_bytes_give_a_message_or_a_refusal(data: st.DataObject) -> None:
    message = data.draw(st.sampled_from(SAMPLES))
    packed = bytearray(encode(message))
    packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    topic = next(t for t in ALL if type(message) in t.carries)
    with contextlib.suppress(WireError):
        assert isinstance(decode(bytes(packed), topic), topic.carries)
