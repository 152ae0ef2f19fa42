"""The client of docs/protocol.md in C++: built as it says, run against a real daemon, with keys and without."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.allowlist import Trusted, write_allow_list
from daemon.keys import KeyPair, new_key, read_key
from daemon.remote import Role
from tests.configs import acting
from tests.packages import tiny_package
from tests.system.game import REFLEXD

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "docs/client.cpp"
PORT = 27390
CONFIG = """
[daemon]
name = "test"
runtime = "{folder}/run"
state = "{folder}/state"
[sources.cam]
kind = "synthetic"
width = 64
height = 48
[gateway]
listen = "127.0.0.1"
port = {port}
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built by the command in its own comment."""
    out = tmp_path_factory.mktemp("cpp") / "client"
    words = shlex.split(SOURCE.read_text().splitlines()[1].removeprefix("//"))
    assert shutil.which(words[0]), "no C++ compiler: apt install g++ libzmq3-dev libmsgpack-cxx-dev"
    command = [*words[: words.index("-o")], "-Wall", "-Wextra", "-Werror", "-o", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=120)
    return out


@pytest.fixture
def daemon(run_folder: Path) -> Iterator[Path]:
    """Folder of a daemon with a gateway; it is up."""
    config = CONFIG.format(folder=run_folder, port=PORT) + acting("good", "arm", str(tiny_package(run_folder / "good")))
    (run_folder / "test.toml").write_text(config)
    with (run_folder / "log").open("w") as log:
        process = subprocess.Popen([REFLEXD, "run", str(run_folder / "test.toml"), "--plain"], stderr=log)
    try:
        until = time.monotonic() + 60
        while not (run_folder / "state/gateway.key").exists() or not (run_folder / "run/requests@gateway").exists():
            assert time.monotonic() < until, (run_folder / "log").read_text()
            time.sleep(0.05)
        yield run_folder
    finally:
        process.terminate()
        assert process.wait(timeout=10) == 0


def run(client: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run([client, *words], capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stdout + done.stderr


def test_it_commands_the_actuators_of_this_machine(client: Path, daemon: Path) -> None:
    address = f"ipc://{daemon}/run/requests@gateway"
    status, words = run(client, address, "estop")
    assert status == 0, words
    assert "latched on disk" in words
    assert "by local, through the gateway" in words
    assert (daemon / "state/arm.estop").exists()
    status, words = run(client, address, "jump")
    assert status != 0
    assert "malformed" in words
    assert "jump" in words


def test_it_comes_in_with_a_trusted_key_alone(client: Path, daemon: Path) -> None:
    own = new_key(daemon / "own.key")
    server = read_key(daemon / "state/gateway.key").public
    keys = (server, own.public, own.secret)
    status, words = run(client, f"tcp://127.0.0.1:{PORT}", "status", *keys)
    assert (status, "or the keys do not fit" in words) == (69, True), words
    _trust(daemon, own, "observe")
    status, words = run(client, f"tcp://127.0.0.1:{PORT}", "disarm", *keys)
    assert status == 1
    assert "cpp may observe, this needs operate" in words
    _trust(daemon, own, "operate")
    status, words = run(client, f"tcp://127.0.0.1:{PORT}", "disarm", *keys)
    assert status == 0, words
    time.sleep(0.5)  # lines are written a few times a second
    assert "by 'cpp, through the gateway'" in (daemon / "log").read_text()


def _trust(daemon: Path, own: KeyPair, role: Role) -> None:
    """Trust the key; the gateway looks at its allow-list ten times a second."""
    write_allow_list(daemon / "state/clients.toml", {"cpp": Trusted(key=own.public, role=role)})
    time.sleep(0.5)
