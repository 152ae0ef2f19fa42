"""A long log through a real gateway, to a subscriber that stalls and comes back: each line once, in order, or named."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from daemon.client import Address, Client, Listener
from daemon.follow import Gap, Sequence, follow, kept
from daemon.logfile import Budget, LogFile
from daemon.remote import LogRecord, Numbered
from tests.configs import acting
from tests.gateway_daemon import configuration

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

RECORDS = int(os.environ.get("RECORDS", "60000"))
PER_SECOND = 6000
"""More than a daemon ever logs, and less than one slow core takes through a gateway."""
LAST = "this is the last one"


@contextmanager
def gateway(folder: Path) -> Iterator[Address]:
    """A gateway alone, as it would be beside a `reflexd run` whose log the test writes."""
    text = configuration(folder) + acting("good", "arm")
    (folder / "test.toml").write_text(text)
    process = subprocess.Popen([sys.executable, "-P", "-m", "daemon.gateway", str(folder / "test.toml"), "gateway"])
    address = Address.local(str(folder / "run"))
    try:
        with Client(address) as client:
            client.hello(30.0)
        yield address
        process.terminate()
        assert process.wait(timeout=10) == 0
    finally:
        process.kill()
        process.wait()


def open_log(folder: Path) -> LogFile:
    return LogFile(folder / "state/log", Budget(0.0, 2**60, 2**60))


def write(folder: Path, count: int) -> None:
    """Lines with numbers, evenly, and one that ends it."""
    log, began = open_log(folder), time.monotonic()
    for number in range(1, count + 1):
        log.append(f"INFO infer: {number}")
        if number % 100 == 0:
            time.sleep(max(0.0, began + number / PER_SECOND - time.monotonic()))
    log.append(f"INFO infer: {LAST}")
    log.close()


class Follower:
    """Reads, stalls and comes back, and keeps account."""

    def __init__(self, address: Address, sequence: Sequence) -> None:
        self.address, self.sequence = address, sequence
        self.seen: list[int] = []
        self.named = 0
        self.filled = self.rounds = 0
        self.over = False

    def read(self, seconds: float) -> None:
        """With a connection of its own."""
        self.rounds += 1
        listener = Listener(self.address, ["log"])
        try:
            with Client(self.address) as client:
                self._read(client, listener, time.monotonic() + seconds)
        finally:
            listener.close()

    def _read(self, client: Client, listener: Listener, until_s: float) -> None:
        stalled = False
        for found in follow(client, listener, "log", 5.0, self.sequence):
            self._take(found)
            if self.over or time.monotonic() > until_s:
                return
            if not stalled and time.monotonic() > until_s - 1.0:
                stalled = True
                time.sleep(0.8)

    def _take(self, found: Numbered | Gap) -> None:
        if isinstance(found, Gap):
            assert found.last >= found.first > 0, found
            self.named += found.last - found.first + 1
            return
        assert isinstance(found.record, LogRecord)
        self.named += found.record.lost
        if found.record.text.isdecimal():
            self.seen.append(int(found.record.text))
        self.over |= found.record.text == LAST


def test_every_line_is_seen_once_in_order_or_named(run_folder: Path) -> None:
    with gateway(run_folder) as address:
        with Client(address) as client:
            follower = Follower(address, Sequence(kept(client, "log")))
        writer = threading.Thread(target=write, args=(run_folder, RECORDS))
        writer.start()
        while not follower.over:
            follower.read(3.0)
        writer.join()
    seen, lost = follower.seen, RECORDS - len(follower.seen)
    print(f"{RECORDS} lines, {follower.rounds} connections: {len(seen)} seen, {follower.named} named as missing")
    assert seen == sorted(set(seen))
    assert lost == follower.named
    assert len(seen) > RECORDS / 2
