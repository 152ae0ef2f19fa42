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
LOADING_LIMITS = ("-malloc_limit_mb=4096", "-timeout=20")
LIMITED = ("SUMMARY: libFuzzer: out-of-memory", "SUMMARY: libFuzzer: timeout")
"""A program may ask for any memory and time; the check's own limits, of the address space and the clock, end that."""


def fuzz_build(source: Path, target: str, *options: str) -> Path:
    """A fuzz target, built with clang."""
    name = next((name for name in ("clang++-14", "clang++") if shutil.which(name)), "clang++-14")
    compiler = find_tool(name, "clang-14 libclang-rt-14-dev libmsgpack-cxx-dev nlohmann-json3-dev")
    return build(target, source, target, f"-DCMAKE_CXX_COMPILER={compiler}", *options) / target


class Fuzzer:
    """A target at work on a corpus of its own below ``folder``."""

    def __init__(self, target: Path, folder: Path, **environment: str) -> None:
        self._target, self._environment = target, environment
        self._corpus, self._found = folder / "corpus", folder / "found"
        for made in (self._corpus, self._found):
            made.mkdir()

    def seed(self, name: str, data: bytes) -> None:
        """Put an input into the corpus."""
        (self._corpus / name).write_bytes(data)

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Let it look for inputs that crash the target."""
        return subprocess.run(
            [self._target, self._corpus, "-rss_limit_mb=2048", f"-artifact_prefix={self._found}/", *options],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env=os.environ | self._environment,
        )

    def must_find_nothing(self, *options: str) -> None:
        """Let it look for as long as it may; nothing crashes."""
        done = self.run(f"-max_total_time={SECONDS}", "-max_len=4096", *options)
        assert done.returncode == 0, f"{self.last_found()}\n{done.stderr[-6000:]}"
        assert "DONE" in done.stderr, done.stderr[-2000:]

    def last_found(self) -> str:
        """The input that ended the last run."""
        newest = max(self._found.iterdir(), key=lambda path: path.stat().st_mtime_ns, default=None)
        return f"input {newest.read_bytes().hex()}" if newest else "no input was kept"


@pytest.fixture
def decoders(tmp_path: Path) -> Fuzzer:
    """What decodes any bytes."""
    return Fuzzer(fuzz_build(ROOT / "cross/fuzz", "fuzz-messages"), tmp_path)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A good package, whose files are the inputs to begin with."""
    return tiny_package(tmp_path / "package")


@pytest.fixture
def loading(tmp_path: Path, package: Path) -> Fuzzer:
    """What loads packages of any bytes; the runtime is told what cannot be allocated."""
    options = ("-DREFLEXD_FUZZ=ON", "-DREFLEXD_SANITIZE=ON", "-DCMAKE_BUILD_TYPE=Debug")
    return Fuzzer(
        fuzz_build(ROOT / "cross", "fuzz-package", *options),
        tmp_path,
        REFLEXD_FUZZ_PACKAGE=str(package),
        ASAN_OPTIONS="allocator_may_return_null=1:handle_abort=1",
    )


def seed_of(package: Path, letter: str, file: str) -> bytes:
    """A file of the package, after the letter that says which it is."""
    return letter.encode() + (package / file).read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 1200)
def test_no_bytes_crash_the_decoders(decoders: Fuzzer, tmp_path: Path) -> None:
    for name, seed in seeds().items():
        decoders.seed(name, seed)
    (tmp_path / "words").write_text("".join(f'"{word}"\n' for word in sorted(words())))
    # One allocation is what an input can claim; the whole process is mostly the fuzzer's corpus and ASan's graveyard.
    decoders.must_find_nothing("-malloc_limit_mb=64", "-timeout=10", f"-dict={tmp_path / 'words'}")


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 1200)
def test_no_manifest_and_no_goldens_crash_the_worker(loading: Fuzzer, package: Path) -> None:
    loading.seed("manifest", seed_of(package, "m", "manifest.json"))
    loading.seed("goldens", seed_of(package, "g", "goldens.bin"))
    loading.must_find_nothing(*LOADING_LIMITS)


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 1200)
def test_a_damaged_program_crashes_nothing_but_the_runtime(loading: Fuzzer, package: Path) -> None:
    """The runtime has no defence against some damage; a package's check runs in a process of its own for that."""
    loading.seed("program", seed_of(package, "p", "model.pte"))
    crashes, until = 0, time.monotonic() + SECONDS
    while (left := round(until - time.monotonic())) > 0:
        done = loading.run(f"-max_total_time={left}", "-max_len=8192", *LOADING_LIMITS)
        if done.returncode == 0:
            break
        if any(limit in done.stderr for limit in LIMITED):
            continue
        crashes += 1
        assert LIBRARY in culprit(done.stderr), f"{loading.last_found()}\n{done.stderr[-6000:]}"
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
