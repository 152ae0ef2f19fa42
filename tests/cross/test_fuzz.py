"""The C++ decoders and the loading of a package under libFuzzer for some seconds; longer: ``FUZZ_SECONDS=600``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import msgspec
import pytest
from msgspec.inspect import LiteralType

from daemon.declarations import children, declared_structs
from tests.cross.building import ROOT, build, find_tool
from tests.cross.declared import cases, packed
from tests.cross.test_protocol import CARRIED, GOLDEN, PONG
from tests.packages import tiny_package

SECONDS = int(os.environ.get("FUZZ_SECONDS", "15"))


FRAME = re.compile(r"^ +#\d+ 0x[0-9a-f]+ (.*)$", re.MULTILINE)
LIBRARY = "site-packages/executorch/"
LIMITED = ("SUMMARY: libFuzzer: out-of-memory", "SUMMARY: libFuzzer: timeout")
"""A program may ask for any memory and time; the check's own limits, of the address space and the clock, end that."""


def fuzz_build(source: Path, target: str, *options: str) -> Path:
    """A fuzz target, built with clang."""
    name = next((name for name in ("clang++-14", "clang++") if shutil.which(name)), "clang++-14")
    compiler = find_tool(name, "clang-14 libclang-rt-14-dev libmsgpack-cxx-dev nlohmann-json3-dev")
    return build(target, source, target, f"-DCMAKE_CXX_COMPILER={compiler}", *options) / target


@pytest.fixture(scope="module")
def fuzzer() -> Path:
    """The target of the decoders."""
    return fuzz_build(ROOT / "cross/fuzz", "fuzz-messages")


class PackageFuzzer:
    """The target of the loading of packages, with a good one and a corpus to start from."""

    def __init__(self, folder: Path) -> None:
        options = ("-DREFLEXD_FUZZ=ON", "-DREFLEXD_SANITIZE=ON", "-DCMAKE_BUILD_TYPE=Debug")
        self._target = fuzz_build(ROOT / "cross", "fuzz-package", *options)
        self.package = tiny_package(folder / "package")
        self.corpus, self.found = folder / "corpus", folder / "found"
        for made in (self.corpus, self.found):
            made.mkdir()

    def seed(self, letter: str, file: str) -> None:
        """Put a file of the good package into the corpus."""
        (self.corpus / file).write_bytes(letter.encode() + (self.package / file).read_bytes())

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run the target; what the runtime cannot allocate it is to report."""
        environment = os.environ | {
            "REFLEXD_FUZZ_PACKAGE": str(self.package),
            "ASAN_OPTIONS": "allocator_may_return_null=1:handle_abort=1",
        }
        limits = ("-timeout=20", "-rss_limit_mb=2048", "-malloc_limit_mb=4096", f"-artifact_prefix={self.found}/")
        return subprocess.run(
            [self._target, *limits, *arguments], capture_output=True, text=True, errors="replace", check=False,
            env=environment,
        )  # fmt: skip

    def last_found(self) -> str:
        """The input that ended the last run."""
        newest = max(self.found.iterdir(), key=lambda path: path.stat().st_mtime_ns, default=None)
        return f"input {newest.read_bytes().hex()}" if newest else "no input was kept"


@pytest.fixture
def packages(tmp_path: Path) -> PackageFuzzer:
    """What loads packages of any bytes."""
    return PackageFuzzer(tmp_path)


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


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 1200)
def test_no_manifest_and_no_goldens_crash_the_worker(packages: PackageFuzzer) -> None:
    packages.seed("m", "manifest.json")
    packages.seed("g", "goldens.bin")
    done = packages.run(f"-max_total_time={SECONDS}", "-max_len=4096", packages.corpus)
    assert done.returncode == 0, f"{packages.last_found()}\n{done.stderr[-6000:]}"
    assert "DONE" in done.stderr, done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 1200)
def test_a_damaged_program_crashes_nothing_but_the_runtime(packages: PackageFuzzer) -> None:
    """The runtime has no defence against some damage; a package's check runs in a process of its own for that."""
    packages.seed("p", "model.pte")
    crashes, until = 0, time.monotonic() + SECONDS
    while (left := round(until - time.monotonic())) > 0:
        done = packages.run(f"-max_total_time={left}", "-max_len=8192", packages.corpus)
        if done.returncode == 0:
            break
        if any(limit in done.stderr for limit in LIMITED):
            continue
        crashes += 1
        assert LIBRARY in culprit(done.stderr), f"{packages.last_found()}\n{done.stderr[-6000:]}"
    print(f"{crashes} programs crashed the runtime")


def culprit(report: str) -> str:
    """The innermost frame of a sanitizer's report that is neither the C library's nor the sanitizer's own."""
    foreign = ("__interceptor", "__sanitizer", "__asan", "sysdeps/", "nptl/", "stdlib/", "libc.so", "fuzzer::")
    return next((frame for frame in FRAME.findall(report) if not any(word in frame for word in foreign)), "")


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
