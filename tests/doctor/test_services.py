"""What runs and what a crash has left, on real processes; and what systemd says, recorded from its `show`."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.doctor.finding import Finding
from daemon.doctor.services import runs, unit_line, units
from daemon.doctor.setup import Setup, read_setup
from tests.actuate.running import Setup as Robot
from tests.actuate.running import make_setup, start
from tests.doctor.trees import machine, only

NONE = Setup()


@pytest.fixture
def robot(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Robot:
    """A configuration whose runtime folder is below the one in which a doctor looks."""
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run_folder / "other"))
    return make_setup(run_folder)


@pytest.fixture
def actuator(robot: Robot) -> Iterator[subprocess.Popen[str]]:
    """A real actuator's process."""
    process = start(robot)
    until = time.monotonic() + 20
    while not (robot.runtime.folder / "command@paddle").is_socket():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    yield process
    process.kill()
    process.communicate()


def told(robot: Robot) -> Finding:
    return only(runs(machine(robot.config.parent / "root"), read_setup(robot.config)))


def test_nothing_runs_and_nothing_is_left(robot: Robot) -> None:
    assert (told(robot).status, told(robot).found) == ("ok", "none, and nothing left over")


def test_what_runs_is_named_with_its_pid(robot: Robot, actuator: subprocess.Popen[str]) -> None:
    assert (told(robot).status, told(robot).found) == ("ok", f"run runs: actuate@paddle {actuator.pid}")


def test_a_process_that_has_ended_well_leaves_nothing_to_tell(robot: Robot, actuator: subprocess.Popen[str]) -> None:
    """Its lock file stays, by design."""
    actuator.send_signal(signal.SIGTERM)
    actuator.wait(10)
    assert (robot.runtime.folder / "locks/actuate@paddle").exists()
    for socket in robot.runtime.folder.glob("*@*"):
        socket.unlink()  # which is the supervisor's part, and systemd's
    assert told(robot).found == "none, and nothing left over"


def test_a_killed_process_leaves_its_sockets(robot: Robot, actuator: subprocess.Popen[str]) -> None:
    actuator.kill()
    actuator.wait()
    (robot.runtime.rings / "camera.8x8-gray8").write_bytes(bytes(2 * 2**20))
    finding = told(robot)
    assert finding.status == "warn"
    assert f"{robot.runtime.folder}: a run has crashed and left " in finding.found
    assert finding.found.endswith("sockets and frame rings, 2 MiB")
    assert f"rm -r {robot.runtime.folder}" in finding.fix


def test_processes_without_their_supervisor_are_a_failure(robot: Robot, actuator: subprocess.Popen[str]) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    (robot.runtime.folder / "locks/run").write_text(str(gone.pid))
    finding = told(robot)
    assert finding.status == "fail"
    assert f"the supervisor is gone and left actuate@paddle {actuator.pid}" in finding.found


def test_runs_of_any_name_are_found_below_the_root_of_runs(
    robot: Robot, actuator: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(robot.runtime.folder.parent))
    assert only(runs(machine(robot.config.parent / "root"), NONE)).found.startswith("run runs: ")


# --- systemd -----------------------------------------------------------------------------------------------

RUNNING = {
    "Id": "reflexd-infer.service",
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "NRestarts": "0",
    "StatusText": "running: player 30 decisions",
    "NeedDaemonReload": "no",
}


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({}, "ok", "reflexd-infer.service: active (running): running: player 30 decisions"),
        ({"NRestarts": "3"}, "warn", "active (running), restarted 3 times: running"),
        ({"ActiveState": "failed", "SubState": "failed", "StatusText": "agents.x.package"}, "fail", "agents.x.package"),
        ({"LoadState": "masked", "ActiveState": "inactive"}, "fail", "masked"),
        ({"ActiveState": "activating", "SubState": "auto-restart"}, "warn", "activating (auto-restart)"),
        ({"NeedDaemonReload": "yes"}, "warn", "its file has changed since"),
    ],
)
def test_a_unit(change: dict[str, str], status: str, text: str) -> None:
    finding = unit_line({**RUNNING, **change})
    assert finding.status == status
    assert text in finding.found
    if status == "fail":
        assert finding.fix == "journalctl -b -u reflexd-infer.service -n 50"


SHOWN = """Id=reflexd.target
LoadState=loaded
ActiveState=inactive
SubState=dead
UnitFileState=disabled
StatusText=
NeedDaemonReload=no

Id=reflexd-actuate@arm.service
LoadState=loaded
ActiveState=active
SubState=running
NRestarts=0
StatusText=running: armed, LEFT in force 22 ms
NeedDaemonReload=no
"""
NOT_FOUND = "Id=reflexd.target\nLoadState=not-found\nActiveState=inactive\nSubState=dead\n"


def test_the_units_of_systemctl_show(tmp_path: Path) -> None:
    target, arm = units(machine(tmp_path, says={"systemctl": SHOWN}), NONE)
    assert (target.status, target.fix) == ("warn", "sudo systemctl enable --now reflexd.target")
    assert target.found == "reflexd.target: inactive (dead), disabled"
    assert arm.status == "ok"
    assert arm.found == "reflexd-actuate@arm.service: active (running): running: armed, LEFT in force 22 ms"


@pytest.mark.parametrize(("says", "text"), [({"systemctl": NOT_FOUND}, "not installed"), ({}, "does not run here")])
def test_no_units(tmp_path: Path, says: dict[str, str], text: str) -> None:
    finding = only(units(machine(tmp_path, says=says), NONE))
    assert finding.status == "skip"
    assert text in finding.found
