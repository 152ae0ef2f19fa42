"""``reflexctl`` against a real daemon: on this machine, and over the network with keys."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from tests.gateway_daemon import Running, running
from tests.packages import tiny_package

REFLEXCTL = str(Path(sys.executable).with_name("reflexctl"))
PROMPT_S = 4.0
"""A clear answer, with the start of the command line itself on a busy machine."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Operator:
    """Somebody with a configuration folder of their own."""

    def __init__(self, folder: Path, daemon: Running, port: int) -> None:
        self.folder, self.daemon, self.port = folder, daemon, port

    def run(self, *words: str) -> tuple[int, str]:
        """Exit status and all that was said."""
        home = {"XDG_CONFIG_HOME": str(self.folder), "XDG_RUNTIME_DIR": str(self.folder)}
        began = time.monotonic()
        done = subprocess.run(
            [REFLEXCTL, *words], capture_output=True, text=True, env={**os.environ, **home}, timeout=30, check=False
        )
        self.lasted_s = time.monotonic() - began
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout + done.stderr

    def here(self, *words: str) -> str:
        """Done on this machine."""
        status, said = self.run("--runtime", str(self.daemon.folder / "run"), *words)
        assert status == 0, said
        return said

    def key_of_device(self) -> str:
        """As the device's operator reads it out."""
        said = self.here("keys", "show", "--config", str(self.daemon.folder / "test.toml"))
        return next(line.split("\t")[0] for line in said.splitlines() if "the device" in line)

    def make_key(self) -> str:
        return self.run("keys", "new")[1].splitlines()[0]

    def trust(self, public: str, *more: str) -> None:
        self.here("keys", "trust", "--config", str(self.daemon.folder / "test.toml"), "ada", public, *more)
        time.sleep(0.5)  # looked at ten times a second


@pytest.fixture
def operator(run_folder: Path) -> Iterator[Operator]:
    port = free_port()
    gateway = f'listen = "127.0.0.1"\nport = {port}'
    with running(run_folder, tiny_package(run_folder / "good"), gateway=gateway) as daemon:
        yield Operator(run_folder / "operator", daemon, port)


def test_every_command_works_on_this_machine(operator: Operator) -> None:
    here = operator.here
    assert "infer: " in here("status")
    assert json.loads(here("status", "--json"))["status"] == "done"
    assert "good ready, priority 5, 30 Hz, model good" in here("agents", "list")
    assert "paused" in here("agents", "pause", "good")
    assert "resumed" in here("agents", "resume", "good")
    assert "priority 7" in here("agents", "priority", "good", "7")
    assert "20 Hz" in here("agents", "rate", "good", "20")
    assert "arm: done: " in here("valves")
    assert "good; it takes effect" in here("check")
    assert "stopped; neutral; latched on disk" in here("estop", "arm")
    assert "cleared" in here("clear")
    assert "armed" in here("arm")
    assert "disarmed" in here("disarm")
    out = operator.daemon.folder / "seen.png"
    assert "16x16-gray8 of cam" in here("snapshot", "cam", "--as", "good", "-o", str(out))
    assert Image.open(io.BytesIO(out.read_bytes())).size == (16, 16)
    assert "agent good: pause good by 'local, through the gateway'" in here("logs", "--agent", "good")
    assert "Health" in here("telemetry", "-n", "20", "--json") + here("telemetry", "-n", "20", "--json")
    package = tiny_package(operator.daemon.folder / "source", burn=1)
    assert "can be activated" in here("models", "push", str(package), "other")
    assert here("models", "list").startswith("other: tiny, ")
    assert "on trial for 10 s" in here("models", "activate", "good", "other")
    assert "cam" in here("top")


def test_without_a_choice_it_is_clear_what_to_do(operator: Operator) -> None:
    status, said = operator.run("status")
    assert (status, "--runtime DIR" in said) == (os.EX_CONFIG, True), said
    status, said = operator.run("--runtime", "/dev/shm/nobody", "status")
    assert (status, "does the daemon run, with a [gateway] table?" in said) == (os.EX_UNAVAILABLE, True), said
    assert operator.lasted_s < PROMPT_S
    assert operator.run("--all", "status")[1].strip().endswith("reflexctl devices add NAME HOST SERVER_KEY")


def test_keys_and_roles_from_another_machine(operator: Operator) -> None:
    device, public = operator.key_of_device(), operator.make_key()
    assert operator.run("devices", "add", "car", "127.0.0.1", device, str(operator.port))[0] == 0
    status, said = operator.run("--device", "car", "status")
    assert (status, "the keys do not fit" in said) == (os.EX_NOPERM, True), said
    assert operator.lasted_s < PROMPT_S
    operator.trust(public)
    assert operator.run("--device", "car", "status")[0] == 0
    for words in (["disarm"], ["agents", "pause", "good"], ["models", "activate", "good"], ["snapshot", "cam"]):
        status, said = operator.run("--device", "car", *words)
        assert status == os.EX_NOPERM, said
        assert "ada " in said
    operator.trust(public, "--role", "admin", "--frames")
    assert operator.run("--device", "car", "disarm")[0] == 0
    assert operator.run("--device", "car", "snapshot", "cam", "-o", str(operator.folder / "x.png"))[0] == 0
    assert "ada\tadmin\tframes" in operator.here("keys", "list", "--config", str(operator.daemon.folder / "test.toml"))
    operator.here("keys", "revoke", "--config", str(operator.daemon.folder / "test.toml"), "ada")
    time.sleep(0.5)
    status, said = operator.run("--device", "car", "status")
    assert status == os.EX_NOPERM, said
    assert public in operator.here("logs", "--level", "warning"), "whose key was not let in is in the log"


def test_a_wrong_server_key_and_an_open_secret(operator: Operator) -> None:
    public = operator.make_key()
    operator.trust(public)
    where = ("--host", "127.0.0.1", "--port", str(operator.port), "--server-key")
    status, said = operator.run(*where, public, "status")
    assert (status, "the keys do not fit" in said) == (os.EX_NOPERM, True), said
    assert operator.lasted_s < PROMPT_S
    device, key = operator.key_of_device(), operator.folder / "reflexd/client.key"
    key.chmod(0o644)
    status, said = operator.run(*where, device, "status")
    assert status != 0
    assert f"chmod 600 {key}" in said


def test_all_devices_at_once_and_the_dead_one_is_named(operator: Operator) -> None:
    device, public = operator.key_of_device(), operator.make_key()
    operator.trust(public)
    operator.run("devices", "add", "car", "127.0.0.1", device, str(operator.port))
    operator.run("devices", "add", "gone", "127.0.0.1", device, str(free_port()))
    status, said = operator.run("--all", "valves")
    assert status == os.EX_NOPERM, said
    operator.trust(public, "--role", "operate")
    status, said = operator.run("--all", "valves")
    assert "car: arm: done: " in said
    assert "gone: reflexctl: nobody at tcp://127.0.0.1:" in said
    assert status == os.EX_UNAVAILABLE


def test_the_log_is_followed_over_a_restart_of_the_gateway(operator: Operator) -> None:
    folder = operator.daemon.folder
    follower = subprocess.Popen(
        [REFLEXCTL, "--runtime", str(folder / "run"), "logs", "-f", "--process", "infer"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        time.sleep(2.0)
        operator.here("agents", "pause", "good")
        os.kill(operator.daemon.pid("gateway"), signal.SIGKILL)
        time.sleep(3.0)
        operator.here("agents", "resume", "good")
        time.sleep(2.0)
    finally:
        follower.send_signal(signal.SIGINT)
        said = follower.communicate(timeout=10)[0].decode()
    assert "pause good by 'local" in said
    assert "the gateway was started anew" in said
    assert "resume good by 'local" in said
    assert said.count("resume good by 'local") == 1
