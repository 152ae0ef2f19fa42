"""The C++ decoders under libFuzzer for some seconds; longer: ``FUZZ_SECONDS=600``."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
from msgspec.inspect import LiteralType

from daemon.declarations import children, declared_structs
from tests.cross.building import ROOT, build, find_tool
from tests.cross.declared import cases, packed
from tests.cross.test_protocol import CARRIED, GOLDEN, PONG

SECONDS = int(os.environ.get("FUZZ_SECONDS", "15"))


@pytest.fixture(scope="module")
def fuzzer() -> Path:
    """The fuzz target, built with clang."""
    name = next((name for name in ("clang++-14", "clang++") if shutil.which(name)), "clang++-14")
    compiler = find_tool(name, "clang-14 libclang-rt-14-dev libmsgpack-cxx-dev nlohmann-json3-dev")
    folder = build("fuzz", ROOT / "cross/fuzz", "fuzz-messages", f"-DCMAKE_CXX_COMPILER={compiler}")
    return folder / "fuzz-messages"


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 1200)
def test_no_bytes_crash_the_decoders(fuzzer: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for name, seed in seeds().items():
        (corpus / name).write_bytes(seed)
    (tmp_path / "words").write_text("".join(f'"{word}"\n' for word in sorted(words())))
    # One allocation is what an input can claim; the whole process is mostly the fuzzer's corpus and ASan's graveyard.
    memory = ("-malloc_limit_mb=64", "-rss_limit_mb=2048")
    limits = (*memory, "-timeout=10", "-max_len=4096", f"-max_total_time={SECONDS}")
    command = [str(fuzzer), str(corpus), *limits, f"-dict={tmp_path / 'words'}", f"-artifact_prefix={tmp_path}/"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    found = [path.read_bytes().hex() for path in tmp_path.glob("*-*") if path.is_file()]
    assert done.returncode == 0, f"input {found}\n{done.stderr[-6000:]}"
    assert "DONE" in done.stderr, done.stderr[-2000:]


def seeds() -> dict[str, bytes]:
    """Good messages and manifests, each after the letter that says what it is."""
    good = {f"golden {name}": what.encode() + bytes.fromhex(GOLDEN[name]) for what, name in CARRIED}
    good |= {"pong": b"m" + PONG, "pong packed": b"p" + msgspec.msgpack.encode(msgspec.json.decode(PONG))}
    for number, case in enumerate(cases().values()):
        if case.accepted:
            good[f"case {number}"] = case.what.encode() + packed(case.what, case.fields)
    return good


def words() -> set[str]:
    """Names of fields, tags and choices."""
    found: set[str] = set()
    for struct in declared_structs():
        found |= {str(struct.tag), *(field.name for field in struct.fields)}
        parts = [part for field in struct.fields for part in (field.type, *children(field.type))]
        found |= {str(value) for part in parts if isinstance(part, LiteralType) for value in part.values}
    return found
