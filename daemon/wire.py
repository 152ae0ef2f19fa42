"""Messages to bytes and back, with every limit applied before anything is built from foreign bytes."""

from __future__ import annotations

import functools
import operator
from typing import Any

import msgpack
import msgspec

from daemon.messages import PROTOCOL, Message, Topic

MAX_ELEMENTS = 1024
"""Elements of any one array or map looked at to explain a refusal."""

_VERSION_KEY = b"\xa1v"
"""The packed key ``v``: the decoder alone would take a message without a version for one of this version."""


class _Nothing(Message, frozen=True, kw_only=True, tag="nothing"):
    """Makes every link's type a union: a single struct would be accepted without its ``type``."""


_encoder = msgspec.msgpack.Encoder()


class WireError(ValueError):
    """Bytes that are not a message this link carries; the text says what was expected and what came."""


def encode(message: Message) -> bytes:
    """One msgpack map."""
    return _encoder.encode(message)


def decode(data: bytes, topic: Topic) -> Message:
    """Parse and check ``data`` as one of the messages ``topic`` carries.

    The typed decoder builds nothing but the fields declared; what it refuses is then looked at again, for the text.

    Raises:
        WireError: too large, not msgpack, an unknown or unexpected type, another protocol version, a missing or
            ill-typed field, a value outside its declared limits.
    """
    if len(data) > topic.max_bytes:
        raise WireError(f"message of {len(data)} bytes; this link takes {topic.max_bytes} at most")
    try:
        message = _decoder(topic.carries).decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise WireError(_explain(data, topic, str(error))) from None
    if isinstance(message, _Nothing):
        raise WireError(_explain(data, topic, "empty"))
    if message.v != PROTOCOL or _VERSION_KEY not in data:
        raise WireError(_explain(data, topic, _version(message.v)))
    return message


@functools.cache
def _decoder(carries: tuple[type[Message], ...]) -> msgspec.msgpack.Decoder[Message]:
    return msgspec.msgpack.Decoder(functools.reduce(operator.or_, carries, _Nothing))


def _version(found: object) -> str:
    return f"protocol version {found!r:.20}; this build speaks {PROTOCOL}"


def _explain(data: bytes, topic: Topic, error: str) -> str:
    """Why ``data`` was refused, by name; ``error`` is the typed decoder's word."""
    try:
        fields = _unpack(data, topic.max_bytes)
    except (ValueError, msgpack.UnpackException, RecursionError) as failure:
        return f"not a msgpack message: {failure or type(failure).__name__}"
    if not isinstance(fields, dict):
        return f"not a msgpack map but {type(fields).__name__}"
    kinds = [kind.__name__ for kind in topic.carries]
    if fields.get("type") not in kinds:
        return f"message type {fields.get('type')!r:.60}; this link carries {', '.join(kinds)}"
    if fields.get("v") != PROTOCOL:
        return f"{fields['type']}: {_version(fields.get('v'))}"
    return f"{fields['type']}: {error}"


def _unpack(data: bytes, limit: int) -> Any:
    return msgpack.unpackb(
        data,
        max_str_len=limit,
        max_bin_len=limit,
        max_array_len=MAX_ELEMENTS,
        max_map_len=MAX_ELEMENTS,
        max_ext_len=0,
        strict_map_key=True,
    )
