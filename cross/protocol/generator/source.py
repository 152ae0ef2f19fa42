"""The text of ``protocol.cpp``: reading each struct with every check that is declared, and writing it."""

from __future__ import annotations

from cross.protocol.generator.header import encoded_structs
from cross.protocol.generator.patterns import pattern_check
from cross.protocol.generator.reading import Reading
from cross.protocol.generator.types import Enumeration, Types, snake
from cross.protocol.generator.writing import encoder, struct_writer
from daemon.messages import FROM_WORKER, TO_WORKER, Topic

_OPENING = """\
// Made by cross/protocol/generate.py from daemon/messages.py, daemon/package.py and daemon/frames.py: change those.
#include "protocol.hpp"

#include <algorithm>
#include <bitset>

#include "message.hpp"
#include "reading.hpp"
#include "writing.hpp"

namespace reflexd::protocol {
"""
_DECODE_MANIFEST = """\
Manifest decode_manifest(std::span<const std::byte> data) {
  const std::vector<Token> tokens = manifest_tokens(data);
  return read_manifest(Value(tokens, 0), Path());
}
"""


def source_text(types: Types) -> str:
    """``protocol.cpp``."""
    reading = Reading(types)
    readers = [reading.struct(struct) for struct in types.structs]
    parts = [
        _OPENING,
        *map(_to_string, types.enumerations),
        "namespace {\n",
        *(pattern_check(name, pattern) for name, pattern in reading.patterns.items()),
        *readers,
        "}  // namespace\n",
        *(struct_writer(struct) for struct in types.structs),
        _decode("ToWorker", TO_WORKER),
        _decode("FromWorker", FROM_WORKER),
        _DECODE_MANIFEST,
        *map(encoder, encoded_structs()),
        "}  // namespace reflexd::protocol",
    ]
    return "\n".join(parts) + "\n"


def _to_string(enumeration: Enumeration) -> str:
    name = enumeration.name
    cases = "".join(f'    case {name}::{value}: return "{value}";\n' for value in enumeration.values)
    return f"std::string_view to_string({name} value) {{\n  switch (value) {{\n{cases}  }}\n  return {{}};\n}}\n"


def _decode(link: str, topic: Topic) -> str:
    kinds = [kind.__name__ for kind in topic.carries]
    options = "".join(
        f'  if (incoming.is("{kind}")) {{\n    return incoming.as(read_{snake(kind)});\n  }}\n' for kind in kinds
    )
    return (
        f"{link} decode_{snake(link)}(std::span<const std::byte> data) {{\n"
        f'  const Incoming incoming(data, k{link}MaxBytes, "{", ".join(kinds)}");\n{options}'
        "  incoming.refuse_type();\n}\n"
    )
