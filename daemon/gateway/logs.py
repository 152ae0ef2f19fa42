"""Where the log comes from: the files of ``reflexd run``, or the journal of a daemon that systemd runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from daemon.logfile import Line, LogTail, files, read_lines
from daemon.remote import LEVELS, MAX_TEXT, Level, LogRecord
from daemon.runtime import SERVICES_RUNTIME

_PRIORITIES: tuple[Level, ...] = ("CRITICAL", "CRITICAL", "CRITICAL", "ERROR", "WARNING", "INFO", "INFO", "DEBUG")
"""syslog(3): 0 is the most urgent."""
AT_ONCE = 2000
"""Records of the journal taken at one look."""


class LogSource(Protocol):
    """A log that grows."""

    def read_new(self) -> list[LogRecord]:
        """What has come since the last look; at the first, what is there already."""

    def history(self, until_us: int) -> Iterator[LogRecord]:
        """Records up to that time that are still there, oldest first; may take its time."""

    def close(self) -> None:
        """Let go of files."""


def open_logs(state: Path, runtime: Path, processes: list[str]) -> LogSource:
    """The log of the daemon with these folders and processes."""
    if runtime.parent == SERVICES_RUNTIME:
        return JournalLogs(processes)
    return FileLogs(state / "log")


class FileLogs:
    """The files that ``reflexd run`` writes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tail = LogTail(folder)
        self._number = 0

    def read_new(self) -> list[LogRecord]:
        """New lines; a number that is missing becomes a record that says so."""
        return [record for line in self._tail.read_new() for record in self._with_gap(line)]

    def history(self, until_us: int) -> Iterator[LogRecord]:
        """All files."""
        for path in files(self._folder):
            yield from (_record(line) for line in read_lines(path) if line.at_us <= until_us)

    def close(self) -> None:
        """Close the file being read."""
        self._tail.close()

    def _with_gap(self, line: Line) -> Iterator[LogRecord]:
        missing = line.number - self._number - 1
        if self._number and missing > 0 and not line.lost:
            text = f"{missing} records are missing: numbers {self._number + 1} to {line.number - 1} of the log's files"
            yield LogRecord(at_us=line.at_us, level="WARNING", process="gateway", text=text, lost=missing)
        self._number = line.number
        yield _record(line)


def _record(line: Line) -> LogRecord:
    level: Level = next((level for level in LEVELS if level == line.level), "INFO")
    return LogRecord(
        at_us=line.at_us, level=level, process=line.process, text=line.text, agent=line.agent, lost=line.lost
    )


class JournalLogs:
    """The journal, by the fields that :mod:`daemon.journal` writes.

    Args:
        processes: ``<kind>@<name>`` or plain ``infer``.
        path: folder of the journal's files, by default the machine's own.
    """

    def __init__(self, processes: list[str], path: str | None = None) -> None:
        self._processes, self._path = processes, path
        self._reader = self._open()
        self._reader.fileno()  # from here on files that come and go are noticed
        self._reader.seek_tail()
        self._first: dict[str, Any] = self._reader.get_previous(AT_ONCE)
        """Where it stands now, which reading on would pass over."""

    def read_new(self) -> list[LogRecord]:
        """New entries of all of the daemon's processes, and what systemd says of their units."""
        self._reader.process()
        first, self._first = ([self._first] if self._first else []), {}
        return [_from_journal(entry) for entry in (*first, *islice(self._reader, AT_ONCE))]

    def history(self, until_us: int) -> Iterator[LogRecord]:
        """As far back as the journal goes."""
        reader = self._open()
        reader.seek_head()
        for entry in reader:
            record = _from_journal(entry)
            if record.at_us > until_us:
                return
            yield record

    def close(self) -> None:
        """Close the journal."""
        self._reader.close()

    def _open(self) -> Any:
        from systemd.journal import Reader

        reader = Reader(path=self._path)
        for process in self._processes:
            for match in (f"SYSLOG_IDENTIFIER=reflexd-{process}", f"UNIT=reflexd-{process}.service"):
                reader.add_match(match)
                reader.add_disjunction()
        return reader


def _from_journal(entry: dict[str, Any]) -> LogRecord:
    time: datetime = entry.get("__REALTIME_TIMESTAMP", datetime.fromtimestamp(0, UTC))
    unit = str(entry.get("UNIT", entry.get("SYSLOG_IDENTIFIER", ""))).removeprefix("reflexd-").removesuffix(".service")
    return LogRecord(
        at_us=max(0, round(time.timestamp() * 1e6)),
        level=_PRIORITIES[min(7, max(0, int(entry.get("PRIORITY", 6))))],
        process=str(entry.get("PROCESS", unit))[:64],
        text=str(entry.get("MESSAGE", ""))[:MAX_TEXT],
        agent=str(entry.get("AGENT", ""))[:64],
    )
