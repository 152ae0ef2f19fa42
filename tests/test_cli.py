"""The command line: versions, refused configurations, and commands to a real actuator."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon.cli import main
from daemon.infer.verify import Verdict
from daemon.versions import PACKAGES
from tests.infer.manifests import manifest_fields

GOOD: dict[str, Any] = {
    "daemon": {"name": "bench"},
    "sources": {"front": {"kind": "synthetic"}},
    "agents": {"driver": {"package": "package", "source": "front", "actuator": "wheels"}},
    "actuators": {
        "wheels": {"driver": "log", "actions": ["LEFT", "STAY", "RIGHT"], "neutral": "STAY", "deadman_ms": 200.0}
    },
}


@pytest.fixture
def home(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place of its own for runtime and state folders, with a package that has a manifest and nothing else."""
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run_folder / "run"))
    monkeypatch.setenv("XDG_STATE_HOME", str(run_folder / "state"))
    (run_folder / "package").mkdir()
    (run_folder / "package" / "manifest.json").write_bytes(msgspec.json.encode(manifest_fields()))
    return run_folder


def written(home: Path, *changes: tuple[str, Any]) -> Path:
    """A configuration file: the good one with some values changed, each at a dotted path; None removes the key."""
    values: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(GOOD))
    for where, value in changes:
        *path, last = where.split(".")
        table = values
        for key in path:
            table = table.setdefault(key, {})
        table.pop(last, None)
        if value is not None:
            table[last] = value
    file = home / "robot.toml"
    file.write_text(_toml(values))
    return file


def _toml(values: dict[str, Any], path: str = "") -> str:
    """TOML of nested tables; JSON's scalars and lists are TOML's."""
    plain = {key: value for key, value in values.items() if not isinstance(value, dict)}
    tables = {key: value for key, value in values.items() if isinstance(value, dict)}
    lines = [f"[{path}]"] if path else []
    lines += [f"{key} = {msgspec.json.encode(value).decode()}" for key, value in plain.items()]
    return "\n".join([*lines, *(_toml(value, f"{path}.{key}".strip(".")) for key, value in tables.items())])


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    """Status and the one line on stderr."""
    status = main(list(argv))
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1, captured.err
    assert captured.err.startswith("reflexd: ")
    return status, captured.err


# --- versions ---


def test_version_names_everything_that_matters(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["--version"])
    out = capsys.readouterr().out
    assert leaving.value.code == 0
    assert all(f"{name} " in out for name in ("reflexd", "python", *PACKAGES))
    assert "python worker: available" in out
    assert "native worker: " in out


@pytest.mark.parametrize(
    "call", ["from daemon.versions import versions; versions()", "import daemon.cli, daemon.operate"]
)
def test_neither_versions_nor_an_emergency_stop_wait_for_heavy_imports(call: str) -> None:
    code = f"import sys; {call}; assert not {{'torch', 'numpy', 'PIL', 'rich'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- configurations ---


@pytest.mark.parametrize(
    ("where", "value", "expected"),
    [
        ("daemon.name", "Bench", ("daemon.name", "'Bench'", "regex")),
        ("daemon.name", None, ("daemon", "missing required field", "name")),
        ("daemon.colour", "red", ("daemon", "unknown field", "colour")),
        ("boat.keel", 3, ("top level", "unknown field", "boat")),
        ("sources.front.fps", -1.0, ("sources.front.fps = -1.0", ">")),
        ("sources.front.fps", "fast", ("sources.front.fps = 'fast'", "float")),
        ("sources.front.kind", "radar", ("sources.front.kind = 'radar'", "expected one of synthetic")),
        ("agents.driver.priority", 10, ("agents.driver.priority = 10", "<= 9")),
        ("agents.driver.min_confidence", 1.5, ("agents.driver.min_confidence = 1.5", "<= 1")),
        ("agents", {}, ("agents", "length >= 1")),
        ("actuators.wheels.deadman_ms", None, ("actuators.wheels", "missing required field", "deadman_ms")),
        ("actuators.wheels.deadman_ms", 0, ("actuators.wheels.deadman_ms = 0", "> 0")),
        ("actuators.wheels.forbidden", [["LEFT"]], ("actuators.wheels.forbidden.0 = ['LEFT']", "length 2")),
        ("actuators.Wheels", {"driver": "log"}, ("actuators", "'Wheels'", "regex")),
        ("infer.workers", 0, ("infer.workers = 0", ">= 1")),
        ("infer.worker", "rust", ("infer.worker = 'rust'", "expected one of auto, native, python")),
        ("infer.admission", "hope", ("infer.admission = 'hope'", "expected one of refuse, degrade")),
        ("agents.driver.package", "nowhere", ("agents.driver.package = 'nowhere'", "expected a package manifest")),
        ("agents.driver.source", "rear", ("agents.driver.source = 'rear'", "expected a source or world: front")),
        (
            "agents.driver.actuator",
            "legs",
            ("agents.driver.actuator = 'legs'", "expected one of the actuators: wheels"),
        ),
        ("agents.driver.max_age_ms", 900.0, ("max_age_ms = 900.0", "at most the actuator's deadman_ms = 200.0")),
        ("agents.driver.deadline_ms", 150.0, ("deadline_ms = 150.0", "at most max_age_ms = 100.0")),
        ("actuators.wheels.neutral", "STOP", ("neutral = 'STOP'", "one of actions: LEFT, STAY, RIGHT")),
        ("actuators.wheels.actions", ["STAY"], ("package = 'package'", "['LEFT', 'RIGHT'] are not in")),
        ("actuators.wheels.world", "pong", ("actuators.wheels.world = 'pong'", "driver = 'simulated'")),
        ("actuators.wheels.driver", "gpio", ("actuators.wheels.outputs", "expected with driver = 'gpio'", "found 0")),
        ("actuators.wheels.hold_ms", 300.0, ("hold_ms = 300.0", "at most deadman_ms = 200.0")),
        ("worlds.pong", {"game": "pong"}, ("worlds.pong", "expected one actuator with world = 'pong', found 0")),
    ],
)
@pytest.mark.parametrize("command", ["check", "run"])
def test_a_bad_configuration_is_named_by_key_value_and_expectation(
    home: Path, capsys: pytest.CaptureFixture[str], command: str, where: str, value: Any, expected: tuple[str, ...]
) -> None:
    file = written(home, (where, value))
    status, text = refused(capsys, command, str(file))
    assert status == 78
    assert str(file) in text
    assert all(part in text for part in expected), text
    assert not (home / "run").exists(), "nothing has been started"


@pytest.mark.parametrize(
    ("content", "expected"), [(None, "No such file"), (b"[daemon\n", "not TOML"), (b"\xff\xfe", "not TOML")]
)
def test_a_file_that_is_no_configuration(
    home: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, expected: str
) -> None:
    file = home / "none.toml"
    if content is not None:
        file.write_bytes(content)
    status, text = refused(capsys, "check", str(file))
    assert (status, expected in text) == (78, True)


def test_a_report_that_cannot_be_written_is_refused_before_anything_starts(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, text = refused(capsys, "run", str(written(home)), "--json", str(home / "none" / "out.json"))
    assert status == 78
    assert "cannot write there: No such file or directory" in text
    assert not (home / "run").exists()


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon"])
def test_a_duration_is_a_number_of_seconds(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["run", "any.toml", "--for", seconds])
    assert leaving.value.code == 2
    assert f"{seconds}: expected a number of seconds above 0" in capsys.readouterr().err


# --- checking packages ---


def check(home: Path, monkeypatch: pytest.MonkeyPatch, verdict: Verdict, *changes: tuple[str, Any]) -> int:
    monkeypatch.setattr("daemon.infer.verify.verify_in_process", lambda *_: verdict)
    return main(["check", str(written(home, *changes))])


def test_a_check_prints_the_numbers_of_each_agent(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check(home, monkeypatch, Verdict(ok=True, detail="", p50_ms=1.0, p99_ms=2.0)) == 0
    out = capsys.readouterr().out
    assert out.startswith("worker: ")
    assert "agent driver: package ok" in out
    assert "p50 1.00 ms, p99 2.00 ms" in out
    assert "frame to action takes 5.0 ms at worst, 33.3 ms allowed" in out


def test_a_check_fails_with_a_refused_package(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check(home, monkeypatch, Verdict(ok=False, detail="goldens differ by 0.3")) == 1
    assert "agent driver: package refused" in capsys.readouterr().out


@pytest.mark.parametrize(("admission", "status"), [("refuse", 1), ("degrade", 0)])
def test_agents_that_cannot_meet_their_deadlines_fail_the_check_unless_that_is_wanted(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, admission: str, status: int
) -> None:
    slow = Verdict(ok=True, detail="", p50_ms=60.0, p99_ms=80.0)
    assert check(home, monkeypatch, slow, ("infer.admission", admission)) == status
    assert "the agents need 2.40 of 1 workers" in capsys.readouterr().err


def test_exporting_what_is_no_model_folder(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = refused(capsys, "export", str(home))
    assert status == 1
    assert "model.toml" in text


# --- commands ---


@contextmanager
def actuator(home: Path, name: str = "bench") -> Iterator[Path]:
    """A real actuate process that writes its actions down."""
    file = written(home, ("daemon.name", name))
    process = subprocess.Popen([sys.executable, "-m", "daemon.actuate", str(file), "wheels"], stderr=subprocess.DEVNULL)
    try:
        socket = home / "run" / "reflexd" / name / "command@wheels"
        deadline = time.monotonic() + 20
        while not socket.is_socket():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield file
    finally:
        process.terminate()
        process.wait(10)


def test_commands_reach_every_running_actuator(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with actuator(home), actuator(home, "other"):
        assert main(["arm"]) == 0
        assert main(["estop"]) == 0
        assert main(["status", "wheels"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.split(":")[:2] for line in out] == [
        [f"{name}/wheels", f" {operation}"] for operation in ("arm", "estop", "status") for name in ("bench", "other")
    ]
    assert all("e-stop latched" in line for line in out[2:])


def test_a_refused_command_is_not_confirmed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with actuator(home) as file:
        assert main(["estop", "--config", str(file)]) == 0
        assert main(["arm", "--config", str(file)]) == 1
    assert "bench/wheels: NOT CONFIRMED arm: " in capsys.readouterr().err


def test_a_stopped_actuator_does_not_confirm(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with actuator(home):
        pid = int((home / "run" / "reflexd" / "bench" / "locks" / "actuate@wheels").read_text())
        os.kill(pid, signal.SIGSTOP)
        start = time.monotonic()
        try:
            assert main(["estop"]) == 1
        finally:
            os.kill(pid, signal.SIGCONT)
        assert time.monotonic() - start < 3
    assert "bench/wheels: NOT CONFIRMED estop: no answer" in capsys.readouterr().err


def test_an_unknown_actuator_is_named_and_the_known_ones_are_still_commanded(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with actuator(home):
        assert main(["estop", "wheels", "legs"]) == 1
    captured = capsys.readouterr()
    assert "bench/wheels: estop: " in captured.out
    assert "legs: no such actuator is running; running: bench/wheels" in captured.err


def test_a_stop_that_reaches_nobody_is_a_failure(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = refused(capsys, "estop")
    assert status == 1
    assert f"estop: no running actuator found in {home / 'run' / 'reflexd'}" in text


def test_sockets_of_a_daemon_that_has_died_are_not_asked(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with actuator(home):
        pid = int((home / "run" / "reflexd" / "bench" / "locks" / "actuate@wheels").read_text())
        os.kill(pid, signal.SIGKILL)
    assert (home / "run" / "reflexd" / "bench" / "command@wheels").is_socket()
    assert refused(capsys, "status")[0] == 1
