"""The package for 64-bit Arm under a Debian 12 of its own, systemd and all, emulated: `make lab`."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from tests.lab.systemd.acting import GOOD, UNITS, decided, main_pid, states, stop, written
from tests.lab.systemd.machine import CONFIG, INSTALL, Machine, debian, package, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]  # the first run makes the root: eight minutes

CONFIGURATION = (
    GOOD.replace("fps = 30.0", "fps = 5.0")
    .replace('actuator = "arm"\n', 'actuator = "arm"\nrate_hz = 1.0\nmax_age_ms = 5000.0\n')
    .replace("deadman_ms = 250.0", "deadman_ms = 5000.0")
)
"""An inference takes a quarter of a second here, the start of a process three seconds."""
DROP_IN = "etc/systemd/system/reflexd-.service.d/50-emulated.conf"
EMULATED = """[Service]
# What the emulator of user programs cannot do: talk to the kernel about network devices, and leave its own threads.
PrivateNetwork=no
PrivateUsers=no
WatchdogSec=30s
TimeoutStartSec=120s
TimeoutStopSec=30s
"""
SLOW_S = 90.0


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with debian(tmp_path_factory.mktemp("lab"), "bookworm", "arm64") as found:
        found.boot()
        found.run(*INSTALL, found.put(package("arm64")), timeout=SLOW_S)
        (found.root / CONFIG).write_text(CONFIGURATION)
        (found.root / DROP_IN).parent.mkdir()
        (found.root / DROP_IN).write_text(EMULATED)
        found.run("systemctl", "daemon-reload")
        yield found


def acts(machine: Machine) -> float:
    """Wait for a decision on a frame taken from now on; return how long it took, s."""
    now_ns = time.monotonic_ns()
    return wait_for(lambda: bool(decided(machine, now_ns)), SLOW_S, "an action")


def test_it_acts_dies_comes_back_and_goes(machine: Machine) -> None:
    assert machine.run("uname", "-m") == "aarch64"
    checked = machine.run("reflexd", "check", f"/{CONFIG}")
    assert "worker: native" in checked
    print(checked)
    begun = time.monotonic()
    machine.run("systemctl", "enable", "--now", "reflexd.target", timeout=SLOW_S)
    acts(machine)
    print(f"an action {time.monotonic() - begun:.0f} s after the target was started")
    old = main_pid(machine, "reflexd-actuate@arm")
    machine.kill(old, signal.SIGKILL)
    struck_ns = time.monotonic_ns()
    wait_for(lambda: main_pid(machine, "reflexd-actuate@arm") not in (0, old), SLOW_S, "another process")
    acts(machine)
    assert next(line for line in written(machine) if line["t_ns"] > struck_ns)["action"] == "NOOP"
    assert states(machine) == {"active"}
    assert {machine.show(unit, "NRestarts") for unit in UNITS} == {"0", "1"}
    stop(machine)
    assert (written(machine)[-1]["action"], written(machine)[-1]["cause"]) == ("NOOP", "stop")
    machine.run("apt-get", "purge", "-y", "reflexd", timeout=SLOW_S)
    assert machine.run("getent", "passwd", "reflexd", check=False) == ""
    for path in ("usr/lib/reflexd", "usr/share/reflexd", "var/lib/reflexd", "etc/reflexd", "run/reflexd"):
        assert not (machine.root / path).exists()
