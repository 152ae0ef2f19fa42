"""The text of ``protocol.hpp``: constants, enumerations, structs and the functions on them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from msgspec.inspect import Field, StructType

from cross.protocol.generator.constants import constants
from cross.protocol.generator.types import Enumeration, Types, constant
from daemon.declarations import DeclarationError
from daemon.messages import FROM_WORKER, TO_WORKER, Topic
from daemon.package import Manifest

_OPENING = """\
// Made by cross/protocol/generate.py from daemon/messages.py, daemon/package.py and daemon/frames.py: change those.
//
// Decoding checks everything that is declared there and throws Refused, never anything else; what it returns is as
// good as what daemon/wire.py returns for the same bytes. Encoding checks nothing: keep to the ...MaxLength of the
// fields, and texts to UTF-8 (text.hpp has fit_text).
//
// Lifetimes: a std::span<const std::byte> of a decoded struct is a view into the bytes it was decoded from. They must
// stay and stay unchanged as long as it is used. To encode one, point it at the bytes to be sent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "refused.hpp"

namespace reflexd::protocol {
"""
_DECODE = """
// One of the messages of its link. Throws Refused.
ToWorker decode_to_worker(std::span<const std::byte> data);
FromWorker decode_from_worker(std::span<const std::byte> data);

// The manifest as msgpack, checked but for what its parts say of one another. Throws Refused.
// (manifest.hpp reads the JSON file's text.)
Manifest decode_manifest(std::span<const std::byte> data);
"""
_ENCODE = """\
// The value's bytes into `out`, whose former content goes: those daemon/wire.py writes, maps in the order of their
// keys. (The manifest's are what tests compare.)"""


def header_text(types: Types) -> str:
    """``protocol.hpp``."""
    parts = [
        _OPENING,
        *map(_enumeration, types.enumerations),
        *constants(),
        *(_struct(types, struct) for struct in types.structs),
        _link("ToWorker", TO_WORKER),
        _link("FromWorker", FROM_WORKER),
        _DECODE,
        _ENCODE,
        *(f"void encode(const {name}& value, std::string& out);" for name in encoded_structs()),
        "\n}  // namespace reflexd::protocol",
    ]
    return "\n".join(parts) + "\n"


def encoded_structs() -> list[str]:
    """The messages of both directions and the manifest."""
    kinds: list[type] = [*TO_WORKER.carries, *FROM_WORKER.carries, Manifest]
    return [kind.__name__ for kind in kinds]


def _enumeration(enumeration: Enumeration) -> str:
    name = enumeration.name
    return f"enum class {name} {{ {', '.join(enumeration.values)} }};\nstd::string_view to_string({name} value);\n"


def _struct(types: Types, struct: StructType) -> str:
    summary = (inspect.getdoc(struct.cls) or "").split("\n", 1)[0]
    lines = [f"// {summary}", f"struct {struct.cls.__name__} {{"]
    lines += [f"  {line}" for field in struct.fields for line in _member(types, field)]
    return "\n".join([*lines, "};\n"])


def _member(types: Types, field: Field) -> Iterator[str]:
    longest = getattr(field.type, "max_length", None)
    if longest is not None:
        yield f"static constexpr std::size_t {constant(field.name)}MaxLength = {longest};"
    default = "" if field.required or field.default is None else field.default
    if default != "" and type(default) is not int:
        raise DeclarationError(f"{field.name} = {default!r}: a default of this kind has no counterpart in C++")
    yield f"{types.name(field.type)} {field.name}{{{default}}};"


def _link(name: str, topic: Topic) -> str:
    longest = f"inline constexpr std::size_t k{name}MaxBytes = {topic.max_bytes};"
    return f"using {name} = std::variant<{', '.join(kind.__name__ for kind in topic.carries)}>;\n{longest}"
