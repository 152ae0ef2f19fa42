"""Messages to bytes and back, with every limit applied before anything is built from foreign bytes."""

from __future__ import annotations

from typing import Any

import msgpack
import msgspec

from daemon.messages import PROTOCOL, Message, Topic

MAX_ELEMENTS = 1024
"""Elements of any one array or map: bounds what a small hostile message can make the decoder allocate."""


class WireError(ValueError):
    """Bytes that are not a message this link carries; the text says what was expected and what came."""


def encode(message: Message) -> bytes:
    """One msgpack map."""
    packed: bytes = msgpack.packb(msgspec.to_builtins(message, builtin_types=(bytes,)))
    return packed


def decode(data: bytes, topic: Topic) -> Message:
    """Parse and check ``data`` as one of the messages ``topic`` carries.

    Raises:
        WireError: too large, not msgpack, an unknown or unexpected type, another protocol version, a missing or
            ill-typed field, a value outside its declared limits.
    """
    if len(data) > topic.max_bytes:
        raise WireError(f"message of {len(data)} bytes; this link takes {topic.max_bytes} at most")
    fields = _unpack(data, topic.max_bytes)
    kinds = {kind.__name__: kind for kind in topic.carries}
    kind = kinds.get(str(fields.get("type")))
    if kind is None:
        raise WireError(f"message type {fields.get('type')!r:.60}; this link carries {', '.join(kinds)}")
    if fields.get("v") != PROTOCOL:
        raise WireError(f"{kind.__name__}: protocol version {fields.get('v')!r:.20}; this build speaks {PROTOCOL}")
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise WireError(f"{kind.__name__}: {error}") from None


def _unpack(data: bytes, limit: int) -> dict[str, Any]:
    try:
        fields = msgpack.unpackb(
            data,
            max_str_len=limit,
            max_bin_len=limit,
            max_array_len=MAX_ELEMENTS,
            max_map_len=MAX_ELEMENTS,
            max_ext_len=0,
            strict_map_key=True,
        )
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise WireError(f"not a msgpack message: {error or type(error).__name__}") from None
    if not isinstance(fields, dict):
        raise WireError(f"not a msgpack map but {type(fields).__name__}")
    return fields
