"""The real process: real sockets, real signals, and the clock on the wall."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.bus import Bus
from daemon.commander import CommandError, command
from daemon.messages import Applied, Operation, Output
from tests.actuate.running import ROOT, Peer, Setup, end, make_setup, running, start

DEADMAN_MS = 250.0
SLACK_S = 0.25
"""Allowed on top of a declared time on a busy test machine."""

COMMANDER = """
import sys, time
from pathlib import Path
from daemon.bus import Bus
from daemon.config import Daemon
from daemon.messages import ActionProposal
from daemon.runtime import RuntimeFolder
with Bus(RuntimeFolder(Daemon(name="t", runtime=sys.argv[1], state=sys.argv[1]))) as bus:
    publisher = bus.publisher("proposal", "paddle")
    while True:
        now = time.monotonic_ns()
        publisher.send(ActionProposal(agent="high", sensor_ns=now, frame_seq=1, action="LEFT"))
        time.sleep(0.02)
"""


def ask(setup: Setup, operation: Operation) -> str:
    """Send a command and return the answer as one line."""
    reply = command(setup.runtime, "paddle", operation, 3000)
    return f"{reply.status}: {reply.detail}; {reply.state}"


@contextlib.contextmanager
def commander(setup: Setup) -> Iterator[subprocess.Popen[bytes]]:
    """A process that proposes LEFT 50 times a second."""
    argv = [sys.executable, "-c", COMMANDER, str(setup.runtime.folder)]
    process = subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


def last(peer: Peer, cause: str) -> Applied:
    return next(one for one in reversed(peer.applied) if one.cause == cause)


def has(peer: Peer, cause: str) -> bool:
    return any(one.cause == cause for one in peer.applied)


def reasons(peer: Peer, since: int = 0) -> set[str]:
    """Why proposals were refused; on a busy machine some are superseded at any time."""
    return {str(one.reason) for one in peer.refused[since:]} - {"superseded"}


# --- the way of a proposal ---------------------------------------------------------------------------------


def test_disarmed_at_start_armed_by_command_then_it_moves(tmp_path: Path) -> None:
    setup = make_setup(tmp_path)
    with running(setup) as (_, peer):
        assert reasons(peer) == {"disarmed"}
        assert peer.health is not None
        assert peer.health.state == "waiting"
        assert ask(setup, "arm").startswith("done: armed")
        peer.propose("JUMP")
        peer.wait(lambda: has(peer, "proposal"), "applied JUMP")
        assert (peer.applied[-1].action, peer.applied[-1].agent) == ("JUMP", "low")
        peer.wait(lambda: peer.health and peer.health.counts["low"]["applied"] == 1, "count in the health report")
        assert setup.causes()[:2] == ["start", "proposal"]


def test_arm_on_start(tmp_path: Path) -> None:
    with running(make_setup(tmp_path, arm_on_start=True)) as (_, peer):
        assert has(peer, "proposal")


def test_the_simulated_driver_moves_its_world(tmp_path: Path) -> None:
    setup = make_setup(tmp_path, driver="simulated", arm_on_start=True)
    setup.runtime.create()
    with Bus(setup.runtime) as world:
        outputs = world.subscriber("output", "field")
        with running(setup) as (process, peer):
            received: list[Output] = []

            def moved() -> bool:
                peer.propose("JUMP", "high")
                received.extend(message for message in outputs.receive() if isinstance(message, Output))
                return any(output.action == "JUMP" for output in received)

            peer.wait(moved, "Output of JUMP")
            process.send_signal(signal.SIGTERM)
            assert process.wait(2.0) == 0
            received.extend(message for message in outputs.receive() if isinstance(message, Output))
            assert received[-1].action == "NOOP", "the last thing a world hears is neutral"


def test_priority_and_hold_between_two_agents(tmp_path: Path) -> None:
    with running(make_setup(tmp_path, arm_on_start=True)) as (_, peer):
        peer.propose("LEFT", "high")
        peer.wait(lambda: peer.applied and peer.applied[-1].action == "LEFT", "applied LEFT")
        peer.propose("JUMP", "low")
        peer.wait(lambda: "outranked" in reasons(peer), "refusal of the lower agent")
        assert peer.applied[-1].action == "LEFT"


# --- a commander that is gone ------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_neutral_within_the_deadman_when_the_commander_is_gone(tmp_path: Path, how: signal.Signals) -> None:
    setup = make_setup(tmp_path, deadman_ms=DEADMAN_MS)
    with running(setup) as (_, peer), commander(setup) as process:
        peer.wait(lambda: any(one.agent == "high" for one in peer.refused), "proposal of the commander")
        ask(setup, "arm")
        peer.wait(lambda: peer.applied and peer.applied[-1].action == "LEFT", "action of the commander")
        process.send_signal(how)
        peer.wait(lambda: has(peer, "deadman"), "dead-man")
        took_s = (last(peer, "deadman").applied_ns - last(peer, "proposal").applied_ns) / 1e9
        assert -0.01 <= took_s - DEADMAN_MS / 1e3 <= SLACK_S
        process.send_signal(signal.SIGCONT)
        if how == signal.SIGSTOP:
            known = len(peer.refused)
            peer.wait(lambda: "disarmed" in reasons(peer, known), "refusal of the one that came back")
        assert peer.applied[-1].cause == "deadman", "armed again only by command"
        assert setup.causes()[-1] == "deadman"


def test_the_same_old_frame_again_and_again_does_not_keep_it_alive(tmp_path: Path) -> None:
    with running(make_setup(tmp_path, deadman_ms=DEADMAN_MS, arm_on_start=True)) as (_, peer):
        once = peer.propose("JUMP", "high")
        peer.wait(lambda: peer.applied and peer.applied[-1].action == "JUMP", "applied JUMP")

        def repeated() -> bool:
            peer.proposal.send(once)
            return has(peer, "deadman")

        peer.wait(repeated, "dead-man")
        peer.wait(lambda: {"replayed", "stale"} <= reasons(peer), "refusal as replayed, then as stale")
        assert [one.action for one in peer.applied].count("JUMP") == 1


def test_resume_goes_on_after_a_deadman(tmp_path: Path) -> None:
    with running(make_setup(tmp_path, deadman_ms=DEADMAN_MS, arm_on_start=True, after_deadman="resume")) as (_, peer):
        peer.wait(lambda: has(peer, "deadman"), "dead-man")
        peer.propose("JUMP", "high")
        peer.wait(lambda: peer.applied[-1].action == "JUMP", "applied JUMP")


# --- an actuator that is stopped, killed or ended ----------------------------------------------------------


def test_what_queued_while_it_was_stopped_is_not_executed_late(tmp_path: Path) -> None:
    setup = make_setup(tmp_path, deadman_ms=DEADMAN_MS, arm_on_start=True, after_deadman="resume")
    with running(setup) as (process, peer):
        peer.propose("LEFT", "high")
        peer.wait(lambda: peer.applied and peer.applied[-1].action == "LEFT", "applied LEFT")
        process.send_signal(signal.SIGSTOP)
        for _ in range(50):
            peer.propose("JUMP", "high")
        time.sleep(0.4)
        known = len(peer.refused)
        process.send_signal(signal.SIGCONT)
        peer.wait(lambda: has(peer, "deadman"), "neutral first of all")
        peer.wait(lambda: len(peer.refused) - known >= 50, "refusal of all 50")
        assert reasons(peer, known) == {"stale"}
        assert "JUMP" not in [line.get("action") for line in setup.lines()]


def test_what_was_sent_while_it_was_away_is_not_executed_late(tmp_path: Path) -> None:
    setup = make_setup(tmp_path, arm_on_start=True)
    setup.runtime.create()
    with Bus(setup.runtime) as bus:
        peer = Peer(setup, bus)
        for _ in range(50):
            peer.propose("JUMP")
        time.sleep(0.15)
        process = start(setup)
        try:
            peer.link()
            assert "JUMP" not in [line.get("action") for line in setup.lines()]
        finally:
            end(process)


@pytest.mark.parametrize("arm_on_start", [False, True])
def test_killed_and_started_again_it_begins_neutral(tmp_path: Path, arm_on_start: bool) -> None:
    setup = make_setup(tmp_path, arm_on_start=arm_on_start)
    with running(setup) as (process, peer):
        ask(setup, "arm")
        peer.propose("JUMP", "high")
        peer.wait(lambda: peer.applied and peer.applied[-1].action == "JUMP", "applied JUMP")
        process.kill()
        process.wait()
        before = len(setup.lines())
        assert setup.lines()[-1]["action"] == "JUMP"
    with running(setup) as (_, peer):
        assert setup.lines()[before] | {"t_ns": 0} == {"t_ns": 0, "cause": "start", "action": "NOOP"}
        assert has(peer, "proposal") == arm_on_start
        assert arm_on_start or reasons(peer) == {"disarmed"}


def test_a_half_written_package_does_not_keep_it_from_being_neutral(tmp_path: Path) -> None:
    setup = make_setup(tmp_path)
    (tmp_path / "package" / "manifest.json").write_text('{"manifest_version": 1, "na')
    with running(setup) as (_, peer):
        assert setup.causes()[0] == "start"
        assert reasons(peer) == {"disarmed"}


def test_a_full_runtime_folder_does_not_keep_it_from_being_neutral(tmp_path: Path, small_tmpfs: Path) -> None:
    setup = make_setup(tmp_path)
    with running(setup):
        pass
    before = len(setup.lines())
    (tmp_path / "run").rename(tmp_path / "old")
    (tmp_path / "run").symlink_to(small_tmpfs)
    setup.runtime.create()
    with contextlib.suppress(OSError), (small_tmpfs / "fill").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    process = start(setup)
    try:
        until = time.monotonic() + 10
        while len(setup.lines()) == before and time.monotonic() < until:
            time.sleep(0.05)
        assert setup.lines()[before]["cause"] == "start"
        assert process.poll() is None
    finally:
        end(process)


def test_an_estop_outlives_kill_9_and_arm_on_start(tmp_path: Path) -> None:
    setup = make_setup(tmp_path, arm_on_start=True)
    with running(setup) as (process, peer):
        peer.propose("JUMP", "high")
        peer.wait(lambda: peer.applied and peer.applied[-1].action == "JUMP", "applied JUMP")
        assert ask(setup, "estop").startswith("done: stopped; neutral; latched on disk")
        process.kill()
        process.wait()
    with running(setup) as (_, peer):
        assert reasons(peer) == {"estop"}
        assert ask(setup, "arm").startswith("refused: the e-stop is latched: by ")
        assert ask(setup, "clear").startswith("done: cleared")
        assert ask(setup, "arm").startswith("done: armed")
        peer.propose("JUMP", "high")
        peer.wait(lambda: has(peer, "proposal"), "applied JUMP")


def test_an_unreadable_latch_stops_it_at_start(tmp_path: Path) -> None:
    setup = make_setup(tmp_path, arm_on_start=True)
    setup.runtime.create()
    setup.latch.mkdir()
    with running(setup) as (_, peer):
        assert reasons(peer) == {"estop"}
        assert peer.health is not None
        assert "another kind of file" in peer.health.detail


@pytest.mark.parametrize("way", ["SIGTERM", "SIGINT", "lifeline"])
def test_it_ends_neutral_and_at_once_even_if_a_peer_reads_nothing(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = socket.socketpair()
    with here, there, monkeypatch.context() as patch:
        patch.setenv("REFLEXD_LIFELINE", str(there.fileno()))
        setup = make_setup(tmp_path, arm_on_start=True)
        with running(setup, keep_fds=(there.fileno(),)) as (process, peer), Bus(setup.runtime) as deaf:
            deaf.subscriber("applied", "paddle")
            for _ in range(400):
                peer.propose("JUMP", "high")
                time.sleep(0.0005)
            began = time.monotonic()
            here.close() if way == "lifeline" else process.send_signal(signal.Signals[way])
            assert process.wait(5.0) == 0
            assert time.monotonic() - began < 2.0
            assert setup.causes()[-1] == "stop"
            assert setup.lines()[-1]["action"] == "NOOP"


def test_a_stop_of_the_process_in_mid_motion_ends_in_neutral(tmp_path: Path) -> None:
    setup = make_setup(tmp_path, deadman_ms=DEADMAN_MS, arm_on_start=True)
    with running(setup) as (process, peer):
        peer.propose("JUMP", "high")
        peer.wait(lambda: peer.applied and peer.applied[-1].action == "JUMP", "applied JUMP")
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.35)
        process.send_signal(signal.SIGCONT)
        resumed = time.monotonic()
        peer.wait(lambda: has(peer, "deadman"), "dead-man")
        assert time.monotonic() - resumed < SLACK_S


# --- what is in the way ------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["proposal", "applied", "command"])
def test_a_plain_file_where_a_socket_should_be(tmp_path: Path, topic: str) -> None:
    setup = make_setup(tmp_path)
    setup.runtime.create()
    (setup.runtime.folder / f"{topic}@paddle").write_text("precious")
    process = start(setup)
    try:
        assert process.wait(10.0) == 71
    finally:
        log = end(process)
    assert f"{topic}@paddle: expected a socket or nothing, found another kind of file" in log
    assert (setup.runtime.folder / f"{topic}@paddle").read_text() == "precious"
    assert setup.causes()[0] == "start", "neutral comes before everything"


def test_a_second_one_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    setup = make_setup(tmp_path, arm_on_start=True)
    with running(setup) as (first, peer):
        second = start(setup)
        try:
            assert second.wait(10.0) == 71
        finally:
            log = end(second)
        assert f"held by process {first.pid}: already running" in log
        assert setup.causes().count("start") == 1, "the second one wrote nothing"
        before = len(peer.messages)
        peer.propose("JUMP")
        peer.wait(lambda: len(peer.messages) > before, "answer of the first")


def test_an_unknown_actuator_is_named(tmp_path: Path) -> None:
    setup = make_setup(tmp_path)
    process = start(setup, name="wheel")
    assert process.wait(10.0) == 78
    assert "expected one named 'wheel', found paddle" in end(process)


def test_a_full_disk_is_reported_and_control_goes_on(small_tmpfs: Path) -> None:
    setup = make_setup(small_tmpfs, arm_on_start=True)
    with running(setup) as (_, peer):
        with (small_tmpfs / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(b"x" * 4096)

        def degraded() -> bool:
            peer.propose("JUMP", "high")
            return peer.health is not None and peer.health.state == "degraded"

        peer.wait(degraded, "report of the full disk", 15.0)
        assert peer.health is not None
        assert "No space left on device" in peer.health.detail
        before = len(peer.applied)
        peer.propose("JUMP", "high")
        peer.wait(lambda: len(peer.applied) > before, "applied JUMP")


def test_no_answer_says_where_it_looked(tmp_path: Path) -> None:
    setup = make_setup(tmp_path)
    began = time.monotonic()
    with pytest.raises(CommandError, match="no answer from actuate@paddle within 300 ms: is the daemon") as lost:
        command(setup.runtime, "paddle", "estop", 300)
    assert str(setup.runtime.folder) in str(lost.value)
    assert time.monotonic() - began < 1.0
