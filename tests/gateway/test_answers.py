"""What one reply takes, and which records are kept for those who have missed some."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.config import Daemon
from daemon.frames import RingWriter
from daemon.gateway.answers import RECORDS_BYTES, PictureTooLarge, backfill, find, take_picture
from daemon.gateway.book import Book
from daemon.gateway.logs import FileLogs
from daemon.gateway.replies import done
from daemon.logfile import Budget, LogFile
from daemon.remote import ANSWERS, MAX_RECORDS, MAX_TEXT, Backfill, Log, LogRecord, Numbered, Picture, Request, Result
from daemon.runtime import InstanceLock, RuntimeFolder
from daemon.views import View
from daemon.wire import decode, encode

LONGEST = "日" * MAX_TEXT
"""Three bytes each: a thousand such lines are six megabytes."""


def record(at_us: int, text: str = "x") -> LogRecord:
    return LogRecord(at_us=at_us, level="INFO", process="infer", text=text)


def book(count: int, limit: int = 20_000, text: str = "x") -> Book:
    found = Book(limit)
    for number in range(count):
        found.add(record(number + 1, text))
    return found


def numbers(records: list[Numbered]) -> list[int]:
    return [numbered.number for numbered in records]


def fits_a_client(result: Result) -> bool:
    request = Request(id="12345678", epoch=1, expires_ns=1, ask=Backfill(stream="log", first=1, last=1))
    data = encode(done(request, result))
    decode(data, ANSWERS)
    return len(data) < RECORDS_BYTES * 1.1


@given(st.integers(0, 60), st.integers(1, 30), st.integers(0, 70), st.integers(0, 70))
def test_a_book_has_the_newest_without_a_hole(count: int, limit: int, first: int, last: int) -> None:
    kept = book(count, limit)
    assert (kept.last, kept.last - kept.oldest + 1) == (count, min(count, limit))
    wanted = [number for number in range(first, last + 1) if kept.oldest <= number <= kept.last]
    assert numbers(kept.between(first, last)) == wanted
    assert numbers(kept.all()) == list(range(kept.oldest, kept.last + 1))


def test_a_gap_of_the_longest_records_is_filled_in_several_replies_a_client_takes() -> None:
    kept = book(MAX_RECORDS, text=LONGEST)
    seen: list[int] = []
    while len(seen) < MAX_RECORDS:
        found = backfill(kept, 1, Backfill(stream="log", first=len(seen) + 1, last=MAX_RECORDS))
        assert fits_a_client(found)
        assert found.more == (found.records[-1].number < MAX_RECORDS)
        seen += numbers(found.records)
    assert seen == list(range(1, MAX_RECORDS + 1))


def test_of_the_longest_records_the_newest_that_fit_are_found() -> None:
    kept = book(MAX_RECORDS, text=LONGEST).all()
    found = find(kept, 1, Log(limit=MAX_RECORDS), None)
    assert fits_a_client(found)
    assert found.more
    assert numbers(found.records) == list(range(MAX_RECORDS - len(found.records) + 1, MAX_RECORDS + 1))
    assert len(found.records) > 100


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileLogs]:
    folder = tmp_path_factory.mktemp("log")
    log = LogFile(folder, Budget(0.0, 2**60, 2**60))
    for number in range(40):
        log.append(f"INFO infer: old {number}")
    log.close()
    source = FileLogs(folder)
    yield source
    source.close()


@given(st.integers(0, 30), st.integers(1, 100), st.sampled_from(["", "old", "new", "9"]))
def test_the_newest_that_are_wanted_are_found_oldest_first(
    files: FileLogs, kept_count: int, limit: int, text: str
) -> None:
    kept = Book(1000)
    began_us = time.time_ns() // 1000 + 1
    for number in range(kept_count):
        kept.add(record(began_us + number, f"new {number}"))
    everything = [f"old {number}" for number in range(40)] + [f"new {number}" for number in range(kept_count)]
    wanted = [line for line in everything if text in line]
    found = find(kept.all(), 1, Log(limit=limit, text=text), files)
    assert [numbered.record.text for numbered in found.records if isinstance(numbered.record, LogRecord)] == wanted[
        -limit:
    ]
    assert found.more == (len(wanted) > limit)


def test_a_picture_that_no_reply_takes_is_refused_with_a_way_out(run_folder: Path) -> None:
    """A PNG of noise is as large as its pixels: here five megabytes."""
    runtime = RuntimeFolder(Daemon(name="t", runtime=str(run_folder / "r"), state=str(run_folder / "s")))
    runtime.create()
    view = View(width=1300, height=1300, format="rgb24")
    ring = RingWriter(runtime.ring("cam", view), view, 4, 1)
    noise = np.random.default_rng(1).integers(0, 256, view.shape, np.uint8)
    over = threading.Event()

    def film() -> None:
        while not over.wait(0.05):
            ring.write(noise, time.monotonic_ns())

    camera = threading.Thread(target=film)
    with InstanceLock(runtime.lock("capture@cam")):
        camera.start()
        try:
            with pytest.raises(PictureTooLarge, match=r"cam has 5\d{6} bytes.*as an agent sees it"):
                take_picture(runtime.folder, Picture(source="cam"))
        finally:
            over.set()
            camera.join()
            ring.close()
