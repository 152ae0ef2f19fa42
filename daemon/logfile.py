"""The log of a run that systemd does not keep: numbered JSON lines in a few files, with a daily budget for SD cards.

``reflexd run`` writes it, the gateway reads it. A number that is missing is a record that is missing.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

import msgspec

from daemon.remote import LEVELS, MAX_TEXT, LogRecord

FILE_BYTES = 1024 * 1024
FILES = 8
"""Files kept: the one being written and those before it."""
DAILY_BYTES = 32 * 1024 * 1024
"""Written in a day at most: 12 GB a year, which no SD card minds. What is above it is numbered, and not there."""
_BURST_BYTES = DAILY_BYTES // 8
_OVERHEAD_BYTES = 100
"""Of a line, beside its text: about as much."""
_RESERVED = 0.5
"""Part of the budget kept for warnings and errors."""
_LINE = re.compile(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<process>\S+): (?P<text>.*)", re.DOTALL)
_AGENT = re.compile(r"agent (?P<agent>[a-z][a-z0-9_-]{0,31})\b")


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the file."""

    number: int
    at_us: int
    level: str
    process: str
    text: str
    agent: str = ""
    lost: int = 0


def parse_line(line: str, at_us: int) -> LogRecord:
    """A line that a process logged, ``LEVEL process: text``; of any other form the level is INFO and it is all text."""
    found = _LINE.fullmatch(line)
    level, process, text = found.group("level", "process", "text") if found else ("INFO", "run", line)
    agent = _AGENT.match(text)
    return msgspec.convert(
        {
            "type": "LogRecord",
            "at_us": at_us,
            "level": level,
            "process": process[:64],
            "text": text[:MAX_TEXT],
            "agent": agent.group("agent") if agent else "",
        },
        LogRecord,
    )


class Budget:
    """Bytes that may be written. Pure: time is passed in, s."""

    def __init__(self, now_s: float, daily: int = DAILY_BYTES, burst: int = _BURST_BYTES) -> None:
        self._rate, self._burst = daily / 86_400, float(burst)
        self._left, self._at_s = float(burst), now_s

    def allows(self, size: int, urgent: bool, now_s: float) -> bool:
        """Take ``size`` from the budget, if it is there; what is not urgent leaves a part of it alone."""
        self._left = min(self._burst, self._left + (now_s - self._at_s) * self._rate)
        self._at_s = now_s
        if self._left - size < (0.0 if urgent else self._burst * _RESERVED):
            return False
        self._left -= size
        return True


class LogFile:
    """The writing end; one process has it.

    Args:
        folder: where the files are; made if it is not there.
    """

    def __init__(self, folder: Path, budget: Budget | None = None) -> None:
        self._folder = folder
        self._path = folder / "log.jsonl"
        self._budget = budget or Budget(time.monotonic())
        self._left_out = 0
        self._why = ""
        self._torn = self._path.exists() and not self._path.read_bytes().endswith(b"\n")
        """What is in the file ends in the middle of a line."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._number = _last_number(folder)
        self._file = self._path.open("ab", buffering=0)

    def append(self, text: str) -> None:
        """Write a line that a process logged. When it cannot be written its number is missing, as the next one says."""
        record = parse_line(text, time.time_ns() // 1000)
        urgent = LEVELS.index(record.level) >= LEVELS.index("WARNING")
        if not self._budget.allows(_OVERHEAD_BYTES + len(record.text), urgent, time.monotonic()):
            self._leave_out(f"more than {DAILY_BYTES // 2**20} MiB a day")
            return
        try:
            if self._left_out:
                self._write(_missing(record.at_us, self._left_out, self._why))
                self._left_out = 0
            self._write(record)
        except OSError as error:  # a full disk must not end a run
            self._leave_out(f"{self._path}: {error.strerror}")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, record: LogRecord) -> None:
        values = {field: getattr(record, field) for field in record.__struct_fields__}
        data = msgspec.json.encode(Line(number=self._number + 1, **values)) + b"\n"
        if self._file.tell() + len(data) > FILE_BYTES:
            self._rotate()
        if self._torn:
            data = b"\n" + data
        self._torn = self._file.write(data) != len(data)
        if self._torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._number += 1

    def _leave_out(self, why: str) -> None:
        self._number += 1
        self._left_out += 1
        self._why = why

    def _rotate(self) -> None:
        self._file.close()
        for number in range(FILES - 2, 0, -1):
            older = self._folder / f"log.{number}.jsonl"
            if older.exists():
                older.replace(self._folder / f"log.{number + 1}.jsonl")
        self._path.replace(self._folder / "log.1.jsonl")
        self._file = self._path.open("ab", buffering=0)


def _last_number(folder: Path) -> int:
    """Of the newest whole line there is; 0 without any."""
    newest_first = (line for path in reversed(files(folder)) for line in reversed(path.read_bytes().split(b"\n")))
    return next((line.number for text in newest_first for line in parse_lines(text)), 0)


def _missing(at_us: int, lost: int, why: str) -> LogRecord:
    text = f"{lost} records of the log were not written: {why}"
    return LogRecord(at_us=at_us, level="WARNING", process="run", text=text[:MAX_TEXT], lost=lost)


def files(folder: Path) -> list[Path]:
    """The files of a log, oldest first."""
    older = [folder / f"log.{number}.jsonl" for number in range(FILES - 1, 0, -1)]
    return [path for path in (*older, folder / "log.jsonl") if path.exists()]


_decoder = msgspec.json.Decoder(Line)


def read_lines(path: Path) -> Iterator[Line]:
    """The whole lines of a file; what a power cut left of a line is passed over: its number is missing."""
    try:
        data = path.read_bytes()
    except OSError:  # rotated away a moment ago
        return
    yield from parse_lines(data)


def parse_lines(data: bytes) -> Iterator[Line]:
    """The lines that are whole and in order."""
    for text in data.split(b"\n"):
        try:
            yield _decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue


class LogTail:
    """The reading end: what is new since the last look."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: BufferedReader | None = None
        self._rest = b""

    def read_new(self) -> list[Line]:
        """Lines that have come, also those in files that were rotated away since."""
        data = self._rest if self._file is None else self._rest + self._file.read()
        for file in self._later():
            self.close()
            self._file = file
            data += file.read()
        *whole, self._rest = data.split(b"\n")
        return list(parse_lines(b"\n".join(whole)))

    def close(self) -> None:
        """Close the file being read."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _later(self) -> list[BufferedReader]:
        """The files after the one being read, oldest first."""
        own = 0 if self._file is None else os.fstat(self._file.fileno()).st_ino
        if own and _inode(self._folder / "log.jsonl") == own:
            return []
        opened: dict[int, BufferedReader] = {}
        for path in reversed(files(self._folder)):  # newest first: one renamed meanwhile is met twice, not missed
            with suppress(OSError):
                file = path.open("rb")
                if opened.setdefault(os.fstat(file.fileno()).st_ino, file) is not file:
                    file.close()
        later: list[BufferedReader] = []
        for inode, file in opened.items():
            if inode == own:
                file.close()
                break
            later.insert(0, file)
        for inode in list(opened)[len(later) + 1 :]:
            opened[inode].close()
        return later


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0
