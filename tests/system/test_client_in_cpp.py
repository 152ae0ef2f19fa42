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
from tests.gateway_daemon import Running, free_port, listening, running
from tests.packages import tiny_package

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "docs/client.cpp"
PORT = free_port()
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
def daemon(run_folder: Path) -> Iterator[Running]:
    with running(run_folder, tiny_package(run_folder / "good"), gateway=listening(PORT)) as found:
        yield found


def run(client: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run([client, *words], capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stdout + done.stderr


def test_it_commands_the_actuators_of_this_machine(client: Path, daemon: Running) -> None:
    address = daemon.address.requests
    status, words = run(client, address, "estop")
    assert status == 0, words
    assert "latched on disk" in words
    assert "by local, through the gateway" in words
    assert (daemon.folder / "state/arm.estop").exists()
    status, words = run(client, address, "jump")
    assert status != 0
    assert "malformed" in words
    assert "jump" in words


def test_it_comes_in_with_a_trusted_key_alone(client: Path, daemon: Running) -> None:
    own = new_key(daemon.folder / "own.key")
    server = read_key(daemon.folder / "state/gateway.key").public
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
    assert "by 'cpp, through the gateway'" in daemon.log()


def _trust(daemon: Running, own: KeyPair, role: Role) -> None:
    """Trust the key; the gateway looks at its allow-list ten times a second."""
    write_allow_list(daemon.folder / "state/clients.toml", {"cpp": Trusted(key=own.public, role=role)})
    time.sleep(0.5)
