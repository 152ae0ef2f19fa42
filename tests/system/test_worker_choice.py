"""A whole run with each kind of worker: what is said of it at the start, in the log and in the report."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from daemon.workers import VARIABLE
from tests.configs import HEAD, acting
from tests.packages import tiny_package
from tests.peers import BUILD_LIMIT_S, worker
from tests.system.game import REFLEXD

pytestmark = [pytest.mark.slow, pytest.mark.timeout(BUILD_LIMIT_S)]


def run(folder: Path, wanted: str, seconds: float = 12.0) -> tuple[int, str, dict[str, Any]]:
    """Run one agent; exit status, log and report (empty without one)."""
    package = tiny_package(folder / "package")
    text = HEAD.format(folder=folder) + acting("one", "one-arm", str(package))
    (folder / "test.toml").write_text(f'{text}\n[infer]\nworker = "{wanted}"\n')
    report = folder / "out.json"
    command = [REFLEXD, "run", str(folder / "test.toml"), "--plain", "--for", str(seconds), "--json", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=False)
    return done.returncode, done.stderr, json.loads(report.read_text()) if report.exists() else {}


def named(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """Have the environment name a worker that is this script."""
    path = folder / "worker"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv(VARIABLE, str(path))
    return path


@pytest.mark.parametrize("kind", ["native", "python"])
def test_a_run_says_which_worker_it_has(run_folder: Path, kind: str) -> None:
    chosen = worker(kind)
    status, log, report = run(run_folder, kind)
    assert status == 0, log
    assert f"INFO infer: worker: {kind}" in log
    assert f"INFO infer: worker 0: {kind}, " in log
    assert report["worker"]["kind"] == kind
    assert Path(report["worker"]["path"]).samefile(chosen.path)
    assert report["agents"]["one"]["decisions"] > 30
    assert report["processes"]["infer/worker0"]["state"] == "running"


def test_a_worker_that_does_not_fit_is_not_used_and_said_why(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = named(run_folder, monkeypatch, "kill -ILL $$")
    status, log, report = run(run_folder, "auto")
    assert status == 0, log
    why = f"{path} --version --json died by signal SIGILL: REFLEXD_WORKER names it"
    assert f"INFO infer: worker: python: {why}" in log
    assert (report["worker"]["kind"], report["worker"]["why"]) == ("python", why)
    assert report["agents"]["one"]["decisions"] > 30


def test_a_run_that_wants_the_native_worker_or_nothing_starts_nothing(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = named(run_folder, monkeypatch, "echo reflexd")
    status, log, _ = run(run_folder, "native")
    assert status == 78
    assert log.startswith(f"reflexd: infer.worker = 'native': {path} is not a worker of this daemon: ")
    assert not (run_folder / "run").exists()
