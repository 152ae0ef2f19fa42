"""The gateway as a service: commands, the journal's log, models and keys, in the sandbox of its unit: `make lab`."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator

import pytest

from daemon.workers import CHECKOUT
from tests.lab.systemd.acting import GOOD, RECOVERY_S, acts_again, main_pid
from tests.lab.systemd.machine import Machine, installed, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

WITH_GATEWAY = GOOD + '\n[infer]\ntrial_s = 1.0\n\n[gateway]\nlisten = "127.0.0.1"\n'
UNIT = "reflexd-gateway"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with installed(tmp_path_factory.mktemp("lab"), WITH_GATEWAY) as found:
        found.chroot("systemctl", "enable", "reflexd.target")
        found.boot()
        acts_again(found)
        wait_for(lambda: found.show(UNIT, "ActiveState") == "active", RECOVERY_S, "the gateway")
        yield found


def ask(machine: Machine, *words: str, check: bool = True) -> str:
    return machine.run("reflexctl", *words, check=check)


def test_its_sandbox_is_tight_and_it_says_how_it_is(machine: Machine) -> None:
    print(machine.run("systemd-analyze", "security", "--threshold=15", f"{UNIT}.service").splitlines()[-1])
    assert machine.run("systemd-analyze", "verify", "--man=no", f"{UNIT}.service") == ""
    wait_for(lambda: "requests" in machine.show(UNIT, "StatusText"), RECOVERY_S, "a status text")
    print(machine.show(UNIT, "StatusText"))


def test_the_operator_on_the_device_needs_no_choice(machine: Machine) -> None:
    assert "infer: " in ask(machine, "status")
    assert "watcher ready" in ask(machine, "agents", "list")
    assert "stopped; neutral; latched on disk" in ask(machine, "estop")
    ask(machine, "clear")
    assert "armed" in ask(machine, "arm")
    acts_again(machine)


def test_the_log_is_the_journals(machine: Machine) -> None:
    """What systemd says of the units is there, too."""
    said = ask(machine, "logs", "-n", "1000")
    assert "infer: agent watcher: ready" in said
    assert "Started reflexd-infer.service" in said or "Started reflexd: inference" in said
    assert "sshd" not in said
    begun = time.time()
    machine.run("systemctl", "restart", "reflexd-capture@cam")
    acts_again(machine)
    later = [json.loads(line) for line in ask(machine, "logs", "--since", "60s", "--json").splitlines()]
    assert any("capture@cam" in line["record"]["process"] for line in later if line["record"]["at_us"] > begun * 1e6)


def test_keys_let_in_and_roles_hold(machine: Machine) -> None:
    device = ask(machine, "keys", "show").split("\t")[0]
    public = ask(machine, "keys", "new").splitlines()[0]
    ask(machine, "devices", "add", "self", "127.0.0.1", device)
    assert "the keys do not fit" in ask(machine, "--device", "self", "status", check=False)
    ask(machine, "keys", "trust", "ada", public, "--role", "observe")
    wait_for(lambda: "infer: " in ask(machine, "--device", "self", "status", check=False), 5.0, "trust")
    assert "this needs operate" in ask(machine, "--device", "self", "disarm", check=False)
    ask(machine, "keys", "revoke", "ada")
    wait_for(lambda: "do not fit" in ask(machine, "--device", "self", "status", check=False), 5.0, "mistrust")


def test_a_model_is_pushed_and_acts_and_stays_over_a_restart(machine: Machine) -> None:
    folder = machine.root / "srv/pong"
    shutil.copytree(CHECKOUT / "models/pong/package", folder, dirs_exist_ok=True)
    assert "/var/lib/reflexd/models/next: can be activated" in ask(machine, "models", "push", "/srv/pong", "next")
    ask(machine, "models", "activate", "watcher", "next")
    wait_for(lambda: "next kept" in ask(machine, "agents", "list"), RECOVERY_S, "the model")
    machine.run("systemctl", "restart", "reflexd-infer")
    acts_again(machine)
    assert "model next" in ask(machine, "agents", "list")
    ask(machine, "models", "activate", "watcher")
    wait_for(lambda: "model pong" in ask(machine, "agents", "list"), RECOVERY_S, "the configured model")


def test_a_killed_gateway_is_back_and_nobody_else_noticed(machine: Machine) -> None:
    others = {unit: main_pid(machine, unit) for unit in ("reflexd-infer", "reflexd-actuate@arm", "reflexd-capture@cam")}
    pid = main_pid(machine, UNIT)
    machine.kill(pid, signal.SIGKILL)
    wait_for(lambda: main_pid(machine, UNIT) not in (0, pid), RECOVERY_S, "another gateway")
    wait_for(lambda: "infer: " in ask(machine, "status", check=False), RECOVERY_S, "an answer")
    assert {unit: main_pid(machine, unit) for unit in others} == others
