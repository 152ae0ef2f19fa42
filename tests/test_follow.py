"""Following a stream over losses, restarts and gaps that cannot be filled: each record once, in order, or named."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import cast

from hypothesis import example, given
from hypothesis import strategies as st

from daemon.client import Client, Listener, NoGateway
from daemon.follow import Gap, Sequence, follow
from daemon.gateway import streams
from daemon.gateway.answers import backfill
from daemon.gateway.book import Book
from daemon.gateway.streams import Streams
from daemon.messages import Message
from daemon.remote import Anything, Backfill, LogRecord, Numbered, Reply, StreamMark, StreamName, StreamRecord

KEPT = 8
FILE_LINES = 12


class Device:
    """A gateway's own streams, without sockets: what it publishes can be lost, it can be started anew, or be away.

    It stands in for client and listener both.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.arrived: list[StreamRecord | StreamMark] = []
        self.lose = self.away = False
        self.file: list[LogRecord] = []
        self.clock_us = 1_000_000
        self.start()

    def start(self) -> None:
        """Another life, which reads the log of those before; and the wall clock is set back, as without a battery."""
        self.epoch += 1
        self.clock_us -= 50_000
        self.streams = Streams(self.epoch, self._publish)
        self.streams.books = {name: Book(KEPT) for name in self.streams.books}
        self.streams.load("log", self.file[-FILE_LINES:])

    def log(self, count: int) -> None:
        """Records, whose text is their place in the log of all lives."""
        for _ in range(count):
            self.clock_us += 1000
            text = str(len(self.file))
            self.file.append(LogRecord(at_us=self.clock_us, level="INFO", process="run", text=text))
            self.streams.add("log", self.file[-1])

    def mark(self) -> None:
        """The last number so far."""
        self.streams.mark_due_ns = 0
        self.streams.mark(streams.MARK_EVERY_NS)

    def receive(self, timeout_s: float) -> Iterator[StreamRecord | StreamMark]:
        """As a listener's."""
        arrived, self.arrived = self.arrived, []
        return iter(arrived)

    def ask(self, ask: Anything) -> Reply:
        """As a client's."""
        if self.away:
            raise NoGateway("away")
        assert isinstance(ask, Backfill)
        book = self.streams.books[ask.stream]
        return Reply(id="12345678", status="done", result=backfill(book, self.epoch, ask))

    def _publish(self, name: StreamName, message: Message) -> None:
        assert isinstance(message, StreamRecord | StreamMark)
        if name == "log" and not self.lose:
            self.arrived.append(message)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("log"), st.integers(1, 12)),
        st.tuples(st.just("lose"), st.booleans()),
        st.tuples(st.just("away"), st.booleans()),
        st.tuples(st.just("mark"), st.none()),
        st.tuples(st.just("start"), st.none()),
        st.tuples(st.just("read"), st.none()),
        st.tuples(st.just("stop"), st.integers(1, 5)),
    ),
    max_size=40,
)


def play(steps: list[tuple[str, int | bool | None]]) -> tuple[Device, list[tuple[int, Numbered | Gap]]]:
    """What a follower yields, each with the life of the gateway that it is of."""
    device, sequence = Device(), Sequence()
    yielded: list[tuple[int, Numbered | Gap]] = []

    def read(at_most: int | None = None) -> None:
        found = follow(cast(Client, device), cast(Listener, device), "log", 0.0, sequence)
        yielded.extend((sequence.epoch, each) for each in islice(found, at_most))

    device.mark()
    read()
    for step, value in [*steps, ("lose", False), ("away", False), ("mark", None)]:
        if step == "log":
            device.log(int(value or 0))
        elif step in ("lose", "away"):
            setattr(device, step, value)
        elif step in ("read", "stop"):
            read(value)
        else:
            getattr(device, step)()
    read()
    return device, yielded


def covered(found: Numbered | Gap) -> range:
    return range(found.first, found.last + 1) if isinstance(found, Gap) else range(found.number, found.number + 1)


@given(STEPS)
@example([("lose", True), ("log", KEPT + 4), ("away", True), ("mark", None), ("read", None)])
@example([("log", 5), ("read", None), ("start", None), ("lose", True), ("log", 1)])
@example([("log", 5), ("read", None), ("start", None), ("log", 3), ("stop", 1)])
@example([("lose", True), ("log", 5), ("mark", None), ("stop", 2)])
@example([("log", 5), ("read", None), ("start", None), ("lose", True), ("log", KEPT + 1)])
def test_every_record_comes_once_in_order_or_is_named(steps: list[tuple[str, int | bool | None]]) -> None:
    device, yielded = play(steps)
    following, named = 0, False
    for _, found in yielded:
        if isinstance(found, Numbered):
            assert isinstance(found.record, LogRecord)
            place = int(found.record.text)
            assert place >= following, "it came before, or later ones did"
            assert place == following or named, f"{following} to {place - 1} are left out in silence"
            following, named = place + 1, False
        elif found.last or "not to be had" in found.why:
            named = True
    assert following == len(device.file) or named, "up to the newest"


@given(STEPS)
def test_the_numbers_of_one_life_come_without_a_hole(steps: list[tuple[str, int | bool | None]]) -> None:
    device, yielded = play(steps)
    for epoch in range(1, device.epoch + 1):
        numbers = [number for life, found in yielded if life == epoch for number in covered(found) if number]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
        if numbers and epoch == device.epoch:
            assert numbers[-1] == device.streams.books["log"].last


@given(STEPS)
def test_another_life_of_the_gateway_is_told(steps: list[tuple[str, int | bool | None]]) -> None:
    _, yielded = play(steps)
    lives = [life for life, _ in yielded]
    for before, life in zip([1, *lives], lives, strict=False):
        if life != before:
            (first, *_) = [found for each, found in yielded if each == life]
            assert isinstance(first, Gap)
            assert "started anew" in first.why
