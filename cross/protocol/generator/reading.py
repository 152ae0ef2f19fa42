"""C++ that reads one declared value out of tokens, with a check for each of its constraints."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.inspect import (
    BytesType,
    DictType,
    Field,
    FloatType,
    IntType,
    ListType,
    LiteralType,
    StrType,
    StructType,
    Type,
    UnionType,
)

from cross.protocol.generator.types import Types, optional_type, pattern_name, snake, tagged_structs
from daemon.declarations import DeclarationError, children

_CONSTRAINTS: dict[type[Type], set[str]] = {
    BytesType: {"min_length", "max_length"},
    DictType: {"min_length", "max_length"},
    FloatType: {"ge", "gt", "le", "lt"},
    IntType: {"ge", "le"},
    ListType: {"min_length", "max_length"},
    StrType: {"min_length", "max_length", "pattern"},
}
_PARTS = {"item_type", "key_type", "value_type"}


class Reading:
    """Readers of structs; ``patterns`` are those met so far, as check name to pattern."""

    def __init__(self, types: Types) -> None:
        self.patterns: dict[str, str] = {}
        self._types = types
        self._unions: set[str] = set()

    def struct(self, struct: StructType) -> str:
        """The functions that read ``struct``: itself, and before it the unions it is the first to use.

        Raises:
            DeclarationError: a field's type or constraint has no check in C++.
        """
        name = struct.cls.__name__
        required = [field.name for field in struct.fields if field.required]
        branches = [self._field(field, required) for field in struct.fields]
        branches += [_tag(struct)] if struct.tag_field else []
        unknown = " else {\n      refuse_unknown(key, at);\n    }" if struct.forbid_unknown_fields else ""
        lines = [
            *(self._union(union) for field in struct.fields for union in _unions(field.type)),
            f"{name} read_{snake(name)}(Value found, const Path& at) {{",
            f"  {name} out;",
            f"  std::bitset<{len(required)}> seen;",
            "  for_members(found, at, [&](std::string_view key, Value value) {",
            "    const Path place = at.field(key);",
            f"    {' else '.join(branches)}{unknown}",
            "  });",
            *(f'  if (!seen[{i}]) {{\n    refuse_missing("{field}", at);\n  }}' for i, field in enumerate(required)),
            "  return out;\n}\n",
        ]
        return "\n".join(line for line in lines if line)

    def _field(self, field: Field, required: list[str]) -> str:
        if field.name != field.encode_name:
            raise DeclarationError(f"field {field.name}: renamed to {field.encode_name}, the generator keeps names")
        seen = f"      seen.set({required.index(field.name)});\n" if field.required else ""
        expression = self._expression(field.type, "value", "place")
        return f'if (key == "{field.name}") {{\n      out.{field.name} = {expression};\n{seen}    }}'

    def _union(self, union: UnionType) -> str:
        name = _union_reader(union)
        if name in self._unions:
            return ""
        self._unions.add(name)
        structs = tagged_structs(union)
        field = structs[0].tag_field
        options = "".join(
            f'  if (tag == "{_tag_text(struct)}") {{\n    return read_{snake(struct.cls.__name__)}(found, at);\n  }}\n'
            for struct in structs
        )
        return (
            f"{self._types.name(union)} {name}(Value found, const Path& at) {{\n"
            f'  const std::string_view tag = read_tag(found, "{field}", at);\n{options}'
            f'  refuse_tag(tag, at.field("{field}"));\n}}\n'
        )

    def _expression(self, declared: Type, value: str, at: str) -> str:
        if isinstance(declared, StructType):
            return f"read_{snake(declared.cls.__name__)}({value}, {at})"
        if isinstance(declared, LiteralType):
            name = self._types.name(declared)
            choices = ", ".join(f"{name}::{choice}" for choice in declared.values)
            return f"read_enum<{name}>({value}, {at}, {{{choices}}})"
        if isinstance(declared, UnionType):
            optional = optional_type(declared)
            if optional is None:
                return f"{_union_reader(declared)}({value}, {at})"
            return f"read_optional({value}, {at}, {self._reader(optional)})"
        if type(declared) in _CONSTRAINTS:
            return self._limited(declared, f"{value}, {at}")
        raise DeclarationError(f"{declared}: this kind of type has no reader in C++")

    def _limited(self, declared: Type, place: str) -> str:
        limits = _limits(declared)
        if isinstance(declared, IntType):
            return f"read_integer({place}, {_integer_limits(declared)})"
        if isinstance(declared, FloatType):
            return f"read_real({place}, RealLimits{{{_designated(limits)}}})"
        if isinstance(declared, StrType):
            return f"read_text({place}, {self._text_limits(declared)})"
        sizes = _sizes(limits)
        if isinstance(declared, BytesType):
            return f"read_bytes({place}, {sizes})"
        if isinstance(declared, ListType):
            return f"read_list({place}, {sizes}, {self._reader(declared.item_type)})"
        if isinstance(declared, DictType) and isinstance(declared.key_type, StrType) and not _limits(declared.key_type):
            return f"read_map({place}, {sizes}, {self._reader(declared.value_type)})"
        raise DeclarationError(f"{declared}: keys other than plain texts have no reader in C++")

    def _reader(self, declared: Type) -> str:
        return f"[](Value item, const Path& spot) {{ return {self._expression(declared, 'item', 'spot')}; }}"

    def _text_limits(self, declared: StrType) -> str:
        limits = _limits(declared)
        if declared.pattern is None:
            return _sizes(limits)
        if len(limits) > 1:
            raise DeclarationError(f"{declared}: a pattern says the length itself; expected no other constraint")
        name = pattern_name(declared.pattern)
        self.patterns[name] = declared.pattern
        return f'Pattern{{R"({declared.pattern})", {name}}}'


def _limits(declared: Type) -> dict[str, object]:
    """Constraint to limit. Raises DeclarationError: one of a kind that has no check in C++."""
    limits = {
        name: limit
        for name in sorted(set(declared.__struct_fields__) - _PARTS)
        if (limit := getattr(declared, name)) is not None
    }
    unknown = set(limits) - _CONSTRAINTS[type(declared)]
    if unknown:
        raise DeclarationError(f"{declared}: no check in C++ for {', '.join(sorted(unknown))}")
    return limits


def _integer_limits(declared: IntType) -> str:
    least, most = declared.ge, declared.le
    if least is None or most is None:
        raise DeclarationError(f"{declared}: expected ge and le, a native integer has 64 bits")
    return f"IntegerLimits{{{least}, {most}}}"


def _sizes(limits: dict[str, object]) -> str:
    names = {"min_length": "least", "max_length": "most"}
    return f"SizeLimits{{{_designated({names[name]: limits[name] for name in names if name in limits})}}}"


def _designated(limits: dict[str, object]) -> str:
    return ", ".join(f".{name} = {limit!r}" for name, limit in limits.items())


def _unions(declared: Type) -> Iterator[UnionType]:
    """The unions of structs in a field, not those in the structs it holds."""
    if isinstance(declared, UnionType) and optional_type(declared) is None:
        yield declared
    elif not isinstance(declared, StructType):
        for child in children(declared):
            yield from _unions(child)


def _union_reader(union: UnionType) -> str:
    return "read_" + "_or_".join(snake(struct.cls.__name__) for struct in tagged_structs(union))


def _tag(struct: StructType) -> str:
    return f'if (key == "{struct.tag_field}") {{\n      require_tag("{_tag_text(struct)}", value, place);\n    }}'


def _tag_text(struct: StructType) -> str:
    if not isinstance(struct.tag, str):
        raise DeclarationError(f"{struct.cls.__name__}: tag {struct.tag!r}; expected a text")
    return struct.tag
