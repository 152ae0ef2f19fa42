"""What systemd hears from a process, on a real datagram socket."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.journal import journal_handler
from daemon.notify import EXTEND_EVERY_NS, STATUS_EVERY_NS, Letterbox, Notifier, connect, watchdog_ns
from daemon.restart import RestartPolicy

NO_BINDING = "the binding to systemd is not installed: apt install libsystemd-dev pkg-config, remove .venv/dev.stamp"

MS = 1_000_000
WATCHDOG_NS = 900 * MS
STALL_NS = 3_000 * MS
CONFIG = """
[daemon]
name = "n"
runtime = "{folder}/run"
state = "{folder}/state"
[agents.a]
package = "nowhere"
source = "s"
actuator = "arm"
[sources.s]
kind = "synthetic"
width = 32
height = 32
fps = 30.0
[actuators.arm]
driver = "log"
actions = ["STAY", "GO"]
neutral = "STAY"
deadman_ms = 250.0
"""


@pytest.fixture
def systemd(run_folder: Path) -> Iterator[socket.socket]:
    """The other end: a bound socket, as systemd's."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(str(run_folder / "notify"))
        bound.settimeout(10.0)
        yield bound


def notifier(said: list[str], stall_ns: int = STALL_NS, watchdog: int = WATCHDOG_NS) -> Notifier:
    policy = RestartPolicy(15_000 * MS, stall_ns)
    policy.started(0)
    return Notifier(said.append, policy, watchdog)


def lines(said: list[str]) -> list[str]:
    found = [line for text in said for line in text.split("\n")]
    said.clear()
    return found


def test_ready_comes_once_when_the_stage_has_started() -> None:
    said: list[str] = []
    one = notifier(said)
    one.turn("starting", 0, "a verifying", 0)
    assert "READY=1" not in lines(said)
    one.turn("running", 1, "", 200 * MS)
    assert "READY=1" in lines(said)
    one.turn("starting", 2, "", 400 * MS)
    one.turn("running", 3, "", 600 * MS)
    assert "READY=1" not in lines(said)


def test_time_is_asked_for_while_starting_and_only_then() -> None:
    said: list[str] = []
    one = notifier(said)
    one.turn("starting", 0, "", 0)
    assert "EXTEND_TIMEOUT_USEC=15000000" in lines(said)
    one.turn("starting", 0, "", EXTEND_EVERY_NS - 1)
    assert not any(line.startswith("EXTEND") for line in lines(said))
    one.turn("starting", 0, "", EXTEND_EVERY_NS)
    assert "EXTEND_TIMEOUT_USEC=15000000" in lines(said)
    one.turn("running", 1, "", 2 * EXTEND_EVERY_NS)
    assert not any(line.startswith("EXTEND") for line in lines(said))


def test_a_process_that_never_gets_going_stops_asking(caplog: pytest.LogCaptureFixture) -> None:
    said: list[str] = []
    one = notifier(said)
    one.turn("starting", 0, "", 0)
    lines(said)
    one.turn("starting", 0, "", 15_001 * MS)
    assert lines(said) == []
    assert "no progress for 15 s" in caplog.text


def test_the_watchdog_is_fed_every_third_of_its_time() -> None:
    said: list[str] = []
    one = notifier(said)
    fed = []
    for ms in range(0, 1000, 100):
        one.turn("running", ms, "", ms * MS)
        if "WATCHDOG=1" in lines(said):
            fed.append(ms)
    assert fed == [0, 300, 600, 900]


def test_without_a_watchdog_nothing_is_fed() -> None:
    said: list[str] = []
    notifier(said, watchdog=0).turn("running", 1, "", 0)
    assert lines(said) == ["STATUS=running", "READY=1"]


def test_a_loop_that_turns_without_progress_starves_the_watchdog(caplog: pytest.LogCaptureFixture) -> None:
    said: list[str] = []
    one = notifier(said)
    one.turn("running", 7, "", 0)
    one.turn("running", 7, "", STALL_NS)
    assert "WATCHDOG=1" in lines(said)
    for after in (1, 400, 800):
        one.turn("running", 7, "", STALL_NS + after * MS)
    assert "WATCHDOG=1" not in lines(said)
    assert caplog.text.count("no progress for 3 s: left to systemd") == 1
    one.turn("running", 8, "", STALL_NS + 1_000 * MS)
    assert "WATCHDOG=1" in lines(said), "it got on before systemd acted"


def test_who_has_nothing_to_advance_is_alive_as_long_as_it_turns() -> None:
    said: list[str] = []
    one = notifier(said)
    for second in range(60):
        one.turn("waiting", 0, "no frames from cam", second * 1_000 * MS)
        assert "WATCHDOG=1" in lines(said)


def test_a_change_of_state_is_told_at_once_and_a_counter_now_and_then() -> None:
    said: list[str] = []
    one = notifier(said, watchdog=0)
    one.turn("running", 1, "1 frames", 0)
    assert "STATUS=running: 1 frames" in lines(said)
    one.turn("running", 2, "2 frames", STATUS_EVERY_NS - 1)
    assert lines(said) == []
    one.turn("degraded", 2, "2 frames", STATUS_EVERY_NS - 1)
    assert lines(said) == ["STATUS=degraded: 2 frames"]
    one.turn("degraded", 3, "3 frames", 2 * STATUS_EVERY_NS)
    assert lines(said) == ["STATUS=degraded: 3 frames"]


def test_a_text_cannot_smuggle_an_assignment() -> None:
    said: list[str] = []
    notifier(said, watchdog=0).turn("running", 1, "so\nMAINPID=1", 0)
    assert lines(said) == ["STATUS=running: so MAINPID=1", "READY=1"]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, 0),
        ({"WATCHDOG_USEC": "3000000"}, 3_000 * MS),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 3_000 * MS),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, 0),
        ({"WATCHDOG_USEC": "soon"}, 0),
    ],
)
def test_the_watchdog_of_this_process(environment: dict[str, str], expected: int) -> None:
    assert watchdog_ns(environment) == expected


def test_without_systemd_nothing_is_loaded() -> None:
    check = (
        "import sys; from daemon.notify import connect; assert connect({}) is None; assert 'systemd' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


def test_a_missing_package_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, systemd: socket.socket
) -> None:
    monkeypatch.setitem(sys.modules, "systemd.daemon", None)
    assert connect({"NOTIFY_SOCKET": str(systemd.getsockname())}) is None
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "python3-systemd" in caplog.text


def test_nobody_at_the_socket_is_one_clear_line(run_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("systemd.daemon", reason=NO_BINDING)
    assert connect({"NOTIFY_SOCKET": str(run_folder / "nobody")}) is None
    assert "nobody: systemd cannot be told anything" in caplog.text


@pytest.mark.parametrize("abstract", [False, True])
def test_a_message_arrives(run_folder: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool) -> None:
    pytest.importorskip("systemd.daemon", reason=NO_BINDING)
    name = f"@reflexd-test-{os.getpid()}" if abstract else str(run_folder / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind("\0" + name[1:] if abstract else name)
        bound.settimeout(5.0)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        send = connect()
        assert send is not None
        send("READY=1\nSTATUS=running")
        assert bound.recv(4096) == b"READY=1\nSTATUS=running"


def test_a_systemd_that_does_not_read_holds_nobody_up(
    systemd: socket.socket, run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("systemd.daemon", reason=NO_BINDING)
    monkeypatch.setenv("NOTIFY_SOCKET", str(run_folder / "notify"))
    send = connect()
    assert send is not None
    begun = time.monotonic()
    for _ in range(5_000):  # more than any queue holds
        send("WATCHDOG=1")
    assert time.monotonic() - begun < 5.0
    box = Letterbox(str(run_folder / "notify"))
    assert not box.has_room()
    systemd.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            systemd.recv(4096)
    assert box.has_room()


def test_the_journal_is_for_those_whose_stderr_leads_there() -> None:
    pytest.importorskip("systemd.journal", reason=NO_BINDING)
    assert journal_handler("infer", {}) is None
    assert journal_handler("infer", {"JOURNAL_STREAM": "1:2"}) is None


def test_a_record_carries_its_fields(run_folder: Path) -> None:
    pytest.importorskip("systemd.journal", reason=NO_BINDING)
    stderr = os.fstat(2)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(str(run_folder / "journal"))
        environment = {"JOURNAL_STREAM": f"{stderr.st_dev}:{stderr.st_ino}"}
        handler = journal_handler("actuate@arm", environment, str(run_folder / "journal"))
    assert handler is not None
    sent: list[tuple[str, dict[str, object]]] = []

    def keep(text: str, /, **fields: object) -> None:
        sent.append((text, fields))

    handler.send = keep  # type: ignore[attr-defined]
    record = logging.makeLogRecord({"msg": "stands", "levelno": logging.WARNING, "AGENT": "a"})
    handler.emit(record)
    ((message, fields),) = sent
    assert message == "stands"
    expected = {"PROCESS": "actuate@arm", "KIND": "actuate", "INSTANCE": "arm", "AGENT": "a", "PRIORITY": "4"}
    assert fields.items() >= {**expected, "SYSLOG_IDENTIFIER": "reflexd-actuate@arm"}.items()


def told(systemd: socket.socket, wanted: str) -> list[str]:
    """What comes until a line begins as wanted."""
    heard: list[str] = []
    while not any(line.startswith(wanted) for line in heard):
        heard += systemd.recv(4096).decode().split("\n")
    return heard


def test_a_real_process_from_start_to_stop(systemd: socket.socket, run_folder: Path) -> None:
    pytest.importorskip("systemd.daemon", reason=NO_BINDING)
    config = run_folder / "c.toml"
    config.write_text(CONFIG.format(folder=run_folder))
    told_by = {"NOTIFY_SOCKET": str(run_folder / "notify"), "WATCHDOG_USEC": "900000"}
    with subprocess.Popen(
        [sys.executable, "-m", "daemon.actuate", str(config), "arm"],
        env={**os.environ, **told_by},
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            assert any(line.startswith("STATUS=waiting: disarmed") for line in told(systemd, "READY=1"))
            told(systemd, "WATCHDOG=1")
            process.send_signal(signal.SIGTERM)
            assert "STATUS=stopping" in told(systemd, "STOPPING=1")
            assert process.wait(5.0) == 0
        finally:
            process.kill()


def test_what_a_restart_cannot_mend_is_the_last_status(systemd: socket.socket, run_folder: Path) -> None:
    pytest.importorskip("systemd.daemon", reason=NO_BINDING)
    config = run_folder / "c.toml"
    config.write_text(CONFIG.format(folder=run_folder))
    ended = subprocess.run(
        [sys.executable, "-m", "daemon.capture", str(config), "gone"],
        env={**os.environ, "NOTIFY_SOCKET": str(run_folder / "notify")},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert ended.returncode == 78
    (status,) = told(systemd, "STATUS=")
    assert "agents.a.package = 'nowhere'" in status
    assert status.removeprefix("STATUS=") in ended.stderr


def test_a_service_left_over_from_an_earlier_configuration_says_so() -> None:
    config = Path(__file__).parents[1] / "models/pong/log.toml"
    for kind, what in (("capture", "sources.gone: not there; sources: cam"), ("simulate", "worlds.gone: not there")):
        command = [sys.executable, "-m", f"daemon.{kind}", str(config), "gone"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=30)
        assert ended.returncode == 78
        assert what in ended.stderr
