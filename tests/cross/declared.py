"""Cases made from the declarations: for every constraint a value that just keeps it, and one that breaks it."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgpack
import msgspec
from msgspec.inspect import (
    BytesType,
    DictType,
    FloatType,
    IntType,
    ListType,
    LiteralType,
    NoneType,
    StrType,
    StructType,
    Type,
    UnionType,
)

from daemon.messages import FROM_WORKER, NAME_PATTERN, PROTOCOL, SHA256_PATTERN, TO_WORKER
from daemon.package import MANIFEST_VERSION, Manifest
from tests.cross.probe import What

Fields = dict[str, Any]
Place = tuple[str | int, ...]

ROOTS: list[tuple[What, StructType]] = [
    (what, msgspec.inspect.type_info(kind))  # type: ignore[misc]
    for what, kinds in (("w", TO_WORKER.carries), ("d", FROM_WORKER.carries), ("m", (Manifest,)))
    for kind in kinds
]
GOOD = {NAME_PATTERN: ["a", "a" * 32, "z0-_"], SHA256_PATTERN: ["0123456789abcdef" * 4]}
BAD = {
    NAME_PATTERN: ["", "a" * 33, "A", "1a", "aB", "a b", "a\n", "\na", "é", "aé", "a\0", "-a", "_"],
    SHA256_PATTERN: ["", "0" * 63, "0" * 65, "A" * 64, "g" + "0" * 63, "0" * 64 + "\n", "é" * 32],
}


class Case(NamedTuple):
    """``fields`` of a message or manifest that differs from a good one in one place; ``word`` is in the refusal."""

    name: str
    what: What
    fields: Fields
    accepted: bool
    word: str = ""


def packed(what: What, fields: Fields) -> bytes:
    """As it comes to the decoder."""
    if what == "m":
        return json.dumps(fields, ensure_ascii=False).encode()
    data: bytes = msgpack.packb(fields)
    return data


def example(declared: Type, option: int = 0) -> Any:
    """A good value; of a union the struct ``option``."""
    if isinstance(declared, StructType):
        return _struct(declared, option)
    if isinstance(declared, UnionType):
        options = [part for part in declared.types if not isinstance(part, NoneType)]
        return example(options[option % len(options)], option)
    if isinstance(declared, ListType):
        return [example(declared.item_type, option)]
    if isinstance(declared, DictType):
        return {"key": example(declared.value_type, option)}
    return next(value for _, value in _within(declared))


def cases() -> dict[str, Case]:
    """Every case by its name."""
    found = [case for what, root in ROOTS for option in (0, 1) for case in _of_root(what, root, option)]
    return {case.name: case for case in found}


def _struct(struct: StructType, option: int) -> Fields:
    tag: Fields = {} if struct.tag_field is None else {struct.tag_field: struct.tag}
    fixed = {"v": PROTOCOL, "manifest_version": MANIFEST_VERSION}
    return tag | {field.name: fixed.get(field.name, example(field.type, option)) for field in struct.fields}


def _of_root(what: What, root: StructType, option: int) -> Iterator[Case]:
    base = example(root, option)
    yield Case(f"{root.cls.__name__} {option}", what, base, accepted=True)
    for place, name, declared in _nodes(root, (), "", option):
        yield from _of_node(what, base, place, name, declared)


def _nodes(declared: Type, place: Place, name: str, option: int) -> Iterator[tuple[Place, str, Type]]:
    """Every value in an example, with where it is and what it is called."""
    if isinstance(declared, UnionType):
        options = [part for part in declared.types if not isinstance(part, NoneType)]
        declared = options[option % len(options)]
    if place[-1:] not in {("v",), ("manifest_version",)}:
        yield place, name, declared
    if isinstance(declared, StructType):
        for field in declared.fields:
            yield from _nodes(field.type, (*place, field.name), f"{declared.cls.__name__}.{field.name}", option)
    elif isinstance(declared, ListType):
        yield from _nodes(declared.item_type, (*place, 0), f"{name}[]", option)
    elif isinstance(declared, DictType):
        yield from _nodes(declared.value_type, (*place, "key"), f"{name}[]", option)


def _of_node(what: What, base: Fields, place: Place, name: str, declared: Type) -> Iterator[Case]:
    word = next((part for part in reversed(place) if isinstance(part, str)), "")
    if isinstance(declared, StructType):
        yield from _of_struct(what, base, place, declared)
        return
    for label, value in _within(declared):
        yield Case(f"{name} {label} kept", what, _changed(base, place, value), accepted=True)
    for label, value in _beyond(declared):
        if what != "m" or not (isinstance(value, float) and math.isnan(value)):
            yield Case(f"{name} {label} broken", what, _changed(base, place, value), accepted=False, word=word)


def _of_struct(what: What, base: Fields, place: Place, struct: StructType) -> Iterator[Case]:
    name, whole = struct.cls.__name__, _at(base, place)
    for field in struct.fields:
        fewer = {key: value for key, value in whole.items() if key != field.name}
        if field.name != "v":
            word = f"missing required field `{field.name}`" if field.required else ""
            yield Case(f"{name} without {field.name}", what, _changed(base, place, fewer), not field.required, word)
    more = whole | {"added_later": [{"a": None}, 1.5]}
    closed = struct.forbid_unknown_fields
    yield Case(
        f"{name} with an unknown field", what, _changed(base, place, more), not closed, "added_later" if closed else ""
    )
    if struct.tag_field is not None:
        yield from _of_tag(what, base, place, struct)


def _of_tag(what: What, base: Fields, place: Place, struct: StructType) -> Iterator[Case]:
    name, tag, whole = struct.cls.__name__, str(struct.tag_field), _at(base, place)
    for label, value in (("another", "other"), ("no text", 5), ("null", None)):
        yield Case(f"{name} {tag} {label}", what, _changed(base, place, whole | {tag: value}), False, tag)
    last = {key: value for key, value in whole.items() if key != tag} | {tag: struct.tag}
    yield Case(f"{name} {tag} last", what, _changed(base, place, last), True)


def _within(declared: Type) -> Iterator[tuple[str, Any]]:
    """Good values; the first is an ordinary one."""
    match declared:
        case IntType(ge=int(least), le=int(most)):
            yield from ((f"= {value}", value) for value in (least, most))
        case FloatType():
            yield "ordinary", 0.5
            yield "whole", 1
            yield from ((f"= {limit}", limit) for limit in (declared.ge, declared.le) if limit is not None)
        case StrType(pattern=str(pattern)):
            yield from ((f"matches {pattern}: {value!r}", value) for value in GOOD[pattern])
        case StrType():
            yield "ordinary", "text"
            yield from ((f"length {size}", "é" * size) for size in _sizes(declared))
        case BytesType():
            yield "ordinary", bytes(4)
            yield from ((f"length {size}", bytes(size)) for size in _sizes(declared))
        case LiteralType(values=values):
            yield from ((f"= {value}", value) for value in values)
        case ListType(item_type=item):
            yield from ((f"length {size}", [example(item)] * size) for size in _sizes(declared))
        case DictType(value_type=item):
            yield from ((f"length {size}", {f"k{i}": example(item) for i in range(size)}) for size in _sizes(declared))


def _beyond(declared: Type) -> Iterator[tuple[str, Any]]:
    yield "kind", {"un": ["expected"]}
    match declared:
        case IntType(ge=int(least), le=int(most)):
            yield from ((f">= {least}", least - 1), (f"<= {most}", most + 1), ("whole", 0.5), ("no bool", True))
        case FloatType():
            yield from _beyond_real(declared)
        case StrType(pattern=str(pattern)):
            yield from ((f"matches {pattern}: {value!r}", value) for value in BAD[pattern])
        case StrType() | BytesType():
            unit: Any = "é" if isinstance(declared, StrType) else b"\0"
            yield from ((f"length {size}", unit * size) for size in _wrong_sizes(declared))
        case LiteralType(values=values):
            yield from ((f"one of {values}: {value!r}", value) for value in ("", "other", f"{values[0]}\n", 0, None))
        case ListType(item_type=item):
            yield from ((f"length {size}", [example(item)] * size) for size in _wrong_sizes(declared))
        case DictType(value_type=item):
            for size in _wrong_sizes(declared):
                yield f"length {size}", {f"k{i}": example(item) for i in range(size)}


def _beyond_real(declared: FloatType) -> Iterator[tuple[str, Any]]:
    yield "no bool", True
    if declared.ge is not None:
        yield f">= {declared.ge}", math.nextafter(declared.ge, -math.inf)
    if declared.gt is not None:
        yield f"> {declared.gt}", declared.gt
    if declared.le is not None:
        yield f"<= {declared.le}", math.nextafter(declared.le, math.inf)
        yield "a number", math.nan


def _sizes(declared: Any) -> list[int]:
    return [size for size in (declared.min_length, declared.max_length) if size is not None]


def _wrong_sizes(declared: Any) -> list[int]:
    short = [declared.min_length - 1] if declared.min_length else []
    return short if declared.max_length is None else [*short, declared.max_length + 1]


def _changed(base: Fields, place: Place, value: Any) -> Fields:
    if not place:
        changed: Fields = value
        return changed
    copied = copy.deepcopy(base)
    _at(copied, place[:-1])[place[-1]] = value
    return copied


def _at(whole: Any, place: Place) -> Any:
    for part in place:
        whole = whole[part]
    return whole
