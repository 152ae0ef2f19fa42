"""The C++ has one style: what clang-format makes of ``cross/.clang-format``. ``make tidy`` looks at more."""

from __future__ import annotations

import subprocess

from tests.cross.building import ROOT, find_tool

SOURCES = sorted(
    path
    for folder in ("fuzz", "protocol", "src", "tests")
    for path in (ROOT / "cross" / folder).rglob("*")
    if path.suffix in (".cpp", ".hpp")
)


def test_every_file_is_formatted() -> None:
    formatter = find_tool("clang-format-14", "clang-format-14")
    assert len(SOURCES) > 40
    done = subprocess.run(
        [formatter, "--dry-run", "-Werror", *SOURCES], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
