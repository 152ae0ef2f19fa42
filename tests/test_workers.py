"""Which worker runs, and the reason told: real programs that fit, that do not, and that do not even answer."""

from __future__ import annotations

import json
import os
import platform
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from daemon import workers
from daemon.config import ConfigError, WorkerWanted
from daemon.declarations import declarations_digest
from daemon.workers import Candidate, Unfit, choose_worker, probe

FITS: dict[str, Any] = {
    "worker": "0.1.0",
    "kind": "native",
    "protocol": 1,
    "messages": declarations_digest(),
    "ring": 1,
    "manifest": 1,
    "executorch": "1.5.1",
    "cpu_found": ["sse2"],
}


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def binary(path: Path, **changes: Any) -> Path:
    """A program that answers like a native worker, with some fields changed."""
    answer = json.dumps(FITS | changes)
    return program(path, f"test \"$*\" = '--version --json' || exit 9\necho '{answer}'")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a package would put the worker; nothing is there, and nothing is built."""
    path = tmp_path / "usr" / "reflexd-worker"
    monkeypatch.setattr(workers, "INSTALLED", path)
    monkeypatch.setattr(workers, "CHECKOUT", tmp_path / "checkout")
    monkeypatch.delenv(workers.VARIABLE, raising=False)
    return path


@pytest.fixture
def built(installed: Path) -> Path:
    """Where the checkout would have it."""
    return workers.CHECKOUT / "cross" / "dist" / platform.machine() / "reflexd-worker"


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "find_spec", lambda _: None)


# --- a native worker that fits ---


@pytest.mark.parametrize("wanted", ["auto", "native"])
def test_a_native_worker_that_fits_is_used(built: Path, wanted: WorkerWanted) -> None:
    binary(built, git="5e2130f")
    worker = choose_worker(wanted)
    assert (worker.kind, worker.path) == ("native", str(built))
    assert worker.line == f"worker: native 0.1.0 (executorch 1.5.1, git 5e2130f), {built}"
    assert worker.serve_command(7, Path("/r")) == [str(built), "--fd", "7", "--rings", "/r"]
    checked = [str(built), "--check", "/p", "--threads", "2"]
    assert worker.check_command(Path("/p"), 2) == checked
    assert worker.check_command(Path("/p"), 2, measured=False) == [*checked, "--unmeasured"]


def test_the_installed_one_comes_before_the_built_one(installed: Path, built: Path) -> None:
    binary(built)
    binary(installed)
    assert choose_worker("auto").path == str(installed)
    binary(installed, ring=2)
    assert choose_worker("auto").path == str(built), "an installed one that does not fit stands in nobody's way"


def test_one_named_by_the_environment_is_the_only_one(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary(built)
    named = tmp_path / "named"
    monkeypatch.setenv(workers.VARIABLE, str(named))
    with pytest.raises(ConfigError, match=f"{named} cannot be run: No such file or directory: REFLEXD_WORKER names it"):
        choose_worker("native")
    binary(named)
    assert choose_worker("auto").path == str(named)


# --- one that does not ---

UNFIT: dict[str, tuple[str, str]] = {
    "another protocol": (f"echo '{json.dumps(FITS | {'protocol': 2})}'", "speaks protocol 2, this daemon 1"),
    "other messages": (f"echo '{json.dumps(FITS | {'messages': 'f' * 16})}'", "was built from other message declarat"),
    "another ring": (f"echo '{json.dumps(FITS | {'ring': 2})}'", "reads frame rings of version 2, this daemon 1"),
    "another manifest": (f"echo '{json.dumps(FITS | {'manifest': 3})}'", "reads manifests of version 3, this daemon 1"),
    "something else": ("echo reflexd 0.1.0", "is not a worker of this daemon: .*JSON"),
    "half an answer": ('echo \'{"worker": "0.1.0"}\'', "missing required field `protocol`"),
    "silence": ("true", "is not a worker of this daemon"),
    "another status": ("echo 'no such option' >&2; exit 3", r"left with status 3 \(no such option\)"),
    "an illegal instruction": ("kill -ILL $$", "died by signal SIGILL"),
    "a hanging one": ("exec sleep 60", "did not finish within 0.5 s"),
    "one that says so and hangs": (f"echo '{json.dumps(FITS)}'; exec 1>&-; exec sleep 60", "did not exit"),
    "a flood": ("exec cat /dev/zero", "answered with more than 65536 bytes"),
    "a flood of errors": ("exec cat /dev/zero >&2", "died by signal SIGXFSZ|File too large"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_does_not_fit_or_answer_is_not_used_and_said_why(tmp_path: Path, name: str) -> None:
    script, words = UNFIT[name]
    path = program(tmp_path / "worker", script)
    with pytest.raises(Unfit, match=words) as unfit:
        probe(Candidate(path, "make worker"), limit_s=0.5)
    assert str(path) in str(unfit.value)
    assert str(unfit.value).endswith(": make worker")


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (b"#!/bin/sh\n", stat.S_IRUSR, "Permission denied"),
        (b"\x7fELF another machine's", 0o755, "Exec format error"),
        (b"#!/nonexistent/loader\n", 0o755, "No such file"),
    ],
)
def test_what_cannot_be_run_at_all(tmp_path: Path, content: bytes, mode: int, words: str) -> None:
    path = tmp_path / "worker"
    path.write_bytes(content)
    path.chmod(mode)
    with pytest.raises(Unfit, match=f"{path} cannot be run: {words}"):
        probe(Candidate(path, "make worker"))


def test_a_probe_is_bounded_even_if_the_program_leaves_a_child_behind(tmp_path: Path) -> None:
    path = program(tmp_path / "worker", "sleep 5 & exec sleep 5")
    began = time.monotonic()
    with pytest.raises(Unfit, match="did not finish"):
        probe(Candidate(path, "make worker"), limit_s=0.3)
    assert time.monotonic() - began < 4


# --- what runs instead ---


def test_without_a_native_worker_auto_takes_the_python_one_and_says_why(installed: Path) -> None:
    worker = choose_worker("auto")
    assert (worker.kind, worker.path) == ("python", sys.executable)
    assert worker.line == f"worker: python: no native worker is installed ({installed})"
    (workers.CHECKOUT / "cross").mkdir(parents=True)
    (workers.CHECKOUT / "cross" / "CMakeLists.txt").touch()
    assert choose_worker("auto").line == "worker: python: no native worker is built: make worker"


def test_with_an_unfit_one_auto_says_what_is_wrong_with_it(built: Path) -> None:
    binary(built, messages="0" * 16)
    expected = f"worker: python: {built} was built from other message declarations: make worker"
    assert choose_worker("auto").line == expected


def test_native_or_nothing(installed: Path) -> None:
    with pytest.raises(ConfigError, match=r"infer\.worker = 'native': no native worker is installed"):
        choose_worker("native")


def test_python_is_not_asked_for_a_native_worker(built: Path) -> None:
    program(built, f"touch {built}.asked")
    assert choose_worker("python").line == "worker: python: infer.worker = 'python'"
    assert not os.path.lexists(f"{built}.asked")


@pytest.mark.usefixtures("without_torch")
def test_a_device_without_torch_needs_the_native_worker(built: Path) -> None:
    install = r"the Python worker needs torch and executorch: pip install 'reflexd\[export\]'"
    with pytest.raises(ConfigError, match=f"infer.worker = 'python': {install}"):
        choose_worker("python")
    with pytest.raises(ConfigError, match=f"neither worker can run: native: no native worker .*; {install}"):
        choose_worker("auto")
    binary(built)
    assert choose_worker("auto").kind == "native"


def test_both_kinds_are_described(built: Path) -> None:
    assert workers.worker_kinds()["native"].startswith("no native worker is installed")
    binary(built)
    assert workers.worker_kinds() == {"native": f"0.1.0 (executorch 1.5.1), {built}", "python": "available"}
