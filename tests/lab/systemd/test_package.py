"""The Debian package on real Debian machines: installed, upgraded and downgraded at work, purged: `make lab`."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon import __version__
from tests.lab.systemd.acting import GOOD, RECOVERY_S, UNITS, acts_again, decided, main_pid, states, stop, written
from tests.lab.systemd.machine import CONFIG, INSTALL, Machine, debian, package, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

NEXT_VERSION = "99.0"
OWN_MODEL = "var/lib/reflexd/models/own"
OWN = GOOD.replace("/usr/share/reflexd/pong", f"/{OWN_MODEL}")
ADDED = "usr/lib/reflexd/daemon/added.py"
"""A module that the next version has and this one has not."""
LEFT_BY_OTHERS = re.compile(
    r"/etc/(passwd|group|shadow|gshadow|subuid|subgid)-|/etc/\.(pwd\.lock|updated)"  # of any user added
    r"|/var/(log|cache|tmp)/.*|/var/lib/(dpkg|apt|systemd|dbus)/.*"
)
"""What the system writes whichever package comes and goes."""


@pytest.fixture(scope="module")
def next_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This build under a later version number, with one module more."""
    tree = tmp_path_factory.mktemp("next") / "reflexd"
    subprocess.run(["dpkg-deb", "--raw-extract", package(), tree], check=True)
    for path in (tree / "DEBIAN/control", tree / "usr/lib/reflexd/daemon/__init__.py"):
        path.write_text(path.read_text().replace(__version__, NEXT_VERSION))
    (tree / ADDED).write_text("")
    built = tree.with_name(f"reflexd_{NEXT_VERSION}_amd64.deb")
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, built], check=True, capture_output=True)
    return built


@pytest.fixture(scope="module", params=["trixie", "bookworm"])
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine that runs, without reflexd."""
    with debian(tmp_path_factory.mktemp("lab"), request.param) as found:
        found.boot()
        yield found


@pytest.fixture
def bare(machine: Machine) -> Iterator[Machine]:
    """The machine, with whatever a test installs taken away again."""
    yield machine
    machine.run("apt-get", "purge", "-y", "reflexd")


@pytest.fixture
def acting(bare: Machine) -> Machine:
    """The machine, with a configuration and a model of its owner's, at work."""
    bare.run(*INSTALL, bare.put(package()))
    shutil.copytree(bare.root / "usr/share/reflexd/pong", bare.root / OWN_MODEL)
    (bare.root / CONFIG).write_text(OWN)
    bare.run("systemctl", "daemon-reload")
    bare.run("systemctl", "enable", "--now", "reflexd.target")
    acts_again(bare)
    return bare


def files(machine: Machine) -> set[str]:
    """Every path on the machine's disk."""
    return set(machine.run("find", "/", "-xdev", "-not", "-path", "/run/*").splitlines())


def install(machine: Machine, version: Path) -> int:
    """Install a version over another; return when that began, monotonic ns."""
    begun_ns = time.monotonic_ns()
    said = machine.run(*INSTALL, machine.put(version))
    print(f"{version.name}: {(time.monotonic_ns() - begun_ns) / 1e9:.1f} s")
    warnings = [line for line in said.splitlines() if "warning" in line and "downgrading" not in line]
    assert warnings == []
    return begun_ns


def test_what_is_installed_starts_harmlessly_and_purge_leaves_nothing(machine: Machine) -> None:
    before = files(machine)
    machine.run(*INSTALL, machine.put(package()))
    assert states(machine) == {"inactive"}
    assert "package ok" in machine.run("reflexd", "check", f"/{CONFIG}")
    machine.run("systemctl", "enable", "--now", "reflexd.target")
    wait_for(lambda: "player" in machine.show("reflexd-infer", "StatusText"), RECOVERY_S, "an agent at work")
    assert "disarmed" in machine.run("reflexd", "status")
    assert decided(machine, 0) == []
    machine.run("reflexd", "arm")
    acts_again(machine)
    assert stop(machine) < 2.0
    assert written(machine)[-1]["action"] == "NOOP"
    machine.run("apt-get", "purge", "-y", "reflexd")
    left = files(machine) - before - {f"/srv/{package().name}"}
    assert {path for path in left if not LEFT_BY_OTHERS.fullmatch(path)} == set()
    assert before - files(machine) == set()
    assert machine.run("getent", "passwd", "reflexd", check=False) == ""
    assert machine.run("systemctl", "list-units", "--all", "--plain", "--no-legend", "reflexd*") == ""
    assert not (machine.root / "run/reflexd").exists()


@pytest.mark.parametrize("direction", ["upgrade", "downgrade"])
def test_another_version_takes_over_at_work(acting: Machine, next_package: Path, direction: str) -> None:
    """The actuator is neutral meanwhile; configuration and models are as they were."""
    to = next_package
    if direction == "downgrade":
        install(acting, next_package)
        acts_again(acting)
        to = package()
    assert (acting.root / ADDED).exists() == (direction == "downgrade")
    old = {main_pid(acting, unit) for unit in UNITS}
    model = {path.name: path.read_bytes() for path in (acting.root / OWN_MODEL).iterdir()}
    begun_ns = install(acting, to)
    wait_for(lambda: decided(acting, begun_ns)[-1]["sensor_ns"] > time.monotonic_ns() - 1e9, RECOVERY_S, "an action")
    stopped, resumed = pause(acting, begun_ns)
    after_s, for_s = (stopped - begun_ns) / 1e9, (resumed - stopped) / 1e9
    print(f"{direction}: neutral {after_s:.1f} s after its begin, for {for_s:.1f} s")
    assert not old & {main_pid(acting, unit) for unit in UNITS}
    assert (acting.root / ADDED).exists() == (direction == "upgrade")
    assert not list((acting.root / ADDED).parent.glob("__pycache__/added.*")) or direction == "upgrade"
    assert (acting.root / CONFIG).read_text() == OWN
    assert {path.name: path.read_bytes() for path in (acting.root / OWN_MODEL).iterdir()} == model


def pause(machine: Machine, since_ns: int) -> tuple[int, int]:
    """When the actuator was told to be neutral, and when it was next told something else, monotonic ns."""
    lines = [line for line in written(machine) if line["t_ns"] > since_ns]
    stops = [index for index, line in enumerate(lines) if line["cause"] == "stop"]
    assert stops, "not stopped"
    after = lines[stops[0] :]
    resumed = next(line for line in after if line["cause"] == "proposal")
    meanwhile = [line for line in after if line["t_ns"] < resumed["t_ns"]]
    assert {line["action"] for line in meanwhile} == {"NOOP"}
    return after[0]["t_ns"], resumed["t_ns"]


def test_an_upgrade_starts_only_what_ran(acting: Machine, next_package: Path) -> None:
    acting.run("systemctl", "stop", "reflexd-capture@cam")
    install(acting, next_package)
    running = ["reflexd-infer", "reflexd-actuate@arm", "reflexd.target"]
    wait_for(lambda: {acting.show(unit, "ActiveState") for unit in running} == {"active"}, RECOVERY_S, "the others")
    assert acting.show("reflexd-capture@cam", "ActiveState") == "inactive"
    stop(acting)
    install(acting, package())
    time.sleep(2.0)
    assert states(acting) == {"inactive"}


def test_a_latched_emergency_stop_outlives_an_upgrade_and_a_removal(acting: Machine, next_package: Path) -> None:
    acting.run("reflexd", "estop")
    latched_ns = time.monotonic_ns()
    install(acting, next_package)
    wait_for(lambda: "e-stop" in acting.show("reflexd-actuate@arm", "StatusText"), RECOVERY_S, "the latch")
    acting.run("apt-get", "remove", "-y", "reflexd")
    assert states(acting) == {"inactive"}
    assert (acting.root / CONFIG).read_text() == OWN
    install(acting, package())
    acting.run("systemctl", "start", "reflexd.target")
    wait_for(lambda: "e-stop" in acting.show("reflexd-actuate@arm", "StatusText"), RECOVERY_S, "the latch")
    assert decided(acting, latched_ns) == []
    assert (acting.root / OWN_MODEL).is_dir()
