"""Orders: ids behind the gateway."""

from __future__ import annotations

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from daemon.gateway.clients import Client
from daemon.gateway.orders import _inner_id
from daemon.messages import NAME_PATTERN, CommandId
from daemon.remote import Request, Status

NAMES = st.from_regex(NAME_PATTERN)
IDS = st.text(min_size=8, max_size=36)
LONG = "a" * 31


def inner(name: str, identity: str) -> str:
    request = Request(id=identity, epoch=1, expires_ns=1, ask=Status())
    return msgspec.convert(_inner_id(Client(name, "operate", False), request), CommandId)


@given(NAMES, NAMES, IDS, IDS)
@example(LONG + "1", LONG + "2", "i" * 36, "i" * 36)
def test_no_two_requests_have_one_id_behind_the_gateway(name: str, other: str, first: str, second: str) -> None:
    assert (inner(name, first) == inner(other, second)) == ((name, first) == (other, second))
