"""The log out of a real journal's files: what belongs to the daemon, in order, as it grows, with its fields."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from daemon.gateway.logs import JournalLogs
from daemon.remote import Log, LogRecord

WRITER = Path("/usr/lib/systemd/systemd-journal-remote")
PROCESSES = ["infer", "actuate@arm", "gateway"]
BEGUN_US = 1_700_000_000_000_000

pytestmark = pytest.mark.skipif(
    not WRITER.exists(), reason="no systemd-journal-remote, which writes journals: apt install systemd-journal-remote"
)


def entry(number: int, **fields: str) -> str:
    """One entry in the export format of journalctl(1)."""
    at_us = BEGUN_US + number
    boot = "0" * 31 + "1"
    head = {
        "__CURSOR": f"s={boot};i={number:x};b={boot};m={number:x};t={at_us:x};x={number:x}",
        "__REALTIME_TIMESTAMP": str(at_us),
        "__MONOTONIC_TIMESTAMP": str(number),
        "_BOOT_ID": boot,
    }
    return "".join(f"{key}={value}\n" for key, value in {**head, **fields}.items()) + "\n"


def write(folder: Path, name: str, *entries: str) -> None:
    """A journal file with these entries."""
    command = [str(WRITER), f"--output={folder / name}.journal", "-"]
    subprocess.run(command, input="".join(entries), text=True, check=True, capture_output=True, timeout=30)


def by(process: str, number: int, text: str, **fields: str) -> str:
    return entry(number, SYSLOG_IDENTIFIER=f"reflexd-{process}", PROCESS=process, MESSAGE=text, **fields)


def first_entries() -> list[str]:
    return [
        by("infer", 1, "agent driver: ready", PRIORITY="6", AGENT="driver"),
        entry(2, SYSLOG_IDENTIFIER="sshd", MESSAGE="not ours", PRIORITY="3"),
        entry(3, SYSLOG_IDENTIFIER="systemd", UNIT="reflexd-actuate@arm.service", MESSAGE="Started", PRIORITY="6"),
        entry(4, SYSLOG_IDENTIFIER="systemd", UNIT="ssh.service", MESSAGE="Started", PRIORITY="6"),
        by("actuate@arm", 5, "neutral could not be written", PRIORITY="3"),
        entry(6, SYSLOG_IDENTIFIER="reflexd-gateway", MESSAGE="Traceback (most recent call last):", PRIORITY="6"),
    ]


def test_the_daemons_own_entries_come_with_their_fields(tmp_path: Path) -> None:
    write(tmp_path, "a", *first_entries())
    found = JournalLogs(PROCESSES, str(tmp_path)).read_new()
    assert found == [
        LogRecord(at_us=BEGUN_US + 1, level="INFO", process="infer", text="agent driver: ready", agent="driver"),
        LogRecord(at_us=BEGUN_US + 3, level="INFO", process="actuate@arm", text="Started"),
        LogRecord(at_us=BEGUN_US + 5, level="ERROR", process="actuate@arm", text="neutral could not be written"),
        LogRecord(at_us=BEGUN_US + 6, level="INFO", process="gateway", text="Traceback (most recent call last):"),
    ]


def test_what_comes_later_is_seen_once(tmp_path: Path) -> None:
    write(tmp_path, "a", *first_entries())
    log = JournalLogs(PROCESSES, str(tmp_path))
    assert len(log.read_new()) == 4
    assert log.read_new() == []
    write(tmp_path, "b", by("infer", 7, "later", PRIORITY="4"))
    (late,) = log.read_new()
    assert (late.text, late.level) == ("later", "WARNING")
    assert log.read_new() == []


def test_an_empty_journal_grows_too(tmp_path: Path) -> None:
    write(tmp_path, "a", entry(1, SYSLOG_IDENTIFIER="sshd", MESSAGE="not ours"))
    log = JournalLogs(PROCESSES, str(tmp_path))
    assert log.read_new() == []
    write(tmp_path, "b", by("infer", 7, "first"))
    assert [record.text for record in log.read_new()] == ["first"]


def test_history_ends_where_it_is_told_to(tmp_path: Path) -> None:
    write(tmp_path, "a", *first_entries())
    log = JournalLogs(PROCESSES, str(tmp_path))
    assert [record.at_us - BEGUN_US for record in log.history(BEGUN_US + 5)] == [1, 3, 5]
    wanted = Log(level="ERROR", process="actuate", since_us=BEGUN_US)
    assert [record.text for record in log.history(2**62) if wanted.takes(record)] == ["neutral could not be written"]
