"""How a declared type is written in C++: its name, its enumerations, its patterns."""

from __future__ import annotations

import re
import typing
from dataclasses import dataclass
from types import ModuleType
from typing import Literal

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

from daemon import messages, package, views
from daemon.declarations import DeclarationError, children

_MODULES: tuple[ModuleType, ...] = (messages, views, package)
"""Where the names of Literal types and of patterns are declared."""
_SCALARS = {
    BytesType: "std::span<const std::byte>",
    FloatType: "double",
    IntType: "std::int64_t",
    StrType: "std::string",
}


@dataclass(frozen=True)
class Enumeration:
    """A Literal type as an enum class; ``values`` in the order declared."""

    name: str
    values: tuple[str, ...]


class Types:
    """C++ names of everything ``structs`` are declared with; each of them comes after those it holds.

    Raises:
        DeclarationError: a declaration without a counterpart in C++.
    """

    def __init__(self, structs: list[StructType]) -> None:
        self.structs = structs
        self._aliases = list(_declared_literals())
        self._enumerations: dict[tuple[str, ...], Enumeration] = {}
        for struct in self.structs:
            for field in struct.fields:
                self._name_literals(struct.cls.__name__ + _camel(field.name), field.type)

    @property
    def enumerations(self) -> list[Enumeration]:
        """Every enumeration in use, each once."""
        return list(dict.fromkeys(self._enumerations.values()))

    def enumeration(self, declared: LiteralType) -> Enumeration:
        """The enumeration ``declared`` takes its values from: maybe not all of them."""
        return self._enumerations[_texts(declared)]

    def name(self, declared: Type) -> str:
        """The C++ type of a declared one."""
        if isinstance(declared, StructType):
            return declared.cls.__name__
        if isinstance(declared, LiteralType):
            return self.enumeration(declared).name
        if isinstance(declared, ListType):
            return f"std::vector<{self.name(declared.item_type)}>"
        if isinstance(declared, DictType) and isinstance(declared.key_type, StrType):
            return f"std::map<std::string, {self.name(declared.value_type)}>"
        if isinstance(declared, UnionType):
            return self._union_name(declared)
        if type(declared) in _SCALARS:
            return _SCALARS[type(declared)]
        raise DeclarationError(f"{declared}: this kind of type has no counterpart in C++")

    def _union_name(self, declared: UnionType) -> str:
        optional = optional_type(declared)
        if optional is not None:
            return f"std::optional<{self.name(optional)}>"
        tagged_structs(declared)
        return f"std::variant<{', '.join(self.name(option) for option in declared.types)}>"

    def _name_literals(self, place: str, declared: Type) -> None:
        if isinstance(declared, LiteralType):
            values = _texts(declared)
            self._enumerations[values] = self._alias(values) or Enumeration(place, values)
        elif not isinstance(declared, StructType):
            for child in children(declared):
                self._name_literals(place, child)

    def _alias(self, values: tuple[str, ...]) -> Enumeration | None:
        """The named Literal with these values, or the one with these among others: ``Literal["uint8"]`` is a DType."""
        wanted = set(values)
        same = [alias for alias in self._aliases if set(alias.values) == wanted]
        among = [alias for alias in self._aliases if set(alias.values) > wanted]
        return next(iter(same or among), None)


def optional_type(declared: UnionType) -> Type | None:
    """``T`` of ``T | None``, None for any other union."""
    options = [option for option in declared.types if not isinstance(option, NoneType)]
    return options[0] if len(options) == 1 and len(declared.types) == 2 else None


def tagged_structs(declared: UnionType) -> list[StructType]:
    """The structs of a union told apart by one tag field.

    Raises:
        DeclarationError: any other union.
    """
    structs = [option for option in declared.types if isinstance(option, StructType)]
    fields = {struct.tag_field for struct in structs}
    if len(structs) != len(declared.types) or len(fields) != 1 or None in fields:
        raise DeclarationError(f"{declared}: expected T | None, or structs that share a tag field")
    return structs


def pattern_name(pattern: str) -> str:
    """``is_name`` for the value of the constant ``NAME_PATTERN``."""
    for module in _MODULES:
        for name, value in vars(module).items():
            if name.endswith("_PATTERN") and value == pattern:
                return f"is_{name.removesuffix('_PATTERN').lower()}"
    raise DeclarationError(f"pattern {pattern!r}: expected a constant ..._PATTERN of this value, it names the check")


def constant(name: str) -> str:
    """``kMaxInline`` for ``MAX_INLINE``."""
    return "k" + _camel(name)


def snake(name: str) -> str:
    """``load_model`` for ``LoadModel``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _texts(declared: LiteralType) -> tuple[str, ...]:
    values = tuple(value for value in declared.values if isinstance(value, str) and value.isidentifier())
    if len(values) != len(declared.values):
        raise DeclarationError(f"{declared}: expected texts that are names in C++ too")
    return values


def _declared_literals() -> typing.Iterator[Enumeration]:
    for module in _MODULES:
        for name, value in vars(module).items():
            if typing.get_origin(value) is Literal:
                yield Enumeration(name, typing.get_args(value))
