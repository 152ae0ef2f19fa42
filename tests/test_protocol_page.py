"""The bytes on the protocol's page: other implementations are held to them."""

from __future__ import annotations

import re
from pathlib import Path

import msgpack
import pytest

from daemon.remote import ANSWERS, REQUESTS
from daemon.wire import decode, encode
from docs.protocol import golden_messages

PAGE = (Path(__file__).parents[1] / "docs/protocol.md").read_text()
GOLDEN = dict(re.findall(r"^(\w+): \{.*\}\n([0-9a-f]+)$", PAGE, re.MULTILINE))
PINNED = {
    "hello": "83a474797065ab436c69656e7448656c6c6fa17601a377686fab616461206f6e206465736b",
    "status": "86a474797065a752657175657374a17601a26964b030313233343536373839616263646566a565706f636807aa6578706972"
    "65735f6e73ce77359400a361736b81a474797065a6537461747573",
    "estop": "86a474797065a752657175657374a17601a26964b030313233343536373839616263646566a565706f636807aa6578706972"
    "65735f6e73ce77359400a361736b83a474797065a556616c7665a96f7065726174696f6ea56573746f70a96163747561746f"
    "727391a361726d",
    "done": "87a474797065a55265706c79a17601a26964b030313233343536373839616263646566a6737461747573a4646f6e65a67265"
    "61736f6ea0a664657461696ca0a6726573756c74c0",
}


@pytest.mark.parametrize("name", golden_messages())
def test_the_bytes_on_the_page_are_those_sent_and_do_not_change(name: str) -> None:
    message = golden_messages()[name]
    assert encode(message).hex() == GOLDEN[name] == PINNED[name], "the wire format changed: raise PROTOCOL"


@pytest.mark.parametrize("name", GOLDEN)
def test_any_msgpack_library_reads_and_writes_them(name: str) -> None:
    data = bytes.fromhex(GOLDEN[name])
    topic = ANSWERS if name == "done" else REQUESTS
    assert decode(msgpack.packb(msgpack.unpackb(data)), topic) == golden_messages()[name]


def test_every_message_and_every_ask_is_on_the_page() -> None:
    for name in (
        *(kind.__name__ for topic in (REQUESTS, ANSWERS) for kind in topic.carries),
        *("StreamRecord", "StreamMark", "Valve", "ChangeAgent", "Log", "Backfill", "Picture", "CheckConfig", "Status"),
    ):
        assert f"\n### {name}\n" in PAGE
