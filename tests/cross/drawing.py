"""Messages and manifests drawn from their declarations: mostly good, now and then spoilt in any place."""

from __future__ import annotations

from random import Random
from typing import Any

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

from daemon.messages import PROTOCOL
from daemon.package import MANIFEST_VERSION
from tests.cross.declared import BAD, GOOD
from tests.cross.formats import Format, anything

_FIXED = {"v": PROTOCOL, "manifest_version": MANIFEST_VERSION}
_KEYS = ["", "type", "role", "v", "name", "added_later", "tYpe"]
_NAMES = ["torch", "é", "", "b", "a", "\n", "😀"]
_SPOILT = [0.0, 0.005, 0.03]
"""How often a value is spoilt: one of these for a whole message, so that some are good and some have one fault."""


class Drawing:
    """Draws bytes in ``form``; the same ``draw`` draws the same."""

    def __init__(self, draw: Random, form: Format) -> None:
        self._draw, self._form = draw, form
        self._often = 0.0

    def struct(self, root: StructType) -> bytes:
        """``root`` in one of its forms, maybe with bytes changed after all."""
        self._often = self._draw.choice(_SPOILT)
        data = self._value(root)
        return self._with_changed_bytes(data) if self._draw.random() < 3 * self._often else data

    def anything(self) -> bytes:
        """A value of any kind, or what is none."""
        draw = self._draw
        return anything(draw, self._form) if draw.random() < 0.5 else draw.randbytes(draw.randrange(64))

    def _with_changed_bytes(self, data: bytes) -> bytes:
        draw = self._draw
        at = draw.randrange(len(data) + 1)
        return data[:at] + draw.randbytes(draw.randrange(3)) + data[at + draw.randrange(3) :]

    def _spoil(self) -> bool:
        return self._draw.random() < self._often

    def _value(self, declared: Type) -> bytes:
        draw, form = self._draw, self._form
        if self._spoil():
            return anything(draw, form)
        if isinstance(declared, StructType):
            return self._struct(declared)
        if isinstance(declared, UnionType):
            option = draw.choice(declared.types)
            return form.null(draw) if isinstance(option, NoneType) else self._value(option)
        if isinstance(declared, ListType):
            return form.array(draw, [self._value(declared.item_type) for _ in range(self._size(declared))])
        if isinstance(declared, DictType):
            keys = draw.choices(_NAMES, k=self._size(declared))
            return form.map(draw, [(form.text(draw, key), self._value(declared.value_type)) for key in keys])
        return self._scalar(declared)

    def _struct(self, struct: StructType) -> bytes:
        pairs = [] if struct.tag_field is None else [self._fixed(struct.tag_field, struct.tag)]
        for field in struct.fields:
            if field.name in _FIXED:
                pairs.append(self._fixed(field.name, _FIXED[field.name]))
            elif field.required or self._draw.random() < 0.5:
                pairs.append((self._key(field.name), self._value(field.type)))
        if self._spoil():
            self._spoil_pairs(pairs, struct)
        return self._form.map(self._draw, pairs)

    def _spoil_pairs(self, pairs: list[tuple[bytes, bytes]], struct: StructType) -> None:
        """Another order, and maybe a pair less, an unknown key, or a key twice."""
        draw, form = self._draw, self._form
        kind = draw.randrange(5)
        if kind == 0:
            pairs.pop(draw.randrange(len(pairs)))
        elif kind == 1:
            pairs.append((self._key(draw.choice(_KEYS)), anything(draw, form)))
        elif kind == 2:
            pairs.append((anything(draw, form), anything(draw, form)))
        elif kind == 3:
            field = draw.choice(struct.fields)
            pairs.append((self._key(field.name), self._value(field.type)))
        draw.shuffle(pairs)

    def _key(self, name: str) -> bytes:
        return self._form.text(self._draw, name)

    def _fixed(self, key: str, value: Any) -> tuple[bytes, bytes]:
        draw, form = self._draw, self._form
        if self._spoil():
            value = draw.choice([0, 2, -1, 2**63, "other", "nothing", "1"])
        return self._key(key), form.text(draw, value) if isinstance(value, str) else form.integer(draw, value)

    def _scalar(self, declared: Type) -> bytes:
        draw, form = self._draw, self._form
        match declared:
            case IntType(ge=int(least), le=int(most)):
                usual = [least, least + 1, most - 1, most, draw.randint(least, most), draw.randint(least, least + 300)]
                return form.integer(draw, draw.choice([least - 1, most + 1] if self._spoil() else usual))
            case FloatType(ge=ge, gt=gt, le=le):
                edges: list[float] = [limit for limit in (ge, gt, le, 0.0, -0.0) if limit is not None]
                return form.real(draw, draw.choice(edges) if draw.random() < 0.1 else draw.random())
            case StrType(pattern=str(pattern)):
                return form.text(draw, draw.choice(BAD[pattern] if self._spoil() else GOOD[pattern]))
            case StrType():
                return form.text(draw, self._text(declared))
            case LiteralType(values=values):
                return form.text(draw, "other" if self._spoil() else str(draw.choice(values)))
            case BytesType():
                return form.octets(draw, bytes(draw.choice([0, 1, 4, 4, 31, 32, 255, 256, 65535, 65536])))
        raise AssertionError(declared)

    def _text(self, declared: StrType) -> str:
        draw = self._draw
        least, most = declared.min_length or 0, declared.max_length or 65536
        if self._spoil():
            return draw.choice("xé😀") * draw.choice([max(0, least - 1), most + 1])
        if draw.random() < 0.1:
            return draw.choice("xé😀") * draw.choice([size for size in (31, 32, 255, 256, most) if size <= most])
        return draw.choice(["text", "é😀", "\0"]) * max(1, least)

    def _size(self, declared: ListType | DictType) -> int:
        least, most = declared.min_length or 0, declared.max_length or 17
        sizes = (
            [max(0, least - 1), min(most + 1, 65)] if self._spoil() else [least, least + 1, least + 2, min(most, 16)]
        )
        return min(self._draw.choice(sizes), most + 1)
