"""The supervisor over real processes that crash, hang, flood, refuse to stop, or lose it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import zmq

from daemon.bus import Bus
from daemon.config import ConfigError
from daemon.process import LIFELINE_VARIABLE
from daemon.run import check_writable
from daemon.runtime import InstanceLock
from daemon.supervise import Supervisor
from tests import stand_in

PATIENCE_S = 20.0
STOP_S = 2.0


class Running:
    """A supervisor in this process, turned by hand."""

    def __init__(self, runtime: Path, rows: dict[str, str], bus: Bus) -> None:
        self._poller = zmq.Poller()
        self.lines: list[str] = []
        table = [stand_in.entry(runtime, *row) for row in rows.items()]
        self.supervisor = Supervisor(table, bus, self._poller, self.lines.append)

    def until(self, true: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < deadline, self.lines
            self.supervisor.turn(time.monotonic_ns())
            self._poller.poll(20)

    def says(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    def phase(self, identity: str) -> str:
        return self.supervisor.watched[identity].phase

    def restarts(self, identity: str) -> int:
        return self.supervisor.watched[identity].policy.restarts

    def pid(self, identity: str) -> int:
        child = self.supervisor.watched[identity].child
        assert child is not None
        return child.pid


@contextmanager
def running(runtime: Path, **rows: str) -> Iterator[Running]:
    """Supervise the rows (``__`` stands for ``@``) until the block ends, which checks that nothing is left."""
    folder = stand_in.folder_of(runtime)
    folder.create()
    with Bus(folder) as bus:
        found = Running(runtime, {name.replace("__", "@"): behaviour for name, behaviour in rows.items()}, bus)
        try:
            yield found
        finally:
            start = time.monotonic()
            found.supervisor.shutdown()
            lasted = time.monotonic() - start
    assert lasted < STOP_S
    assert not [pid for pid in started(runtime) if psutil.pid_exists(pid)]


@pytest.fixture
def runtime(run_folder: Path) -> Path:
    return run_folder / "run"


def started(runtime: Path) -> list[int]:
    """Pids of the children started so far, in order."""
    path = runtime / "starts"
    return [int(line.split()[1]) for line in path.read_text().splitlines()] if path.exists() else []


def wait_for(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    """It has ended; a zombie that someone else has to reap counts."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@contextmanager
def foreground(runtime: Path, *rows: str, seconds: float = 0.0) -> Iterator[subprocess.Popen[str]]:
    """``run`` over stand-ins as a process of its own; it and what it has started are gone afterwards."""
    before = started(runtime)
    command = [sys.executable, stand_in.__file__, str(runtime), "run", str(seconds), *rows]
    environment = {**os.environ, "PYTHONPATH": str(Path(stand_in.__file__).parents[1])}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
        for pid in started(runtime)[len(before) :]:
            if not is_gone(pid):
                os.kill(pid, signal.SIGKILL)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, float]:
    """Exit status, log, and how long it took."""
    start = time.monotonic()
    _, log = process.communicate(timeout=PATIENCE_S)
    return process.returncode, log, time.monotonic() - start


# --- failures and restarts ---


def test_a_run_that_ends_well_stops_actuators_first_and_leaves_only_locks(runtime: Path) -> None:
    with running(runtime, infer="good", actuate__paddle="good") as run:
        run.until(lambda: run.phase("infer") == run.phase("actuate@paddle") == "running")
    assert (runtime / "order").read_text().split() == ["actuate@paddle", "infer"]
    assert [path.name for path in runtime.iterdir() if path.is_socket()] == []
    assert list((runtime / "rings").iterdir()) == []


def test_a_process_that_dies_is_started_again_and_the_others_are_left_alone(runtime: Path) -> None:
    with running(runtime, infer="good", capture__front="good") as run:
        run.until(lambda: run.phase("infer") == run.phase("capture@front") == "running")
        first, other = run.pid("infer"), run.pid("capture@front")
        os.kill(first, signal.SIGKILL)
        run.until(lambda: run.restarts("infer") == 1 and run.phase("infer") == "running")
        assert run.pid("infer") != first
        assert run.pid("capture@front") == other
    assert run.says(f"infer (pid {first}) died by SIGKILL: restarting at once")


def test_children_do_not_speak_for_a_supervisor_that_systemd_runs(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(runtime / "notify"))
    with running(runtime, infer="good") as run:
        run.until(lambda: run.phase("infer") == "running")
        assert b"NOTIFY_SOCKET" not in Path(f"/proc/{run.pid('infer')}/environ").read_bytes()


def test_a_process_that_crashes_again_and_again_is_started_ever_less_often(runtime: Path) -> None:
    with running(runtime, infer="crash") as run:
        run.until(lambda: run.says("restarting in 0.25 s") and run.says("restarting in 0.5 s"))
    assert run.says("exited with status 3: restarting at once")


def test_the_whole_process_group_goes_with_a_process(runtime: Path) -> None:
    with running(runtime, infer="parent") as run:
        run.until(lambda: run.phase("infer") == "running")
        grandchild = int((runtime / "grandchild").read_text())
        os.kill(run.pid("infer"), signal.SIGKILL)
        run.until(lambda: run.restarts("infer") == 1)
        wait_for(lambda: is_gone(grandchild))
        run.until(lambda: run.phase("infer") == "running")


def test_who_hangs_or_runs_idle_or_is_stopped_is_killed_and_started_again(runtime: Path) -> None:
    with running(runtime, infer="freeze", capture__front="spin", actuate__paddle="good") as run:
        run.until(lambda: run.phase("actuate@paddle") == "running")
        os.kill(run.pid("actuate@paddle"), signal.SIGSTOP)
        run.until(lambda: all(run.restarts(name) for name in ("infer", "capture@front", "actuate@paddle")))
        run.until(lambda: run.phase("actuate@paddle") == "running")
    stalls = [line.split()[2] for line in run.lines if "has not got on for 0.7 s: killed" in line]
    assert {"infer", "capture@front", "actuate@paddle"} == set(stalls)


def test_who_hangs_right_after_its_start_does_not_get_the_time_of_a_start(runtime: Path) -> None:
    with running(runtime, capture__front="late") as run:
        run.until(lambda: run.restarts("capture@front"))
    assert run.says("has not got on for 0.7 s: killed")


def test_a_process_that_never_gets_going_is_killed(runtime: Path) -> None:
    with running(runtime, infer="mute") as run:
        run.until(lambda: started(runtime))
        run.supervisor.turn(time.monotonic_ns() + round((stand_in.START_LIMIT_S + 1) * 1e9))
        run.until(lambda: run.says("has not got going for 10 s: killed"))


def test_a_wrong_configuration_is_not_tried_again(runtime: Path) -> None:
    with running(runtime, infer="misconfigured") as run:
        run.until(lambda: run.supervisor.failure)
        assert run.supervisor.failure == "ERROR infer: boat.keel = 3: expected 4"
        assert run.phase("infer") == "failed"
    assert len(started(runtime)) == 1


def test_a_program_that_is_not_there_is_said_and_tried_again(runtime: Path) -> None:
    with running(runtime, infer="absent") as run:
        run.until(lambda: run.restarts("infer") == 2)
    assert run.says("infer: cannot start /nonexistent/python: No such file or directory")


def test_a_flood_of_output_neither_stops_the_child_nor_reaches_the_log(runtime: Path) -> None:
    with running(runtime, infer="chatty") as run:
        run.until(lambda: run.phase("infer") == "running")
        run.until(lambda: run.says("more lines left out"))
    assert run.says("infer: a line of noise")
    assert len(run.lines) < 500


# --- stopping ---


def test_who_ignores_sigterm_is_killed_in_time(runtime: Path) -> None:
    with running(runtime, infer="stubborn", actuate__paddle="good") as run:
        run.until(lambda: run.phase("infer") == run.phase("actuate@paddle") == "running")
    assert run.says("infer did not stop in 1.4 s: killed")
    assert (runtime / "health@infer").exists(), "nothing is removed after an unclean end"


def test_a_stopped_actuator_does_not_hold_up_the_stop(runtime: Path) -> None:
    with running(runtime, infer="good", actuate__paddle="good") as run:
        run.until(lambda: run.phase("infer") == run.phase("actuate@paddle") == "running")
        os.kill(run.pid("actuate@paddle"), signal.SIGSTOP)
    assert run.says("actuate@paddle did not stop in 1.4 s: killed")


# --- the whole command ---


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_quickly_and_well(runtime: Path, number: signal.Signals) -> None:
    with foreground(runtime, "infer=good", "actuate@paddle=good") as process:
        wait_for(lambda: (runtime / "rings" / "actuate@paddle.ring").exists())
        wait_for(lambda: (runtime / "rings" / "infer.ring").exists())
        process.send_signal(number)
        status, log, lasted = finish(process)
    assert status == 0, log
    assert lasted < STOP_S
    assert all(not psutil.pid_exists(pid) for pid in started(runtime))


def test_the_report_names_processes_their_workers_and_versions(runtime: Path) -> None:
    with foreground(runtime, "infer=parent", "actuate@paddle=good", seconds=2.0) as process:
        status, log, _ = finish(process)
    report = json.loads((runtime.parent / "report.json").read_text())
    assert status == 0, log
    assert report["seconds"] == pytest.approx(2.0, abs=1.0)
    assert report["config"] == "/none.toml"
    assert report["versions"]["python"]
    assert report["worker"].keys() == {"kind", "path", "why", "versions"}
    assert set(report["processes"]) == {"run", "infer", "infer/worker0", "actuate@paddle"}
    assert report["processes"]["infer"]["rss_mb"] > 10
    assert report["processes"]["infer"]["state"] == "running"
    assert report["processes"]["run"]["rss_mb"] > 10
    assert report["agents"]["player"]["decisions"] == 0
    assert report["first_action_ms"] is None


def test_the_run_ends_when_every_world_is_done(runtime: Path) -> None:
    with foreground(runtime, "simulate@pong=done", "infer=good") as process:
        status, log, _ = finish(process)
    assert status == 0, log


def test_a_wrong_configuration_ends_the_run_with_its_message(runtime: Path) -> None:
    with foreground(runtime, "actuate@paddle=good", "infer=misconfigured") as process:
        status, log, _ = finish(process)
    assert status == 78
    assert "given up: ERROR infer: boat.keel = 3: expected 4" in log


def test_a_process_that_is_down_at_the_end_is_a_failure(runtime: Path) -> None:
    with foreground(runtime, "infer=crash", seconds=1.5) as process:
        status, log, _ = finish(process)
    assert status == 1
    assert "infer does not keep running" in log


def test_an_agent_that_never_decided_is_a_failure(runtime: Path) -> None:
    with foreground(runtime, "infer=slow", seconds=1.0) as process:
        status, log, _ = finish(process)
    assert status == 1
    assert "agent player never decided" in log


def test_a_second_supervisor_is_refused_and_named_the_first(runtime: Path) -> None:
    with foreground(runtime, "infer=good") as first:
        wait_for(lambda: (runtime / "rings" / "infer.ring").exists())
        with foreground(runtime, "infer=good") as second:
            status, log, _ = finish(second)
        assert status == 71
        assert f"held by process {first.pid}: already running" in log
        assert first.poll() is None
        first.terminate()
        assert finish(first)[0] == 0


# --- a supervisor that dies ---


def test_children_end_with_their_supervisor(runtime: Path) -> None:
    with foreground(runtime, "infer=good", "actuate@paddle=good") as process:
        wait_for(lambda: (runtime / "rings" / "actuate@paddle.ring").exists())
        wait_for(lambda: (runtime / "rings" / "infer.ring").exists())
        process.kill()
        wait_for(lambda: all(is_gone(pid) for pid in started(runtime)))
    assert sorted((runtime / "order").read_text().split()) == ["actuate@paddle", "infer"], "they were shut down"


def test_what_a_dead_supervisor_left_is_killed_by_the_next(runtime: Path) -> None:
    with foreground(runtime, "infer=good") as first:
        wait_for(lambda: (runtime / "rings" / "infer.ring").exists())
        stuck = started(runtime)[0]
        os.kill(stuck, signal.SIGSTOP)
        first.kill()
        first.wait()
        with foreground(runtime, "infer=good", seconds=1.0) as second:
            status, log, _ = finish(second)
        assert status == 0, log
        assert f"infer (pid {stuck}) is left over from a run whose supervisor died: killed" in log
        assert is_gone(stuck)


def test_a_process_nobody_supervises_is_not_killed_but_named(runtime: Path) -> None:
    folder = stand_in.folder_of(runtime)
    folder.create()
    assert LIFELINE_VARIABLE not in os.environ
    with InstanceLock(folder.lock("actuate@paddle")):
        with foreground(runtime, "infer=good") as process:
            status, log, _ = finish(process)
    assert status == 71
    assert f"held by process {os.getpid()}, which no `reflexd run` has started" in log
    assert started(runtime) == []


@pytest.mark.parametrize("path", ["/nonexistent/out.json", "/dev/null", "/proc/out.json"])
def test_a_report_that_cannot_be_written_is_an_error_at_the_start(path: str) -> None:
    with pytest.raises(ConfigError, match=r"--json /.*: (cannot write there|expected a file)"):
        check_writable(Path(path))


def test_looking_whether_a_report_can_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    check_writable(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
