"""The files of the log: numbers that go on, rotation that loses nothing, budgets and full disks that are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.gateway.logs import FileLogs
from daemon.logfile import FILE_BYTES, FILES, Budget, LogFile, LogTail, files, parse_line, read_lines
from daemon.remote import MAX_TEXT, LogRecord

ENDLESS = 2**60
OPEN = Path("/proc/self/fd")


def endless() -> Budget:
    return Budget(0.0, ENDLESS, ENDLESS)


def everything(folder: Path) -> list[LogRecord]:
    """What a gateway that comes now sees."""
    logs = FileLogs(folder)
    records = logs.read_new()
    logs.close()
    return records


def numbers(folder: Path) -> list[int]:
    return [line.number for path in files(folder) for line in read_lines(path)]


@pytest.mark.parametrize(
    ("line", "level", "process", "text", "agent"),
    [
        ("INFO infer: agent driver: ready", "INFO", "infer", "agent driver: ready", "driver"),
        ("ERROR actuate@arm: neutral NOT written", "ERROR", "actuate@arm", "neutral NOT written", ""),
        ("WARNING infer: agents disagree", "WARNING", "infer", "agents disagree", ""),
        ("[threadpool.cpp:66] Resetting", "INFO", "run", "[threadpool.cpp:66] Resetting", ""),
    ],
)
def test_a_line_says_who_and_how_bad(line: str, level: str, process: str, text: str, agent: str) -> None:
    record = parse_line(line, 5)
    assert (record.level, record.process, record.text, record.agent) == (level, process, text, agent)


@given(st.text())
def test_any_line_is_a_record_with_all_its_text(line: str) -> None:
    record = parse_line(line, 1)
    assert isinstance(record, LogRecord)
    assert record.text in line
    assert len(record.text) <= MAX_TEXT


def test_numbers_go_on_over_restarts_and_rotations(tmp_path: Path) -> None:
    for _ in range(3):
        log = LogFile(tmp_path, endless())
        for number in range(400):
            log.append(f"INFO infer: {number} " + "x" * 100 * (number % 20))
        log.close()
    found = numbers(tmp_path)
    assert found == list(range(1, 1201))
    assert len(files(tmp_path)) > 1


def test_files_are_few_and_small(tmp_path: Path) -> None:
    log = LogFile(tmp_path, endless())
    for _ in range(FILES * FILE_BYTES // 1500):
        log.append("INFO infer: " + "x" * 2000)
    log.close()
    assert len(files(tmp_path)) == FILES
    assert all(path.stat().st_size <= FILE_BYTES for path in files(tmp_path))
    found = numbers(tmp_path)
    assert found == list(range(found[0], found[-1] + 1))


def test_a_reader_sees_every_line_once_whatever_is_rotated_meanwhile(tmp_path: Path) -> None:
    open_before = len(list(OPEN.iterdir()))
    log, tail = LogFile(tmp_path, endless()), LogTail(tmp_path)
    seen: list[int] = []
    for number in range(5000):
        log.append(f"INFO infer: {number} " + "x" * 1000)
        if number % 337 == 0:
            seen += [line.number for line in tail.read_new()]
    log.close()
    seen += [line.number for line in tail.read_new()]
    tail.close()
    assert seen == list(range(1, 5001))
    assert len(list(OPEN.iterdir())) <= open_before, "files are closed"


def test_a_line_that_a_power_cut_left_in_half_is_a_gap_that_is_told(tmp_path: Path) -> None:
    log = LogFile(tmp_path, endless())
    for number in range(3):
        log.append(f"INFO infer: {number}")
    log.close()
    path = tmp_path / "log.jsonl"
    path.write_bytes(path.read_bytes()[:-20] + b"\n")
    again = LogFile(tmp_path, endless())
    again.append("INFO infer: later")
    again.append("INFO infer: latest")
    again.close()
    records = everything(tmp_path)
    assert [record.text for record in records][-1] == "latest"
    texts = "\n".join(record.text for record in records)
    assert texts.count("later") == 1


def test_a_missing_number_is_told(tmp_path: Path) -> None:
    log = LogFile(tmp_path, endless())
    for number in range(6):
        log.append(f"INFO infer: {number}")
    log.close()
    path = tmp_path / "log.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], *lines[4:]]))
    records = everything(tmp_path)
    (gap,) = [record for record in records if record.lost]
    assert (gap.lost, gap.process) == (2, "gateway")
    assert "numbers 3 to 4" in gap.text


def test_what_is_above_the_budget_is_counted_and_told(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Budget(0.0, 0, 2000))
    for number in range(50):
        log.append(f"INFO infer: {number}")
    log.append("ERROR infer: this comes out of the part kept for errors")
    log.close()
    records = everything(tmp_path)
    (told,) = [record for record in records if record.lost]
    written = [record for record in records if record.process == "infer" and record.level == "INFO"]
    assert told.lost == 50 - len(written) > 0
    assert "MiB a day" in told.text
    assert records[-1].level == "ERROR"


def test_a_full_disk_ends_nothing_and_is_told_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogFile(tmp_path, endless())
    log.append("INFO infer: before")
    there = log._file
    with Path("/dev/full").open("ab", buffering=0) as full:
        monkeypatch.setattr(log, "_file", full)
        for number in range(3):
            log.append(f"INFO infer: {number}")
    monkeypatch.setattr(log, "_file", there)
    log.append("INFO infer: after")
    log.close()
    records = everything(tmp_path)
    assert [record.text for record in records if not record.lost] == ["before", "after"]
    assert [record.lost for record in records if record.lost] == [3]
    assert "No space left" in next(record.text for record in records if record.lost)


@given(st.lists(st.tuples(st.floats(0, 1000), st.integers(1, 5000), st.booleans()), max_size=60))
def test_no_more_is_written_than_the_budget_has(asked: list[tuple[float, int, bool]]) -> None:
    budget, now_s, written = Budget(0.0, 86_400, 4000), 0.0, 0
    for pause_s, size, urgent in asked:
        now_s += pause_s
        written += size if budget.allows(size, urgent, now_s) else 0
    assert written <= 4000 + now_s + 1
