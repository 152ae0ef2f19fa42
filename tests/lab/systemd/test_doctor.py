"""``reflexd doctor`` from the Debian package, beside real services of a real systemd."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.systemd.acting import GOOD, RECOVERY_S, acts_again, main_pid
from tests.lab.systemd.machine import CONFIG, INSTALL, Machine, debian, package, wait_for

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module", params=["trixie", "bookworm"])
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine whose services act."""
    with debian(tmp_path_factory.mktemp("lab"), request.param) as found:
        found.boot()
        found.run(*INSTALL, found.put(package()))
        (found.root / CONFIG).write_text(GOOD)
        found.run("systemctl", "daemon-reload")
        found.run("systemctl", "enable", "--now", "reflexd.target")
        acts_again(found)
        yield found


def findings(machine: Machine, *as_whom: str) -> list[dict[str, Any]]:
    told = json.loads(machine.run(*as_whom, "reflexd", "doctor", "--json", check=False))
    found: list[dict[str, Any]] = told["findings"]
    assert told["ok"] == (not [finding for finding in found if finding["status"] == "fail"])
    assert not [finding for finding in found if "itself failed" in finding["found"]]
    return found


def lines(found: list[dict[str, Any]], check: str) -> list[str]:
    return [f"{finding['status']} {finding['found']}" for finding in found if finding["check"] == check]


def test_a_machine_at_work_has_no_failure(machine: Machine) -> None:
    found = findings(machine)
    assert [finding for finding in found if finding["status"] == "fail"] == []
    running = {line.split(":")[0] for line in lines(found, "units")}
    assert running == {
        "ok reflexd.target",
        "ok reflexd-infer.service",
        "ok reflexd-capture@cam.service",
        "ok reflexd-actuate@arm.service",
    }
    (runs,) = lines(found, "runs")
    assert runs.startswith("ok main runs: actuate@arm ")
    (worker,) = lines(found, "worker")
    assert "/usr/lib/reflexd/worker/reflexd-worker" in worker
    assert lines(found, "config") == [f"ok /{CONFIG}: main: 1 source, 1 agent, 1 actuator"]


def test_what_has_happened_is_seen(machine: Machine) -> None:
    machine.run("reflexd", "estop")
    before = main_pid(machine, "reflexd-infer")
    machine.kill(before, signal.SIGKILL)
    wait_for(lambda: main_pid(machine, "reflexd-infer") not in (0, before), RECOVERY_S, "another infer")
    found = findings(machine)
    (stopped,) = lines(found, "e-stop")
    assert stopped.startswith("warn arm stands still: ")
    assert any("reflexd-infer.service" in line and "restarted 1 times" in line for line in lines(found, "units"))
    machine.run("reflexd", "clear")
    machine.run("reflexd", "arm")


def test_another_user_is_told_what_is_hidden(machine: Machine) -> None:
    found = findings(machine, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    hidden = [finding for finding in found if finding["fix"] == "sudo reflexd doctor"]
    assert {finding["check"] for finding in hidden} == {"runs", "e-stop"}
    assert {finding["status"] for finding in hidden} == {"skip"}
