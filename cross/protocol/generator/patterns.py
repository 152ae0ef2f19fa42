r"""The declared patterns as C++: a fixed text of character classes, the last of them repeated.

The grammar is ``^``, then classes ``[...]`` of ASCII characters and ranges, each once, ``{n}`` or ``{m,n}`` times, then
``\Z``. Only the last may vary in number, so that no choice is ever taken back. (``$`` is not in it: it lets a final
newline pass.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from daemon.declarations import DeclarationError

_CLASS = re.compile(r"\[(?P<members>[^\[\]\\^]+)\](?:\{(?P<least>\d+)(?:,(?P<most>\d+))?\})?")
_MEMBER = re.compile(r"(?P<low>[0-9A-Za-z])-(?P<high>[0-9A-Za-z])|(?P<one>[0-9A-Za-z_]|-\Z)")


@dataclass(frozen=True)
class _Class:
    """Characters, as conditions on ``c``, and how often one of them stands."""

    conditions: tuple[str, ...]
    least: int
    most: int


def pattern_check(name: str, pattern: str) -> str:
    """A C++ function ``bool name(std::string_view)`` that holds where ``re.search(pattern, text)`` does.

    Raises:
        DeclarationError: the pattern is beyond the grammar above.
    """
    classes = _parse(pattern)
    if any(part.least != part.most for part in classes[:-1]):
        raise DeclarationError(f"pattern {pattern!r}: only the last class may vary in number")
    fixed = sum(part.most for part in classes[:-1])
    least, most = fixed + classes[-1].least, fixed + classes[-1].most
    terms = [f"text.size() >= {least} && text.size() <= {most}"]
    at = 0
    for part in classes:
        count = "" if part is classes[-1] else f", {part.most}"
        test = " || ".join(part.conditions)
        terms.append(f"std::ranges::all_of(text.substr({at}{count}), [](char c) {{ return {test}; }})")
        at += part.most
    body = " &&\n         ".join(terms)
    return f"// {pattern}\nbool {name}(std::string_view text) {{\n  return {body};\n}}\n"


def _parse(pattern: str) -> list[_Class]:
    inner = pattern.removeprefix("^").removesuffix(r"\Z")
    if pattern != rf"^{inner}\Z" or not inner or "".join(m.group() for m in _CLASS.finditer(inner)) != inner:
        raise DeclarationError(rf"pattern {pattern!r}: expected ^, classes like [a-z0-9_-]{{0,31}}, and \Z")
    return [_read_class(match, pattern) for match in _CLASS.finditer(inner)]


def _read_class(match: re.Match[str], pattern: str) -> _Class:
    members = match["members"]
    found = list(_MEMBER.finditer(members))
    if "".join(member.group() for member in found) != members:
        raise DeclarationError(f"pattern {pattern!r}: [{members}]: expected letters, digits, _, ranges, a final -")
    conditions = tuple(
        f"c == '{member['one']}'" if member["one"] else f"(c >= '{member['low']}' && c <= '{member['high']}')"
        for member in found
    )
    least = int(match["least"] or 1)
    return _Class(conditions, least, int(match["most"] or least))
