"""What a native worker is generated from: the structs of its link and of the package manifest, and their digest.

A worker built from other declarations is told by its digest (``reflexd-worker --version --json``), before it is sent
anything. The digest covers names, types, constraints, tags and versions; not docstrings, and not msgspec's own way of
printing things, which changes with its release.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

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

from daemon.frames import HEADER, HEADER_FIELDS, RING_VERSION, SLOT_FIELDS
from daemon.messages import FROM_WORKER, PROTOCOL, TO_WORKER
from daemon.package import MANIFEST_VERSION, Manifest

_DIGITS = 16
_NESTED = {"item_type", "key_type", "value_type"}
_SCALARS = {
    BytesType: "bytes",
    DictType: "dict",
    FloatType: "float",
    IntType: "int",
    ListType: "list",
    NoneType: "none",
    StrType: "str",
}


class DeclarationError(TypeError):
    """A declaration of a kind the native worker has no counterpart for; the text names it."""


def declared_structs() -> list[StructType]:
    """Every struct of the worker link and of the manifest, each once, after those its fields are made of."""
    found: dict[str, StructType] = {}
    for root in (*TO_WORKER.carries, *FROM_WORKER.carries, Manifest):
        _collect(msgspec.inspect.type_info(root), found)
    return list(found.values())


def children(declared: Type) -> Iterator[Type]:
    """The types ``declared`` is made of, not those within them."""
    if isinstance(declared, StructType):
        yield from (field.type for field in declared.fields)
    elif isinstance(declared, UnionType):
        yield from declared.types
    elif isinstance(declared, ListType):
        yield declared.item_type
    elif isinstance(declared, DictType):
        yield from (declared.key_type, declared.value_type)
    elif type(declared) not in {LiteralType, *_SCALARS}:
        raise DeclarationError(f"{declared}: this kind of type has no counterpart in the native worker")


def declarations_digest() -> str:
    """16 hexadecimal digits that change with any of the declarations."""
    return hashlib.sha256(declarations_text().encode()).hexdigest()[:_DIGITS]


def declarations_text() -> str:
    """All declarations, a line each: what the digest is taken of."""
    ring = f"{HEADER.format} {' '.join(HEADER_FIELDS)}, {' '.join(SLOT_FIELDS)}"
    lines = [f"protocol {PROTOCOL}, manifest {MANIFEST_VERSION}, ring {RING_VERSION}: {ring}"]
    for name, topic in (("to_worker", TO_WORKER), ("from_worker", FROM_WORKER)):
        lines.append(f"{name} {[kind.__name__ for kind in topic.carries]} {topic.max_bytes}")
    for struct in declared_structs():
        extras = " closed" if struct.forbid_unknown_fields else ""
        lines.append(f"{struct.cls.__name__} {struct.tag_field}={struct.tag!r}{extras}")
        lines += [f"  {field.encode_name} {_type_text(field.type)} {_default(field)}" for field in struct.fields]
    return "\n".join(lines)


def _collect(declared: Type, found: dict[str, StructType]) -> None:
    for child in children(declared):
        _collect(child, found)
    if isinstance(declared, StructType):
        name = declared.cls.__name__
        if found.setdefault(name, declared).cls is not declared.cls:
            raise DeclarationError(f"two structs are called {name}")


def _default(field: msgspec.inspect.Field) -> str:
    if field.required:
        return "required"
    return "default " + repr(field.default if field.default is not msgspec.NODEFAULT else field.default_factory())


def _type_text(declared: Type) -> str:
    if isinstance(declared, StructType):
        return declared.cls.__name__
    if isinstance(declared, LiteralType):
        return f"literal{sorted(map(repr, declared.values))}"
    inner = [_type_text(child) for child in children(declared)]
    if isinstance(declared, UnionType):
        return f"union{sorted(inner)}"
    limits = [
        f"{name}={limit!r}"
        for name in sorted(set(declared.__struct_fields__) - _NESTED)
        if (limit := getattr(declared, name)) is not None
    ]
    return f"{_SCALARS[type(declared)]}[{', '.join([*inner, *limits])}]"
