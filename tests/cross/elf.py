"""What a program or library for 64-bit Arm is made of, by binutils."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.cross.building import find_tool

BINUTILS = "binutils-aarch64-linux-gnu"
_ADDRESS = re.compile(r"[0-9a-f]+ <[^>]*>$")
_LINE = re.compile(r"\s+[0-9a-f]+:\t(.*)$")
_COMPLAINT = re.compile(r"\{standard input\}:(\d+): Error: ")


def foreign_instructions(path: Path, architecture: str) -> set[str]:
    """Names of the instructions in ``path`` that are not of ``architecture`` (as GNU as calls it, ``armv8-a``).

    Every different line of the disassembly is handed back to the assembler, which is told to know that architecture
    and nothing else. What the disassembler itself does not know is called ``.inst``.
    """
    lines = sorted(_disassembly(path))
    assembler = [find_tool("aarch64-linux-gnu-as", BINUTILS), f"-march={architecture}", "-o", "/dev/null", "-"]
    done = subprocess.run(assembler, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    refused = {int(found[1]) for line in done.stderr.splitlines() if (found := _COMPLAINT.match(line))}
    assert bool(refused) == bool(done.returncode), done.stderr[:2000]
    return {lines[number - 1].split()[0] for number in refused}


def machine(path: Path) -> str:
    """What the file says it is for."""
    return _field(_binutil("readelf", "--file-header", path), "Machine")


def needed_versions(path: Path, library: str) -> list[tuple[int, ...]]:
    """Versions of ``library`` (``GLIBC``) whose symbols are needed, lowest first."""
    found = re.findall(rf"\b{library}_([0-9.]+)", _binutil("objdump", "--dynamic-syms", path))
    return sorted({tuple(map(int, version.split("."))) for version in found})


def search_path(path: Path) -> str:
    """Where the loader looks for libraries first."""
    [entry] = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", _binutil("readelf", "--dynamic", path))
    return str(entry)


def _disassembly(path: Path) -> set[str]:
    listing = _binutil("objdump", "--disassemble", "--no-show-raw-insn", path)
    found = (_LINE.match(line) for line in listing.splitlines())
    # Where a jump leads is left out: any place will do for the assembler.
    return {_ADDRESS.sub(".", line[1].split("//")[0].strip()) for line in found if line}


def _binutil(tool: str, *arguments: str | Path) -> str:
    command = [find_tool(f"aarch64-linux-gnu-{tool}", BINUTILS), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _field(text: str, name: str) -> str:
    return next(line.split(":", 1)[1].strip() for line in text.splitlines() if line.strip().startswith(f"{name}:"))
