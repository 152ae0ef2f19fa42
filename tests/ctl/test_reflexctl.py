"""``reflexctl`` against a real daemon: on this machine, and over the network with keys."""

from __future__ import annotations

import io
import json
import os
import time

import pytest
from PIL import Image

from tests.ctl.operators import PROMPT_S, Operator
from tests.gateway_daemon import free_port
from tests.packages import tiny_package

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def test_every_command_works_on_this_machine(operator: Operator) -> None:
    here = operator.here
    until = time.monotonic() + 20
    while "infer: running" not in here("status"):  # it says its first word some time after the gateway is there
        assert time.monotonic() < until, operator.daemon.log()
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
    commands = here("logs", "--process", "gateway", "--grep", " by local: ")
    assert "ChangeAgent agent=good change=pause by local: done" in commands
    assert "Picture source=cam agent=good by local: done" in commands
    assert "=status" not in commands, "who only looks is not one of those who command"
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
    status, said = operator.run("--all", "disarm")
    assert status == os.EX_NOPERM, said
    operator.trust(public, "--role", "operate")
    status, said = operator.run("--all", "valves")
    assert "car: arm: done: " in said
    assert "gone: reflexctl: nobody at tcp://127.0.0.1:" in said
    assert status == os.EX_UNAVAILABLE
