"""Commands find the daemons that run as services, and leave to them what is theirs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from daemon import operate
from daemon.actuate import neutral
from daemon.config import Daemon
from daemon.operate import folder_of, running_daemons
from daemon.plan import load_without_packages
from daemon.runtime import owner_of

LOG = Path(__file__).parents[1] / "models/pong/log.toml"
GONE = 2**22 + 1
"""No process has this pid: the kernel's largest is 2**22."""


@pytest.fixture
def services(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where services have their runtime folders; this user's own are beside it."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run_folder))
    monkeypatch.setenv("XDG_STATE_HOME", str(run_folder))
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    monkeypatch.setattr(operate, "SERVICES_RUNTIME", run_folder / "services")
    monkeypatch.setattr(neutral, "SERVICES_RUNTIME", run_folder / "services")
    return run_folder / "services"


def held(folder: Path, process: str, pid: int) -> Path:
    lock = folder / "locks" / process
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text(str(pid))
    return folder


def test_a_lock_names_a_process_that_lives(run_folder: Path) -> None:
    lock = held(run_folder, "infer", os.getpid()) / "locks/infer"
    assert owner_of(lock) == os.getpid()
    lock.write_text("1")
    assert owner_of(lock) == 1
    for text in (str(GONE), "", "one"):
        lock.write_text(text)
        assert owner_of(lock) is None
    assert owner_of(run_folder / "locks/absent") is None


def test_services_are_found_beside_the_daemons_of_this_user(services: Path, run_folder: Path) -> None:
    assert running_daemons() == []
    own = held(run_folder / "reflexd/own", "infer", os.getpid())
    service = held(services / "main", "actuate@arm", os.getpid())
    held(services / "dead", "infer", GONE)
    assert running_daemons() == [own, service]


def test_a_configuration_leads_to_its_service_while_that_lives(services: Path, run_folder: Path) -> None:
    own = run_folder / "reflexd/main"
    assert folder_of(Daemon(name="main")) == own
    held(services / "main", "infer", os.getpid())
    assert folder_of(Daemon(name="main")) == services / "main"
    assert folder_of(Daemon(name="main", runtime=str(run_folder / "else"))) == run_folder / "else"


def test_neutral_is_not_written_beside_a_service(services: Path) -> None:
    plan = load_without_packages(LOG)
    held(services / "pong-log", "actuate@own-arm", os.getpid())
    with pytest.raises(neutral.NotNeutral, match=f"process {os.getpid()} has .*systemctl stop reflexd-actuate@own-arm"):
        neutral.write_neutral(plan, "own-arm")
    held(services / "pong-log", "actuate@own-arm", GONE)
    assert neutral.write_neutral(plan, "own-arm") == "NOOP written"
