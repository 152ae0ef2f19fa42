"""Bad packages and bad outputs in a running daemon: refused or held with a reason, while the other agent goes on."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.configs import HEAD, acting
from tests.packages import tiny_package
from tests.system.game import REFLEXD

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def run(folder: Path, agents: dict[str, Path], seconds: float = 14.0) -> tuple[int, str, dict[str, Any]]:
    """Run the agents; return exit status, log and report (empty without one)."""
    text = HEAD.format(folder=folder) + "".join(acting(n, f"{n}-arm", str(p)) for n, p in agents.items())
    (folder / "test.toml").write_text(text)
    report = folder / "out.json"
    command = [REFLEXD, "run", str(folder / "test.toml"), "--plain", "--for", str(seconds), "--json", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 30, check=False)
    return done.returncode, done.stderr, json.loads(report.read_text()) if report.exists() else {}


def timeline(folder: Path, agent: str) -> list[dict[str, Any]]:
    """What the agent's actuator was told."""
    return [json.loads(line) for line in (folder / "state" / f"{agent}-arm.jsonl").read_text().splitlines()]


def truncate(package: Path) -> None:
    with (package / "model.pte").open("rb+") as file:
        file.truncate(1000)


def flip_a_weight(package: Path) -> None:
    data = bytearray((package / "model.pte").read_bytes())
    data[len(data) // 2] ^= 0x40
    (package / "model.pte").write_bytes(data)


def put_text_in_its_place(package: Path) -> None:
    (package / "model.pte").write_text("not a program" * 100)


def lie_about_the_shape(package: Path) -> None:
    manifest = json.loads((package / "manifest.json").read_text())
    history = next(spec for spec in manifest["inputs"] if spec["role"] == "history")
    history["shape"] = [1, 5]
    (package / "manifest.json").write_text(json.dumps(manifest))


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "truncated": (truncate, "expected .* bytes, found 1000"),
    "a flipped bit": (flip_a_weight, "sha256"),
    "foreign": (put_text_in_its_place, "bytes, found 1300"),
    "wrong shape": (lie_about_the_shape, r"history.*\[1, 5\].*\[1, 4\]"),
}


def test_damaged_packages_are_refused_by_name_and_the_good_one_acts(run_folder: Path) -> None:
    good = tiny_package(run_folder / "good")
    agents = {"good": good}
    for number, (damage, _) in enumerate(DAMAGES.values()):
        package = run_folder / f"bad{number}"
        shutil.copytree(good, package)
        damage(package)
        agents[f"bad{number}"] = package
    _, log, report = run(run_folder, agents, seconds=20.0)
    for number, (_, words) in enumerate(DAMAGES.values()):
        line = next(line for line in log.splitlines() if f"agent bad{number} refused" in line)
        assert re.search(words, line), line
        assert {entry["action"] for entry in timeline(run_folder, f"bad{number}")} == {"STAY"}
    assert report["agents"]["good"]["decisions"] > 30


def test_without_any_good_package_the_run_ends_with_the_reason(run_folder: Path) -> None:
    package = tiny_package(run_folder / "only")
    flip_a_weight(package)
    began = time.monotonic()
    status, log, _ = run(run_folder, {"only": package}, seconds=60.0)
    assert status == 78
    assert "sha256" in log
    assert "no agent can act" in log
    assert time.monotonic() - began < 50


def test_a_model_that_answers_nan_is_held_and_counted(run_folder: Path) -> None:
    nan = tiny_package(run_folder / "nan", nan_when_bright=True)
    good = tiny_package(run_folder / "good")
    _, log, report = run(run_folder, {"nan": nan, "good": good})
    assert report["agents"]["nan"]["dropped"]["nonfinite"] > 30
    assert report["agents"]["nan"]["decisions"] == 0
    assert "agent nan: nonfinite" in log
    assert {entry["action"] for entry in timeline(run_folder, "nan")} == {"STAY"}
    assert report["agents"]["good"]["decisions"] > 30
    assert "RIGHT" in {entry["action"] for entry in timeline(run_folder, "good")}


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP], ids=lambda value: value.name)
def test_a_camera_process_lost_in_mid_run_is_replaced(run_folder: Path, sent: signal.Signals) -> None:
    package = tiny_package(run_folder / "good")
    (run_folder / "test.toml").write_text(HEAD.format(folder=run_folder) + acting("good", "good-arm", str(package)))
    command = [REFLEXD, "run", str(run_folder / "test.toml"), "--plain"]
    with (run_folder / "log").open("w") as log:
        process = subprocess.Popen(command, stderr=log)
    try:
        moved = _wait_for_action(run_folder, 0, 60.0)
        time.sleep(1.0)  # in mid-run: it is known to have started, and no longer has the 15 s of a start
        os.kill(int((run_folder / "run/locks/capture@cam").read_text()), sent)
        struck = time.monotonic_ns()
        # A process that is back at once may be back before the dead-man: no action is in force for longer than that.
        back = _wait_for_action(run_folder, struck + 1_000_000_000, 15.0)
        _wait_for_action(run_folder, back + 1_000_000_000, 15.0)
        written = [e for e in timeline(run_folder, "good") if e["t_ns"] >= moved]
        for before, after in itertools.pairwise(written):
            if before["cause"] == "proposal":
                assert after["t_ns"] - before["t_ns"] < 400e6, "neutral only after more than the dead-man time"
        assert {e["action"] for e in written if e["cause"] == "deadman"} <= {"STAY"}
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=5) == 0
    finally:
        process.kill()
        process.wait()


def _wait_for_action(folder: Path, since_ns: int, seconds: float) -> int:
    """Time of the first proposal applied after ``since_ns``."""

    def actions() -> list[int]:
        path = folder / "state/good-arm.jsonl"
        entries = timeline(folder, "good") if path.exists() else []
        return [e["t_ns"] for e in entries if e["cause"] == "proposal" and e["t_ns"] > since_ns]

    _wait(lambda: bool(actions()), seconds)
    return actions()[0]


def _wait(condition: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "did not happen in time"
        time.sleep(0.05)
