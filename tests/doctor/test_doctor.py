"""The whole page: the configuration and its parts, a check that fails itself, and ``reflexd doctor`` as a command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.actuate.latch import Latch
from daemon.doctor.examine import CHECKS, as_json, examine, failed, page
from daemon.doctor.finding import Finding, fail, ok, skip, warn
from daemon.doctor.machine import Machine
from daemon.doctor.setup import Setup, configuration, latches, packages, read_setup
from daemon.package import MODEL_FILE
from tests.actuate.running import make_setup
from tests.doctor.trees import PI_5, label_by_content, machine, only

ROOT = Path(__file__).parents[2]
PONG = ROOT / "models" / "pong"
REFLEXD = str(Path(sys.executable).with_name("reflexd"))
NONE = Setup()


# --- the configuration -------------------------------------------------------------------------------------


def test_no_configuration(tmp_path: Path) -> None:
    setup = read_setup(None, tmp_path / "none.toml")
    for check in (configuration, packages, latches):
        assert only(check(Machine(), setup)).status == "skip"


def test_the_services_configuration_is_the_default(tmp_path: Path) -> None:
    services = make_setup(tmp_path).config
    setup = read_setup(None, services)
    assert only(configuration(Machine(), setup)).found == f"{services}: t: 1 source, 2 agents, 1 actuator"


def test_a_wrong_file_is_a_failure_with_the_key(tmp_path: Path) -> None:
    file = make_setup(tmp_path).config
    file.write_text(file.read_text().replace("deadman_ms = 2000.0", "deadman_ms = 0"))
    finding = only(configuration(Machine(), read_setup(file)))
    assert finding.status == "fail"
    assert "actuators.paddle.deadman_ms = 0" in finding.found


def test_a_missing_package_leaves_the_rest_of_the_file_readable(tmp_path: Path) -> None:
    file = make_setup(tmp_path).config
    shutil.rmtree(tmp_path / "package")
    setup = read_setup(file)
    assert only(configuration(Machine(), setup)).status == "fail"
    assert only(packages(Machine(), setup)).status == "skip"
    assert only(latches(machine(tmp_path / "root"), setup)).status == "ok"


@pytest.fixture
def pong(tmp_path: Path) -> Path:
    """The shipped game, with a package that may be damaged."""
    for name in ("demo.toml", "package"):
        source = PONG / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    return tmp_path / "demo.toml"


def test_a_package_whose_weights_have_changed_is_a_failure(pong: Path) -> None:
    assert only(packages(Machine(), read_setup(pong))).status == "ok"
    model = pong.parent / "package" / MODEL_FILE
    data = bytearray(model.read_bytes())
    data[len(data) // 2] ^= 1
    model.write_bytes(data)
    finding = only(packages(Machine(), read_setup(pong)))
    assert finding.status == "fail"
    assert f"{model}: sha256 is " in finding.found


def test_a_latched_stop_says_why_and_how_to_go_on(tmp_path: Path) -> None:
    robot = make_setup(tmp_path)
    robot.latch.parent.mkdir()
    Latch(robot.latch).set("operator, by reflexd estop")
    finding = only(latches(machine(tmp_path / "root"), read_setup(robot.config)))
    assert finding.status == "warn"
    assert finding.found == "paddle stands still: operator, by reflexd estop"
    assert finding.fix == "reflexd clear paddle && reflexd arm paddle"


def test_a_stop_of_the_services_is_seen_too(tmp_path: Path) -> None:
    robot = make_setup(tmp_path)
    services = tmp_path / "root/var/lib/reflexd/t"
    services.mkdir(parents=True)
    (services / "paddle.estop").mkdir()
    finding = only(latches(machine(tmp_path / "root"), read_setup(robot.config)))
    assert finding.status == "warn"
    assert "expected a latch file, found another kind of file" in finding.found


# --- the page ----------------------------------------------------------------------------------------------


def broken(_: Machine, __: Setup) -> Iterator[Finding]:
    yield ok("broken", "so far")
    raise RuntimeError("nobody thought of this")


def fine(_: Machine, __: Setup) -> Iterator[Finding]:
    yield ok("fine", "after it")


def test_a_check_that_raises_is_a_line_and_the_others_go_on(tmp_path: Path) -> None:
    found = examine(machine(tmp_path), NONE, (broken, fine))
    assert [(finding.check, finding.status) for finding in found] == [
        ("broken", "ok"),
        ("broken", "fail"),
        ("fine", "ok"),
    ]
    assert "RuntimeError: nobody thought of this" in found[1].found


@pytest.mark.parametrize("content", ["", "garbage \x00\xff ÿ", "-1", "0x", "99999999999999999999999"])
def test_files_with_nonsense_in_them_break_no_check(
    tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    label_by_content(monkeypatch)
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "runs"))
    card = {
        "/sys/block/mmcblk0/stat": "",
        "/sys/block/mmcblk0/device/life_time": "",
        "/sys/fs/ext4/mmcblk0p2/errors_count": "",
    }
    more = {
        "/proc/stat": "",
        "/proc/mounts": "",
        "/proc/uptime": "",
        "/sys/fs/ext4/mmcblk0p2/lifetime_write_kbytes": "",
    }
    files = dict.fromkeys({**PI_5, **card, **more}, content)
    says = dict.fromkeys(("systemctl", "journalctl", "vcgencmd", "timedatectl"), content)
    found = examine(machine(tmp_path, files, says=says), NONE)
    assert [finding.found for finding in found if "this check itself failed" in finding.found] == []


def test_the_page_is_one_line_each_with_the_fix_below() -> None:
    found = [ok("a", "fine"), warn("b", "slow " * 30, "cool it"), fail("c", "gone", "bring it"), skip("d", "not here")]
    lines = page(found, 80).splitlines()
    assert lines[0] == "ok    a: fine"
    assert lines[1].startswith("warn  b: slow slow")
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if "->" in line] == ["      -> cool it", "      -> bring it"]
    assert lines[-1] == "1 ok, 1 warn, 1 fail, 1 skip"


def test_only_a_failure_fails() -> None:
    assert not failed([ok("a", ""), warn("b", "", ""), skip("c", "")])
    assert failed([ok("a", ""), fail("b", "", "")])
    assert json.loads(as_json([fail("b", "x", "y")])) == {
        "ok": False,
        "findings": [{"check": "b", "status": "fail", "found": "x", "fix": "y"}],
    }


# --- the command, on this machine --------------------------------------------------------------------------


def doctor(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    environment.pop("RUNTIME_DIRECTORY", None)
    command = [REFLEXD, "doctor", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def report(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if told["ok"] else 1), done.stderr
    return told


def test_on_this_machine_every_check_has_its_say_in_three_seconds(run_folder: Path) -> None:
    doctor(run_folder, "--json")  # the second time modules come from memory
    begin = time.monotonic()
    done = doctor(run_folder, str(PONG / "demo.toml"), "--json")
    took_s = time.monotonic() - begin
    found = report(done)["findings"]
    print(f"{len(found)} findings in {took_s:.2f} s")
    assert took_s < 3.0
    assert len({finding["check"] for finding in found}) >= len(CHECKS)
    assert not [finding for finding in found if "itself failed" in finding["found"]]
    assert all(finding["fix"] for finding in found if finding["status"] in ("warn", "fail"))
    assert done.stderr == ""
    assert list(run_folder.iterdir()) == [], "it leaves nothing"


def test_as_a_page(run_folder: Path) -> None:
    done = doctor(run_folder, str(PONG / "demo.toml"))
    assert f"ok    config: {PONG / 'demo.toml'}: pong-demo: 1 world, 1 agent, 1 actuator" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("skip")


def test_a_wrong_configuration_is_a_line_and_status_1(run_folder: Path) -> None:
    (run_folder / "robot.toml").write_text("[daemon]\nname = 5\n")
    done = doctor(run_folder, str(run_folder / "robot.toml"), "--json")
    (line,) = [finding for finding in report(done)["findings"] if finding["check"] == "config"]
    assert line["status"] == "fail"
    assert done.returncode == 1
    assert "daemon.name = 5" in line["found"]
