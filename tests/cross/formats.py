"""One value in all its forms: msgpack and JSON as foreign encoders may write them, good and bad."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from random import Random
from typing import Protocol

_UNSIGNED = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q"}
_SIGNED = {0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
_BITS = (0, 5, 7, 8, 15, 16, 31, 32, 53, 63, 64)
_EDGES = [sign * 2**bits + more for bits in _BITS for sign in (1, -1) for more in (-1, 0, 1)]
_INTEGERS = [edge for edge in _EDGES if -(2**63) <= edge < 2**64]
_REALS = [0.0, -0.0, 0.5, 1.0, 1e300, 5e-324, math.inf, -math.inf, math.nan]
_TEXTS = [
    b"",
    b"a",
    b"type",
    b"\xc3\xa9",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xc0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe2\x82",
    b"\0",
]
_OPAQUE = [b"\xc0", b"\xc2", b"\xc3", b"\xc1", b"\xc7\x00\x05", b"\xd4\x01\x00", b"\xd8" + b"\1" * 17, b"\xdc\xff\xff"]

_JSON_NUMBERS = [
    *b"1.0 1e2 -0 -0.0 1E+2 1e400 -1e400 1e-400 01 1. .5 +1 NaN Infinity - 9223372036854775807".split(),
    *b"9223372036854775808 18446744073709551616 -9223372036854775809".split(),
    b"1" + b"0" * 30,
    b"1" + b"0" * 400,
]
_JSON_TEXTS = [
    *rb""" "" "a" "\u00e9\n\/" "\ud83d\ude00" "\ud800" "\ude00" "\ud800x" "\x" "\u12" " 'a' """.split(),
    *(b'"\xff"', b'"\xed\xa0\x80"', b'"\x01"', b'"\x7f"', b'"\xc3\xa9"'),
]
_JSON_OTHER = [*b"true false null nul [1,] {1:2} [ {} [] /**/1".split(), b"", b"\0", b"\xef\xbb\xbf1", b"1 2", b"\x0c1"]
_JSON_FOREIGN = [*_JSON_NUMBERS, *_JSON_TEXTS, *_JSON_OTHER, b'{"a":1,}']


class Format(Protocol):
    """Writes a value in one of its forms, chosen by ``draw``."""

    def null(self, draw: Random) -> bytes: ...
    def integer(self, draw: Random, value: int) -> bytes: ...
    def real(self, draw: Random, value: float) -> bytes: ...
    def text(self, draw: Random, value: str) -> bytes: ...
    def octets(self, draw: Random, value: bytes) -> bytes: ...
    def array(self, draw: Random, items: Sequence[bytes]) -> bytes: ...
    def map(self, draw: Random, pairs: Sequence[tuple[bytes, bytes]]) -> bytes: ...
    def scalar(self, draw: Random) -> bytes:
        """Anything that holds nothing else, or nothing good."""


def anything(draw: Random, form: Format, depth: int = 3) -> bytes:
    """A value of any kind and shape."""
    kind = draw.randrange(4) if depth else 0
    if kind == 1:
        return form.array(draw, [anything(draw, form, depth - 1) for _ in range(draw.randrange(4))])
    if kind == 2:
        some = range(draw.randrange(4))
        return form.map(draw, [(form.text(draw, f"k{i}"), anything(draw, form, depth - 1)) for i in some])
    return form.scalar(draw)


class Msgpack:
    """Every width a value may be written in, also wider ones than it needs."""

    def null(self, draw: Random) -> bytes:
        return b"\xc0"

    def integer(self, draw: Random, value: int) -> bytes:
        forms = [struct.pack(">b", value)] * 4 if -32 <= value < 128 else []
        for code, layout in (_UNSIGNED | _SIGNED).items():
            bits = 8 * struct.calcsize(layout)
            if (0 <= value < 2**bits) if code in _UNSIGNED else (-(2 ** (bits - 1)) <= value < 2 ** (bits - 1)):
                forms.append(bytes([code]) + struct.pack(layout, value))
        return draw.choice(forms) if forms else self.scalar(draw)

    def real(self, draw: Random, value: float) -> bytes:
        forms = [b"\xcb" + struct.pack(">d", value)]
        if math.isfinite(value) and abs(value) < 2**63:
            forms += [b"\xca" + struct.pack(">f", value), self.integer(draw, int(value))]
        return draw.choice(forms)

    def text(self, draw: Random, value: str) -> bytes:
        return self._text(draw, value.encode("utf-8", "surrogatepass"))

    def octets(self, draw: Random, value: bytes) -> bytes:
        return _sized(draw, value, {0xC4: ">B", 0xC5: ">H", 0xC6: ">I"})

    def array(self, draw: Random, items: Sequence[bytes]) -> bytes:
        return _head(draw, len(items), 0x90, {0xDC: ">H", 0xDD: ">I"}) + b"".join(items)

    def map(self, draw: Random, pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
        head = _head(draw, len(pairs), 0x80, {0xDE: ">H", 0xDF: ">I"})
        return head + b"".join(key + value for key, value in pairs)

    def scalar(self, draw: Random) -> bytes:
        kind = draw.randrange(5)
        if kind == 0:
            return draw.choice(_OPAQUE)
        if kind == 1:
            return self.integer(draw, draw.choice(_INTEGERS))
        if kind == 2:
            return self.real(draw, draw.choice(_REALS))
        return self._text(draw, draw.choice(_TEXTS)) if kind == 3 else self.octets(draw, draw.choice(_TEXTS))

    def _text(self, draw: Random, value: bytes) -> bytes:
        wide = _sized(draw, value, {0xD9: ">B", 0xDA: ">H", 0xDB: ">I"})
        return bytes([0xA0 + len(value)]) + value if len(value) < 32 and draw.random() < 0.7 else wide


class Json:
    """Numbers and texts as people and programs write them, and as they must not be."""

    def null(self, draw: Random) -> bytes:
        return b"null"

    def integer(self, draw: Random, value: int) -> bytes:
        return str(value).encode()

    def real(self, draw: Random, value: float) -> bytes:
        return draw.choice([f"{value!r}", f"{value:e}", f"{value:.25g}", f"{value:.0f}"]).encode()

    def text(self, draw: Random, value: str) -> bytes:
        return json.dumps(value, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")

    def octets(self, draw: Random, value: bytes) -> bytes:
        return self.text(draw, value.decode("latin-1"))

    def array(self, draw: Random, items: Sequence[bytes]) -> bytes:
        return b"[" + self._comma(draw).join(items) + b"]"

    def map(self, draw: Random, pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
        return b"{" + self._comma(draw).join(key + b":" + value for key, value in pairs) + b"}"

    def scalar(self, draw: Random) -> bytes:
        return draw.choice(_JSON_FOREIGN)

    @staticmethod
    def _comma(draw: Random) -> bytes:
        return draw.choice([b",", b", ", b" ,\r\n\t"])


def _sized(draw: Random, value: bytes, widths: dict[int, str]) -> bytes:
    fitting = [code for code, layout in widths.items() if len(value) < 256 ** struct.calcsize(layout)]
    code = draw.choice(fitting)
    return bytes([code]) + struct.pack(widths[code], len(value)) + value


def _head(draw: Random, count: int, short: int, widths: dict[int, str]) -> bytes:
    if count < 16 and draw.random() < 0.7:
        return bytes([short + count])
    code = draw.choice([*widths])
    return bytes([code]) + struct.pack(widths[code], count)
