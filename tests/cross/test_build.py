"""What `make worker` makes: a folder that runs from anywhere, of the exporter's version, and says what it is."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path

import pytest

import daemon
from daemon.declarations import declarations_digest
from daemon.workers import CHECKOUT
from tests.packages import quiet
from tests.peers import BUILD_LIMIT_S, worker

pytestmark = pytest.mark.timeout(BUILD_LIMIT_S + 300)
CROSS = CHECKOUT / "cross"
PONG = CHECKOUT / "models" / "pong" / "package"


@pytest.fixture(scope="module")
def binary() -> Path:
    return Path(worker("native").path)


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"]} | environment
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)


def test_a_copy_elsewhere_runs_with_its_own_libraries(binary: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(binary.parent, tmp_path / "anywhere")
    done = run(moved / binary.name, "--check", PONG, LD_DEBUG="libs", LD_DEBUG_OUTPUT=str(tmp_path / "loader"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ok"]
    [log] = tmp_path.glob("loader.*")
    loaded = set(re.findall(r"calling init: (\S*libexecutorch\S*)", log.read_text()))
    assert loaded == {str(path) for path in moved.glob("*.so")}


def test_the_tarball_is_the_folder(binary: Path) -> None:
    name = f"reflexd-worker-{daemon.__version__}-{platform.machine()}.tar.gz"
    with tarfile.open(CROSS / "dist" / name) as tarball:
        inside = {Path(member).name for member in tarball.getnames()} - {"reflexd-worker"}
        assert inside | {"reflexd-worker"} == {path.name for path in binary.parent.iterdir()}
        packed = tarball.extractfile("reflexd-worker/reflexd-worker")
        assert packed is not None
        assert packed.read() == binary.read_bytes()


def test_no_path_of_the_building_machine_is_in_the_binary(binary: Path) -> None:
    data = binary.read_bytes()
    for folder in (CHECKOUT, Path.home(), Path("/usr/include"), Path("site-packages")):
        assert os.fsencode(folder) + b"/" not in data


def test_the_licences_are_beside_it(binary: Path) -> None:
    wheel = importlib.metadata.distribution("executorch")
    [licence] = [path for path in wheel.files or [] if path.name == "LICENSE" and "dist-info" in str(path)]
    assert (binary.parent / "LICENSE.executorch").read_bytes() == Path(str(licence.locate())).read_bytes()
    assert (binary.parent / "LICENSE").read_bytes() == (CHECKOUT / "LICENSE").read_bytes()


def test_it_says_what_it_is_made_of(binary: Path) -> None:
    told = json.loads(run(binary, "--version", "--json").stdout)
    assert told["worker"] == daemon.__version__
    assert told["messages"] == declarations_digest()
    assert told["executorch"] == importlib.metadata.version("executorch").split("+")[0]
    assert told["backends"] == ["XnnpackBackend"]
    assert told["arch"] == platform.machine()
    assert told["cpu_found"]
    text = run(binary, "--version").stdout
    assert text.startswith(f"reflexd-worker {daemon.__version__}\n")
    for name in told.keys() - {"worker"}:
        assert f"\n  {name}: " in text


def test_the_device_gets_the_exporters_version() -> None:
    exporter = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["export"]
    [pinned] = re.findall(r"^executorch==\S+", (CROSS / "requirements-aarch64.txt").read_text(), re.MULTILINE)
    assert pinned in exporter


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "nothing to do"),
        (["--fd", "3"], "nothing to do"),
        (["--frob"], "unknown argument --frob"),
        (["--check"], "--check: expected a value"),
        (["--check", "x", "--threads", "0"], "--threads 0: expected a number from 1 to 64"),
        (["--check", "x", "--threads", "2x"], "--threads 2x: expected a number"),
        (["--fd", "-1", "--rings", "x"], "--fd -1: expected a number"),
    ],
)
def test_a_wrong_command_line_is_answered_with_the_right_one(
    binary: Path, arguments: list[str], complaint: str
) -> None:
    done = run(binary, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"reflexd-worker: {complaint}")
    assert "--check PACKAGE [--threads N]" in done.stderr


def test_a_descriptor_that_is_no_link_is_an_error(binary: Path) -> None:
    done = run(binary, "--fd", "1", "--rings", "/")
    assert done.returncode == 1
    assert "--fd 1: Socket operation on non-socket" in done.stderr


def test_a_profile_can_be_read_on_the_host(binary: Path, tmp_path: Path) -> None:
    profile = tmp_path / "pong.etdump"
    assert run(binary, "--check", PONG, "--etdump", profile).returncode == 0
    with quiet():
        from executorch.devtools import Inspector

        blocks = {block.name: block for block in Inspector(etdump_path=str(profile)).event_blocks}
    times = {event.name: event.perf_data.raw for event in blocks["Execute"].events if event.perf_data}
    assert len(times["native_call_embedding.out"]) == 20
    assert all(time > 0 for time in times["Method::execute"])


def test_what_the_build_lacks_is_said_in_one_sentence(tmp_path: Path) -> None:
    done = run(CROSS / "prerequisites.sh", "no-such-compiler", tmp_path, "apt install it")
    assert done.returncode == 1
    assert done.stderr.endswith(
        f"lacks no-such-compiler {tmp_path}/libcrypto.a; install what is missing: apt install it\n"
    )
    assert done.stderr.count("\n") == 1
