"""The drivers by themselves: what they write, and what they do when they cannot."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from daemon.actuate.drivers import DriverError
from daemon.actuate.drivers.log import LogDriver
from daemon.actuate.drivers.simulated import SimulatedDriver
from daemon.bus import Bus
from daemon.config import Daemon
from daemon.messages import Applied, Message, Output
from daemon.runtime import RuntimeFolder

JUMP = Applied(seq=3, applied_ns=70, cause="proposal", agent="low", action="JUMP", sensor_ns=60, frame_seq=5)
NEUTRAL = Applied(seq=4, applied_ns=80, cause="deadman", values=[0.5, -1.0])
JUMP_LINE = {"t_ns": 70, "cause": "proposal", "agent": "low", "action": "JUMP", "sensor_ns": 60}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "paddle.jsonl"


def opened(path: Path, max_bytes: int = 4096) -> LogDriver:
    driver = LogDriver(path, max_bytes)
    driver.open()
    return driver


def lines(path: Path) -> list[object]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_log_writes_a_line_for_each_write_at_once(path: Path) -> None:
    driver = opened(path)
    driver.write(JUMP)
    assert lines(path) == [JUMP_LINE]
    driver.write(NEUTRAL)
    assert lines(path)[1] == {"t_ns": 80, "cause": "deadman", "values": [0.5, -1.0]}
    driver.close()
    driver.close()
    again = opened(path)
    again.write(JUMP)
    again.close()
    assert len(lines(path)) == 3, "a restart appends"
    assert (driver.complaint, driver.lost) == ("", 0)


def test_log_never_syncs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("an SD card wears by this"))
    driver = opened(path)
    driver.write(JUMP)
    driver.close()


def test_log_is_bounded_by_one_rotation(path: Path) -> None:
    driver = opened(path)
    for _ in range(300):
        driver.write(JUMP)
    driver.close()
    old = path.with_name("paddle.jsonl.1")
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["paddle.jsonl", "paddle.jsonl.1"]
    assert path.stat().st_size <= 4096
    assert old.stat().st_size <= 4096
    assert lines(old) + lines(path) == [JUMP_LINE] * (len(lines(old)) + len(lines(path)))


def test_log_goes_on_after_a_torn_line(path: Path) -> None:
    path.write_bytes(b'{"t_ns":1,"ca')
    driver = opened(path)
    driver.write(JUMP)
    driver.close()
    assert path.read_text().splitlines()[0] == '{"t_ns":1,"ca'
    assert json.loads(path.read_text().splitlines()[1]) == JUMP_LINE


def test_log_on_a_full_disk_counts_and_recovers(small_tmpfs: Path) -> None:
    driver = opened(small_tmpfs / "paddle.jsonl", 10**9)
    while not driver.lost:
        driver.write(JUMP)
    driver.write(JUMP)
    assert driver.lost == 2
    assert "No space left on device; 2 lines lost" in driver.complaint
    os.truncate(small_tmpfs / "paddle.jsonl", 0)
    driver.write(JUMP)
    assert (driver.lost, driver.complaint) == (2, ""), "the count stays"
    driver.close()


@pytest.mark.parametrize("obstacle", ["folder", "link", "fifo"])
def test_log_complains_about_what_is_not_a_file_and_blocks_nobody(path: Path, obstacle: str) -> None:
    if obstacle == "folder":
        path.mkdir()
    elif obstacle == "link":
        path.symlink_to("/dev/null")
    else:
        os.mkfifo(path)
    driver = opened(path)
    assert driver.complaint
    driver.write(JUMP)
    assert driver.lost == 1
    path.rmdir() if obstacle == "folder" else path.unlink()
    driver.write(JUMP)
    assert driver.complaint == ""
    assert lines(path) == [JUMP_LINE]
    driver.close()


def test_simulated_sends_what_a_pin_would_carry(tmp_path: Path) -> None:
    runtime = RuntimeFolder(Daemon(name="t", runtime=str(tmp_path / "run"), state=str(tmp_path / "state")))
    runtime.create()
    with Bus(runtime) as world, Bus(runtime) as bus:
        subscriber = world.subscriber("output", "field")
        driver = SimulatedDriver(bus, "field")
        with pytest.raises(DriverError, match="world field: the link is not open"):
            driver.write(JUMP)
        driver.open()
        received: list[Message] = []
        deadline = time.monotonic() + 5.0
        while not received and time.monotonic() < deadline:
            driver.write(JUMP)
            time.sleep(0.01)
            received = subscriber.receive()
        assert received[0] == Output(seq=3, sent_ns=70, frame_seq=5, action="JUMP")
        driver.close()


def test_simulated_says_when_the_link_is_gone(tmp_path: Path) -> None:
    runtime = RuntimeFolder(Daemon(name="t", runtime=str(tmp_path / "run"), state=str(tmp_path / "state")))
    runtime.create()
    with Bus(runtime) as bus:
        driver = SimulatedDriver(bus, "field")
        driver.open()
    with pytest.raises(DriverError, match="world field: "):
        driver.write(JUMP)
