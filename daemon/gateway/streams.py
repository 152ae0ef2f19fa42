"""The streams: every record is numbered, kept for a while, and published to whoever listens."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from daemon.gateway.book import Book, Record
from daemon.messages import Message
from daemon.remote import STREAMS, StreamMark, StreamName, StreamRecord

KEPT: dict[StreamName, int] = {"log": 20_000, "telemetry": 20_000}
"""Records kept for those who have missed some: of telemetry some minutes."""
MARK_EVERY_NS = 1_000_000_000


class Streams:
    """All streams of a gateway.

    Args:
        epoch: this life of the gateway: numbers begin anew with it.
        publish: takes a stream's name and a message.
    """

    def __init__(self, epoch: int, publish: Callable[[StreamName, Message], None]) -> None:
        self.epoch, self._publish = epoch, publish
        self.books = {name: Book(KEPT[name]) for name in STREAMS}
        self.mark_due_ns = 0

    def add(self, name: StreamName, record: Record) -> None:
        """Number, keep and publish a record."""
        numbered = self.books[name].add(record)
        self._publish(name, StreamRecord(stream=name, epoch=self.epoch, number=numbered.number, record=record))

    def load(self, name: StreamName, records: Iterable[Record]) -> None:
        """Number and keep what there was before; nobody listens for it."""
        for record in records:
            self.books[name].add(record)

    def mark(self, now_ns: int) -> None:
        """Say the last numbers, if it is time to."""
        if now_ns < self.mark_due_ns:
            return
        self.mark_due_ns = now_ns + MARK_EVERY_NS
        for name, book in self.books.items():
            self._publish(name, StreamMark(stream=name, epoch=self.epoch, number=book.last))
