"""``realtime = true`` under a real systemd: refused, the actuator acts all the same; granted, through its sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.actuate.realtime import PRIORITY
from tests.lab.systemd.acting import GOOD, acts_again, main_pid
from tests.lab.systemd.machine import CONFIG, INSTALL, Machine, debian, package

pytestmark = pytest.mark.lab
UNIT = "reflexd-actuate@arm"
POWER = """
# A container has no limits to raise: the power itself stands for LimitRTPRIO= here. All else of the sandbox stays.
[Service]
CapabilityBoundingSet=CAP_SYS_NICE
AmbientCapabilities=CAP_SYS_NICE
PrivateUsers=no
"""


@pytest.fixture(params=["trixie", "bookworm"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    """A machine on which reflexd is installed and configured."""
    with debian(tmp_path, request.param) as found:
        found.boot()
        found.run(*INSTALL, found.put(package()))
        (found.root / CONFIG).write_text(f"{GOOD}realtime = true\n")
        yield found


def start(machine: Machine) -> tuple[str, str]:
    """Start the services; return the actuator's scheduling and its status once it has acted."""
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "reflexd.target")
    acts_again(machine)
    policy = machine.run("chrt", "-p", str(main_pid(machine, UNIT)))
    return policy, machine.show(UNIT, "StatusText")


def test_refused_it_acts_and_its_status_says_so(machine: Machine) -> None:
    policy, status = start(machine)
    assert "SCHED_OTHER" in policy
    assert "ordinary priority instead of real-time" in status
    assert machine.show(UNIT, "RestrictRealtime") == "no"
    assert machine.show(UNIT, "LimitRTPRIO") == str(PRIORITY)
    assert machine.show("reflexd-infer", "RestrictRealtime") == "yes"


def test_granted_it_is_real_time_in_its_sandbox(machine: Machine) -> None:
    drop_in = machine.root / f"etc/systemd/system/{UNIT}.service.d/60-power.conf"
    drop_in.parent.mkdir(parents=True)
    drop_in.write_text(POWER)
    policy, status = start(machine)
    assert "SCHED_FIFO|SCHED_RESET_ON_FORK" in policy
    assert policy.splitlines()[1].endswith(f": {PRIORITY}")
    assert "ordinary priority" not in status
