"""The generator refuses what it has no check for, instead of leaving it out."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

from cross.protocol.generator.patterns import pattern_check
from cross.protocol.generator.reading import Reading
from cross.protocol.generator.source import source_text
from cross.protocol.generator.types import Types
from cross.protocol.generator.writing import struct_writer
from daemon.declarations import DeclarationError, declarations_digest, declarations_text, declared_structs
from daemon.messages import NAME_PATTERN
from tests.cross.building import ROOT

Small = Annotated[int, msgspec.Meta(ge=0, le=9)]


class Tagged(msgspec.Struct, tag="one"):
    x: Small


class Other(msgspec.Struct, tag="two"):
    x: Small


UNKNOWN: dict[str, Any] = {
    "an integer without limits": int,
    "an integer without a lower limit": Annotated[int, msgspec.Meta(le=9)],
    "an exclusive limit of an integer": Annotated[int, msgspec.Meta(gt=0, le=9)],
    "a multiple": Annotated[int, msgspec.Meta(ge=0, le=9, multiple_of=3)],
    "a multiple of a float": Annotated[float, msgspec.Meta(multiple_of=0.5)],
    "a truth value": bool,
    "a set": set[str],
    "a tuple": tuple[Small, Small],
    "a time": datetime,
    "anything": Any,
    "a map with numbers for keys": dict[Small, str],
    "a map with limited keys": dict[Annotated[str, msgspec.Meta(max_length=3)], str],
    "a number or a text": Small | str,
    "a struct or a text": Tagged | str,
    "an optional of two": Tagged | Other | None,
    "choices that are numbers": Literal[1, 2],
    "choices that are no names": Literal["a-b"],
    "a list of choices": list[Literal["one", "two"]],
    "a pattern that is not declared": Annotated[str, msgspec.Meta(pattern=r"^[a-z]\Z")],
    "a pattern and a length": Annotated[str, msgspec.Meta(pattern=NAME_PATTERN, max_length=9)],
}


def generated(field: Any, **options: Any) -> str:
    """What is generated for a struct with one field, ``field``; everything a build would run."""
    struct = msgspec.inspect.type_info(msgspec.defstruct("Sample", [("field", field)], **options))
    assert isinstance(struct, msgspec.inspect.StructType)
    types = Types([struct])
    types.name(struct.fields[0].type)
    return Reading(types).struct(struct) + struct_writer(struct)


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_declaration_without_a_check_in_c_is_an_error(name: str) -> None:
    with pytest.raises(DeclarationError):
        generated(UNKNOWN[name])


def test_a_renamed_field_is_an_error() -> None:
    with pytest.raises(DeclarationError, match="renamed"):
        generated(Small, rename={"field": "other"})


def test_a_numeric_tag_is_an_error() -> None:
    with pytest.raises(DeclarationError, match="tag 5"):
        generated(Small, tag=5)


KNOWN: dict[str, tuple[Any, str]] = {
    "an integer": (Small, "read_integer(value, place, IntegerLimits{0, 9})"),
    "a float": (
        Annotated[float, msgspec.Meta(gt=0.0, lt=1.5)],
        "read_real(value, place, RealLimits{.gt = 0.0, .lt = 1.5})",
    ),
    "a text": (Annotated[str, msgspec.Meta(min_length=1)], "read_text(value, place, SizeLimits{.least = 1})"),
    "a name": (Annotated[str, msgspec.Meta(pattern=NAME_PATTERN)], "is_name}"),
    "bytes": (Annotated[bytes, msgspec.Meta(max_length=2)], "read_bytes(value, place, SizeLimits{.most = 2})"),
    "a part of a named choice": (Literal["uint8"], "read_enum<DType>(value, place, {DType::uint8})"),
    "a choice": (Literal["up", "down"], "read_enum<SampleField>(value, place, {SampleField::down, SampleField::up})"),
    "an optional": (Small | None, "read_optional(value, place, [](Value item, const Path& spot)"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_constraint_becomes_a_check(name: str) -> None:
    field, check = KNOWN[name]
    assert check in generated(field)


BEYOND = [
    r"^[a-z]$",
    r"[a-z]\Z",
    r"^\Z",
    r"^[a-z]*\Z",
    r"^[a-z]+\Z",
    r"^[^a]\Z",
    r"^a\Z",
    r"^[a-z]{1,}\Z",
    r"^[a-z]?[0-9]\Z",
    r"^[a-z]{0,3}[0-9]\Z",
    r"^[a.]\Z",
    r"^[a-]b\Z",
    r"^[\d]\Z",
    r"^([a-z])\Z",
    r"^[a-z]|[0-9]\Z",
    r"^[é]\Z",
]


@pytest.mark.parametrize("pattern", BEYOND)
def test_a_pattern_beyond_the_grammar_is_an_error(pattern: str) -> None:
    re.compile(pattern)
    with pytest.raises(DeclarationError, match=re.escape(f"{pattern!r}")):
        pattern_check("is_it", pattern)


def test_generation_is_reproducible_and_complete(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        subprocess.run(
            [sys.executable, "-m", "cross.protocol.generate", tmp_path / folder], check=True, cwd=ROOT, timeout=60
        )
    for name in ("protocol.hpp", "protocol.cpp"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert (tmp_path / "one/protocol.cpp").read_text() == source_text(Types(declared_structs()))
    assert f'kDeclarationsDigest = "{declarations_digest()}"' in (tmp_path / "one/protocol.hpp").read_text()


def test_the_digest_covers_every_field_and_limit() -> None:
    lines = declarations_text().splitlines()
    assert len(declarations_digest()) == 16
    for struct in declared_structs():
        at = next(i for i, line in enumerate(lines) if line.startswith(f"{struct.cls.__name__} "))
        told = lines[at + 1 : at + 1 + len(struct.fields)]
        assert [line.split()[0] for line in told] == [field.name for field in struct.fields]
    assert "  threads int[ge=1, le=64] required" in lines
    assert "  model str[pattern='^[a-z][a-z0-9_-]{0,31}\\\\Z'] required" in lines
    assert "  v int[ge=0, le=9223372036854775807] default 1" in lines


def test_the_digest_changes_with_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    before = declarations_digest()
    structs = declared_structs()
    sample = msgspec.defstruct("Sample", [("field", Small)])
    monkeypatch.setattr("daemon.declarations.declared_structs", lambda: [*structs, msgspec.inspect.type_info(sample)])
    with_nine = declarations_digest()
    sample = msgspec.defstruct("Sample", [("field", Annotated[int, msgspec.Meta(ge=0, le=8)])])
    assert len({before, with_nine, declarations_digest()}) == 3
