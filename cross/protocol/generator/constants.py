"""The numbers and names of the daemon that the worker needs as well, as C++ constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cross.protocol.generator.types import constant
from daemon import frames, messages, package, views
from daemon.declarations import declarations_digest

_NUMBERS = {messages: ("PROTOCOL",), package: ("MANIFEST_VERSION", "MAX_HISTORY"), frames: ("RING_VERSION",)}
_SIZES = {messages: ("MAX_INLINE",), package: ("MAX_MANIFEST_BYTES",)}
_TEXTS = {package: ("MANIFEST_FILE", "MODEL_FILE", "GOLDENS_FILE")}
_RING_SIZES = ("NEWEST_AT", "PAGE", "SLOT_HEADER")
_FORMAT_TYPES = {"I": "std::uint32_t", "Q": "std::uint64_t", "8s": "std::array<char, 8>"}


def constants() -> Iterator[str]:
    """Blocks of C++, in order; they need the enumerations."""
    yield "// Tells whether a worker and a daemon were made from the same declarations."
    yield _text("DECLARATIONS_DIGEST", declarations_digest())
    for module, names in _NUMBERS.items():
        for name in names:
            yield _number(name, getattr(module, name))
    for module, names in _SIZES.items():
        for name in names:
            yield _number(name, getattr(module, name), "std::size_t")
    for module, names in _TEXTS.items():
        for name in names:
            yield _text(name, getattr(module, name))
    yield _sizes()
    yield _ring()


def _number(name: str, value: int, kind: str = "std::int64_t") -> str:
    return f"inline constexpr {kind} {constant(name)} = {value};"


def _text(name: str, value: str) -> str:
    return f'inline constexpr std::string_view {constant(name)} = "{value}";'


def _sizes() -> str:
    channels: dict[str, int] = dict(views.CHANNELS.items())
    items: dict[str, int] = dict(package.ITEM_BYTES.items())
    return (
        f"\n// Bytes of one element.\n{_table('item_bytes', 'DType', items)}\n"
        f"\n// Bytes of one pixel.\n{_table('pixel_bytes', 'PixelFormat', channels)}\n"
    )


def _table(name: str, enumeration: str, values: Mapping[str, int]) -> str:
    cases = "".join(f"\n    case {enumeration}::{value}: return {number};" for value, number in values.items())
    return f"constexpr std::size_t {name}({enumeration} value) {{\n  switch (value) {{{cases}\n  }}\n  return 0;\n}}"


def _ring() -> str:
    codes = frames.HEADER.format.removeprefix("<").replace("8s", "8s ").replace("I", "I ").replace("Q", "Q ").split()
    members = [f"  {_FORMAT_TYPES[code]} {name}{{}};" for code, name in zip(codes, frames.HEADER_FIELDS, strict=True)]
    formats = ", ".join(f"PixelFormat::{name}" for name in frames.FORMATS)
    magic = ", ".join(f"'\\x{byte:02x}'" for byte in frames.MAGIC)
    return "\n".join(
        [
            "// The frame ring (daemon/frames.py has the layout and the memory order), little-endian.",
            *(_number(f"RING_{name}", getattr(frames, name), "std::size_t") for name in _RING_SIZES),
            f"inline constexpr std::array<char, {len(frames.MAGIC)}> kRingMagic = {{{magic}}};",
            "// RingHeader::format is an index into this.",
            f"inline constexpr std::array<PixelFormat, {len(frames.FORMATS)}> kRingFormats = {{{formats}}};",
            "struct RingHeader {",
            *members,
            "};",
            f"static_assert(sizeof(RingHeader) == {frames.HEADER.size});",
            "// The words a slot begins with; its pixels begin kRingSlotHeader bytes after its start.",
            "struct RingSlot {",
            *(f"  std::uint64_t {name}{{}};" for name in frames.SLOT_FIELDS),
            "};\n",
        ]
    )
