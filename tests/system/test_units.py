"""The units for a device: without mistakes, closed tightly, and wired from the configuration."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.actuate.realtime import PRIORITY
from daemon.messages import NAME_PATTERN
from daemon.process import EXIT_CONFIG

SYSTEMD = Path(__file__).parents[2] / "deploy/systemd"
UNITS = SYSTEMD / "units"
GENERATOR = SYSTEMD / "reflexd-generator"
INSTANCES = ["reflexd-infer", "reflexd-capture@cam", "reflexd-actuate@arm", "reflexd-simulate@table", "reflexd-gateway"]
SINCE_254 = re.compile(r".*Unknown key.* 'Restart(Steps|MaxDelaySec)' in section .*, ignoring\.")
EXPOSURE = {"reflexd-gateway": 15}
"""Tenths; 20 where nothing else stands: systemd calls up to 2.0 safe."""

needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """Environment in which systemd finds our units, with a program in the place of Python's that is there."""
    shutil.copytree(UNITS, tmp_path / "units")
    for unit in (tmp_path / "units").glob("*.service"):
        unit.write_text(unit.read_text().replace("/usr/bin/python3", "/bin/true"))
    return {**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path / 'units'}:"}


def version() -> int:
    told = subprocess.run(["systemd-analyze", "--version"], capture_output=True, text=True, check=True).stdout
    return int(told.split()[1])


@needs_systemd
def test_systemd_finds_no_mistake(installed: dict[str, str]) -> None:
    units = ["reflexd.target", *(f"{unit}.service" for unit in INSTANCES)]
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], env=installed, capture_output=True, text=True, timeout=60
    )
    lines = (found.stdout + found.stderr).splitlines()
    assert [line for line in lines if version() >= 254 or not SINCE_254.fullmatch(line)] == []
    assert found.returncode == 0


@needs_systemd
@pytest.mark.parametrize("unit", INSTANCES)
def test_a_unit_is_closed_tightly(unit: str, installed: dict[str, str]) -> None:
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE.get(unit, 20)}", f"{unit}.service"],
        env=installed,
        capture_output=True,
        text=True,
        timeout=60,
    )
    print(*judged.stdout.splitlines()[-1:])
    assert judged.returncode == 0, judged.stdout + judged.stderr


def directives(unit: str) -> dict[str, list[str]]:
    """Directive to its values, of a unit with what all units share."""
    found: dict[str, list[str]] = {}
    for path in (UNITS / unit, *(UNITS / "reflexd-.service.d").iterdir()):
        for line in path.read_text().splitlines():
            key, equals, value = line.partition("=")
            if equals and not line.startswith("#"):
                found.setdefault(key, []).append(value)
    return found


SERVICES = sorted(path.name for path in UNITS.glob("*.service"))


@pytest.mark.parametrize("unit", SERVICES)
def test_only_capture_sees_cameras_and_only_actuate_sees_pins(unit: str) -> None:
    seen = directives(unit)
    groups, devices = seen.get("SupplementaryGroups", []), " ".join(seen.get("DeviceAllow", []))
    assert ("video" in groups, "video4linux" in devices) == (("capture" in unit),) * 2
    assert ("gpio" in groups, "gpiochip" in devices) == (("actuate" in unit),) * 2
    assert seen.get("PrivateDevices") == ["yes"] or seen["DevicePolicy"] == ["closed"]
    assert seen["RestrictAddressFamilies"][0] == "AF_UNIX"
    assert seen["PrivateNetwork"][0] == "yes"


@pytest.mark.parametrize("unit", SERVICES)
def test_only_the_gateway_has_a_network(unit: str) -> None:
    own = UNITS / f"{unit}.d"
    assert own.exists() == (unit == "reflexd-gateway.service")
    if own.exists():
        text = "".join(path.read_text() for path in own.iterdir())
        assert "PrivateNetwork=no" in text
        assert "IPAddressDeny" not in text, "what is not allowed by name stays denied"


@pytest.mark.parametrize("unit", SERVICES)
def test_a_unit_restarts_but_not_what_a_restart_cannot_mend(unit: str) -> None:
    seen = directives(unit)
    assert seen["Restart"] == ["always"]
    assert seen["RestartPreventExitStatus"] == [str(EXIT_CONFIG)]
    assert seen["StartLimitIntervalSec"] == ["0"]
    assert seen["PartOf"] == ["reflexd.target"]
    assert ("ExecStopPost" in seen) == ("actuate" in unit)


@pytest.mark.parametrize(
    "path", sorted(path for path in UNITS.rglob("*") if path.is_file()), ids=lambda path: path.name
)
def test_no_drop_in_overrides_a_unit(path: Path) -> None:
    """A drop-in is read after the unit, so what units differ in must not stand in one."""
    if path.parent != UNITS:
        shared = set(re.findall(r"^(\w+)=", path.read_text(), re.MULTILINE))
        for unit in SERVICES:
            assert not shared & set(re.findall(r"^(\w+)=", (UNITS / unit).read_text(), re.MULTILINE))


def test_every_sandbox_directive_says_what_it_protects() -> None:
    explained = False
    for line in (UNITS / "reflexd-.service.d/20-sandbox.conf").read_text().splitlines():
        if line.startswith("#"):
            explained = True
        elif line.startswith("["):
            explained = False
        else:
            assert line
            assert explained, f"{line}: no comment above it"


def generate(folder: Path, text: str | bytes | None) -> subprocess.CompletedProcess[str]:
    """Run the generator on a configuration of its own; what it makes goes to ``folder/wants``."""
    config = folder / "reflexd.toml"
    if text is not None:
        config.write_bytes(text.encode() if isinstance(text, str) else text)
    script = GENERATOR.read_text().replace("/etc/reflexd/reflexd.toml", str(config)).replace("/dev/kmsg", "/dev/null")
    interpreter = script.splitlines()[0].split()[1:]
    return subprocess.run(
        [sys.executable, *interpreter, "-c", script, str(folder / "out"), "", ""],
        capture_output=True,
        text=True,
        timeout=20,
    )


def wanted(folder: Path) -> dict[str, str]:
    return {path.name: str(path.readlink()) for path in (folder / "out").rglob("*") if path.is_symlink()}


def test_the_generator_wires_every_part(tmp_path: Path) -> None:
    assert generate(tmp_path, "[sources.cam]\n[sources.cam_2]\n[worlds.table]\n[actuators.own-arm]\n").returncode == 0
    names = ["capture@cam", "capture@cam_2", "simulate@table", "actuate@own-arm"]
    folder = "/usr/lib/systemd/system"
    assert wanted(tmp_path) == {
        f"reflexd-{name}.service": f"{folder}/reflexd-{name.partition('@')[0]}@.service" for name in names
    }
    assert {path.parent.name for path in (tmp_path / "out").rglob("*.service")} == {"reflexd.target.wants"}


def test_the_gateway_runs_where_it_is_asked_for(tmp_path: Path) -> None:
    assert generate(tmp_path, "[gateway]\n[actuators.arm]\n").returncode == 0
    assert wanted(tmp_path)["reflexd-gateway.service"] == "/usr/lib/systemd/system/reflexd-gateway.service"
    assert set(wanted(tmp_path)) == {"reflexd-gateway.service", "reflexd-actuate@arm.service"}


@pytest.mark.parametrize(
    "text",
    [
        "[sources.cam",
        b"\xff\xfe",
        "sources = 3",
        '[sources."../../etc"]',
        '[actuators."a b"]',
        '[actuators.ok]\n[sources."Big"]',
        "[sources.cam]\nkind = 'v4l2'\n[sources.cam]",
    ],
)
def test_a_broken_configuration_is_told_and_makes_nothing(tmp_path: Path, text: str | bytes) -> None:
    made = generate(tmp_path, text)
    assert made.returncode == 1
    assert "no unit for any source or actuator" in made.stderr
    assert "Traceback" not in made.stderr
    assert wanted(tmp_path) == {}


@needs_systemd
def test_an_actuator_that_is_to_be_real_time_may_become_so(tmp_path: Path, installed: dict[str, str]) -> None:
    """And no other; its drop-in is read after the sandbox's, and is no opening for anything else."""
    assert generate(tmp_path, "[actuators.arm]\nrealtime = true\n[actuators.legs]\nrealtime = false\n").returncode == 0
    (drop_in,) = (tmp_path / "out").glob("*.service.d/*")
    assert drop_in.parent.name == "reflexd-actuate@arm.service.d"
    assert drop_in.name > "20-sandbox.conf"
    assert f"LimitRTPRIO={PRIORITY}\n" in drop_in.read_text()
    shutil.copytree(drop_in.parent, tmp_path / "units" / drop_in.parent.name)
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", "reflexd-actuate@arm.service"],
        env=installed,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert any("RestrictRealtime" in line and "✗" in line for line in judged.stdout.splitlines())


def test_no_configuration_yet_is_no_mistake(tmp_path: Path) -> None:
    made = generate(tmp_path, None)
    assert (made.returncode, made.stderr, wanted(tmp_path)) == (0, "", {})


def test_the_generator_takes_the_names_the_daemon_takes() -> None:
    pattern = re.search(r'NAME = re.compile\(r"(.*)"\)', GENERATOR.read_text())
    assert pattern is not None
    assert rf"^{pattern[1]}\Z" == NAME_PATTERN
