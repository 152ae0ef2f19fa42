"""What the gateway answers by itself: how things stand, what the log says, what a model sees, if a file is good."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from daemon.config import ConfigError
from daemon.gateway.book import Book
from daemon.gateway.logs import LogSource
from daemon.gateway.replies import failed
from daemon.messages import Health
from daemon.remote import (
    ANSWERS,
    MAX_RECORDS,
    Backfill,
    Log,
    LogRecord,
    Numbered,
    Picture,
    PictureTaken,
    Processes,
    Records,
    Reply,
    Request,
)

RECORDS_BYTES = 1024 * 1024
"""Of the records in one reply: what a client takes at most, and what waits for one that reads nothing, stay bounded."""
_ENVELOPE_BYTES = 1024
"""Of a reply, beside the picture in it, at most."""


class PictureTooLarge(ValueError):
    """A picture that no reply takes; the text says what to do."""


class Healths:
    """The last word of every process."""

    def __init__(self) -> None:
        self._last: dict[str, Health] = {}

    def take(self, health: Health) -> None:
        """Remember what a process said."""
        self._last[health.process] = health

    def report(self, now_ns: int) -> Processes:
        """All of them, with the age of each."""
        healths = [self._last[process] for process in sorted(self._last)]
        return Processes(healths=healths, age_ms=[round((now_ns - health.at_ns) / 1e6, 1) for health in healths])


def backfill(book: Book, epoch: int, ask: Backfill) -> Records:
    """The records a subscriber has missed, as far as they are still kept."""
    last = min(ask.last, ask.first + MAX_RECORDS - 1)
    records, more = _fitting(book.between(ask.first, last), MAX_RECORDS)
    return Records(epoch=epoch, oldest=book.oldest, last=book.last, records=records, more=more or ask.last > last)


def needs_history(kept: list[Numbered], wanted: Log) -> bool:
    """What is kept in memory does not reach back as far as asked; looking further takes its time."""
    return not kept or wanted.since_us < _log_record(kept[0]).at_us


def find(kept: list[Numbered], epoch: int, wanted: Log, source: LogSource | None) -> Records:
    """The newest records that are wanted, oldest first; those before what is kept come from ``source``."""
    records, more = _fitting(_newest_first(kept, wanted, source), wanted.limit)
    oldest, last = (kept[0].number, kept[-1].number) if kept else (1, 0)
    return Records(epoch=epoch, oldest=oldest, last=last, records=records[::-1], more=more)


def _newest_first(kept: list[Numbered], wanted: Log, source: LogSource | None) -> Iterator[Numbered]:
    """Wanted records; the source is asked only if those before were not enough."""
    yield from (numbered for numbered in reversed(kept) if wanted.takes(_log_record(numbered)))
    if source is not None:
        until_us = min(wanted.until_us or 2**62, _log_record(kept[0]).at_us - 1 if kept else 2**62)
        found = (record for record in source.history(until_us) if wanted.takes(record))
        yield from (Numbered(number=0, record=record) for record in reversed(deque(found, wanted.limit + 1)))


def _fitting(records: Iterable[Numbered], most: int) -> tuple[list[Numbered], bool]:
    """The first of them, as many as a reply takes, and whether there are more."""
    taken: list[Numbered] = []
    left = RECORDS_BYTES
    for numbered in records:
        left -= len(msgspec.msgpack.encode(numbered))
        if len(taken) == most or left < 0:
            return taken, True
        taken.append(numbered)
    return taken, False


def take_picture(runtime: Path, ask: Picture) -> PictureTaken:
    """The next frame of a source.

    Raises:
        SnapshotError, ConfigError: there is none; the text says why.
        PictureTooLarge: no reply takes it.
    """
    from daemon.snapshot import png  # Pillow, for those who ask

    data, view = png([runtime], ask.source, ask.agent or None)
    if len(data) > ANSWERS.max_bytes - _ENVELOPE_BYTES:
        raise PictureTooLarge(
            f"the picture of {ask.source} has {len(data)} bytes, a reply takes {ANSWERS.max_bytes} at most: "
            "ask for it as an agent sees it, or run `reflexd snapshot` on the device"
        )
    return PictureTaken(png=data, view=view)


def check(request: Request, path: Path) -> Reply:
    """What a restart would make of the configuration file as it is now. The packages it names are read, not run."""
    from daemon.plan import load

    try:
        load(path)
    except ConfigError as error:
        return failed(request, str(error))
    return Reply(id=request.id, status="done", detail=f"{path}: good; it takes effect at the next start")


def packages_in_use(state: Path) -> set[str]:
    """Packages that agents have been told to act by."""
    return {path.read_text(encoding="utf-8").strip() for path in state.glob("*.model")}


def _log_record(numbered: Numbered) -> LogRecord:
    assert isinstance(numbered.record, LogRecord)  # noqa: S101 - the log's book has no other
    return numbered.record
