"""Packages that must not act: each is refused by a real throw-away process, with words that say why."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from daemon.infer.verify import Verdict, Verification, verify_in_process
from daemon.package import MANIFEST_FILE, file_sha256, read_manifest
from tests.infer.programs import FOREIGN, foreign, with_program
from tests.packages import pin_hashes, rewrite_manifest, tiny_package
from tests.peers import BUILD_LIMIT_S, worker

pytestmark = pytest.mark.timeout(BUILD_LIMIT_S)

REPOSITORY = Path(__file__).parents[2]
LIMIT_S = 60.0


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return tiny_package(tmp_path / "package")


@pytest.fixture(params=["python", "native"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


Refused = Callable[[Path], str]


@pytest.fixture
def refused(kind: str) -> Refused:
    """Checks a package that must be refused; why it was."""

    def check(package: Path) -> str:
        verdict = verify_in_process(worker(kind), package, threads=1, timeout_s=LIMIT_S)
        assert not verdict.ok
        assert (verdict.p50_ms, verdict.p99_ms) == (0.0, 0.0)
        return verdict.detail

    return check


def test_a_good_package_may_act(package: Path, kind: str) -> None:
    verdict = verify_in_process(worker(kind), package, threads=1, timeout_s=LIMIT_S)
    manifest = read_manifest(package)
    assert verdict.ok, verdict.detail
    assert verdict.detail == ""
    assert 0 < verdict.p50_ms <= verdict.p99_ms
    least, most = {"python": (100, 500), "native": (3, 60)}[kind]
    assert least < verdict.peak_rss_mb < most
    assert verdict.versions["executorch"] == manifest.built_with["executorch"]
    assert verdict.manifest_sha256 == file_sha256(package / MANIFEST_FILE)
    assert verdict.goldens == manifest.goldens.count
    assert 0 <= verdict.max_abs_error <= manifest.goldens.tolerance


def test_whoever_waits_for_the_verdict_alone_gets_no_latency(package: Path, kind: str) -> None:
    check = Verification(worker(kind), package, threads=1, timeout_s=LIMIT_S, measured=False)
    check.start()
    verdict = check.wait()
    assert verdict.ok, verdict.detail
    assert (verdict.p50_ms, verdict.p99_ms) == (0.0, 0.0)
    assert verdict.goldens == read_manifest(package).goldens.count


def test_the_command_prints_one_line_and_sets_the_exit_status(package: Path, kind: str) -> None:
    worker(kind)
    command = [sys.executable, "-m", "daemon.infer.verify", str(package), "--threads", "2", "--worker", kind]
    good = subprocess.run(command, capture_output=True, timeout=LIMIT_S, cwd=REPOSITORY, check=False)
    assert good.returncode == 0
    assert msgspec.json.decode(good.stdout, type=Verdict).ok
    (package / "goldens.bin").unlink()
    bad = subprocess.run(command, capture_output=True, timeout=LIMIT_S, cwd=REPOSITORY, check=False)
    assert bad.returncode == 1
    assert bad.stdout.count(b"\n") == 1
    assert "goldens.bin: No such file" in msgspec.json.decode(bad.stdout, type=Verdict).detail


def test_the_caller_stays_free_of_torch() -> None:
    code = "import sys, daemon.infer.verify; sys.exit(any('torch' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, timeout=LIMIT_S, check=False).returncode == 0


# --- what needs no native code: answered from manifest and hashes ------------------------------------------------


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"manifest_version": 2}, "manifest_version = 2; this build reads 1"),
        ({"inputs": [{"role": "sonar", "name": "s"}]}, "Invalid value 'sonar'"),
        ({"colour": "blue"}, "unknown field `colour`"),
        ({"quantisation": "int3"}, "`$.quantisation`"),
    ],
)
def test_a_manifest_of_another_kind_is_refused(
    package: Path, refused: Refused, change: dict[str, object], complaint: str
) -> None:
    rewrite_manifest(package, **change)
    assert complaint in refused(package)


def test_a_truncated_file_is_refused_by_its_size(package: Path, refused: Refused) -> None:
    path = package / "model.pte"
    path.write_bytes(path.read_bytes()[:-100])
    assert "a truncated or foreign file" in refused(package)


def test_a_flipped_bit_is_refused_by_its_hash(package: Path, refused: Refused) -> None:
    path = package / "model.pte"
    data = bytearray(path.read_bytes())
    data[-40] ^= 1
    path.write_bytes(data)
    assert "model.pte: sha256 is" in refused(package)


# --- what native code says, once past the hashes ------------------------------------------------------------------


def test_flipped_weight_bits_are_caught_by_the_goldens(package: Path, refused: Refused) -> None:
    program = (package / "model.pte").read_bytes()
    weight = struct.pack("<f", 8.0 / 5)
    assert weight in program
    detail = refused(with_program(package, program.replace(weight, struct.pack("<f", 0.8))))
    assert "golden 0: the output is" in detail
    assert "off, 0.001 allowed: damaged weights" in detail


def test_outputs_that_are_not_numbers_are_refused(tmp_path: Path, refused: Refused) -> None:
    package = tiny_package(tmp_path / "package", nan_when_bright=True)
    goldens = bytearray((package / "goldens.bin").read_bytes())
    goldens[:256] = b"\xff" * 256
    (package / "goldens.bin").write_bytes(goldens)
    pin_hashes(package)
    assert "golden 0: expected finite outputs, got [nan, nan, nan]" in refused(package)


@pytest.mark.parametrize(
    ("index", "change", "complaint"),
    [
        (1, {"shape": [1, 5]}, "input history: the manifest says int64 [1, 5], the program int64 [1, 4]"),
        (1, {"dtype": "int32"}, "input history: the manifest says int32 [1, 4], the program int64 [1, 4]"),
        (1, {"name": "past", "shape": [1, 2]}, "input past: the manifest says int64 [1, 2]"),
    ],
)
def test_a_program_unlike_its_manifest_is_refused(
    package: Path, refused: Refused, index: int, change: dict[str, object], complaint: str
) -> None:
    inputs = msgspec.json.decode((package / "manifest.json").read_bytes())["inputs"]
    inputs[index] |= change
    rewrite_manifest(package, inputs=inputs)
    assert complaint in refused(package)


def test_operators_and_backends_this_runtime_lacks_are_named(package: Path, refused: Refused) -> None:
    rewrite_manifest(package, operators=["aten::mean.out", "cortex_m::pad.out"], backends=["EthosUBackend"])
    assert "this runtime lacks operator cortex_m::pad.out, backend EthosUBackend" in refused(package)


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_file_is_refused_with_names(package: Path, refused: Refused, name: str) -> None:
    detail = refused(with_program(package, foreign(name)))
    for complaint in FOREIGN[name]:
        assert complaint in detail


def test_a_backend_that_cannot_start_is_named(package: Path, refused: Refused) -> None:
    renamed = foreign("qnn.pte").replace(b"\x0a\0\0\0kv_forward\0", b"\x07\0\0\0forward\0\0\0\0")
    detail = refused(with_program(package, renamed))
    assert re.search("Init failed for backend QnnBackend|this runtime lacks backend QnnBackend", detail), detail


@pytest.mark.parametrize("identifier", [b"\xff\xfe\xfd\xfc", b"ET11", b"\0\0\0\0"])
def test_another_identifier_is_refused_before_native_code(package: Path, refused: Refused, identifier: bytes) -> None:
    program = bytearray((package / "model.pte").read_bytes())
    program[4:8] = identifier
    assert f"bytes 4-8 are {identifier!r}, expected b'ET12'" in refused(with_program(package, bytes(program)))


def test_a_file_of_seven_bytes_is_refused(package: Path, refused: Refused) -> None:
    assert "not a program" in refused(with_program(package, b"\x20\0\0\0ET1"))


def test_a_truncated_program_with_a_fitting_manifest_is_refused(package: Path, refused: Refused) -> None:
    detail = refused(with_program(package, (package / "model.pte").read_bytes()[:1000]))
    assert "invalid program: damaged" in detail
