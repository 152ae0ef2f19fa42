"""Following a stream without missing a record in silence: gaps are seen by the numbers, filled, or named."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from daemon.client import Client, Listener, RemoteError
from daemon.remote import MAX_RECORDS, Backfill, LogRecord, Numbered, Records, StreamMark, StreamName, StreamRecord


class Gap(msgspec.Struct, frozen=True):
    """Records ``first`` to ``last`` are not to be had any more; both 0 where nobody knows how many there were."""

    first: int
    last: int
    why: str


class Sequence:
    """Which numbers have been seen of one stream. Pure.

    Args:
        seen: what is known already; by default one begins with the next record.
    """

    def __init__(self, seen: Records | None = None) -> None:
        self.epoch, self.last = (seen.epoch, seen.last) if seen is not None else (0, 0)
        logged = [found.record for found in seen.records if isinstance(found.record, LogRecord)] if seen else []
        self.newest: LogRecord | None = logged[-1] if logged else None
        """The last record of a log: in the next life of the gateway it has another number."""

    def saw(self, found: Numbered | Gap) -> Numbered | Gap:
        """Remember what is handed on now: whoever stops reading here goes on behind it, also after a restart."""
        if isinstance(found, Gap):
            self.last = found.last
            return found
        self.last = found.number
        if isinstance(found.record, LogRecord):
            self.newest = found.record
        return found

    def missing(self, message: StreamRecord | StreamMark) -> tuple[int, int] | None:
        """First and last number missing before, or with, this message."""
        last = message.number if isinstance(message, StreamMark) else message.number - 1
        return (self.last + 1, last) if last > self.last else None

    def begins_anew(self, message: StreamRecord | StreamMark) -> bool:
        """The message is of another life of the gateway than those before."""
        return message.epoch != self.epoch

    def begin(self, message: StreamRecord | StreamMark) -> None:
        """From this message on."""
        self.epoch = message.epoch
        self.last = message.number if isinstance(message, StreamMark) else message.number - 1


def kept(client: Client, stream: StreamName, first: int = 2**62, last: int = 2**62) -> Records:
    """Records ``first`` to ``last`` that the gateway keeps, 1000 at most; by default none, but which there are.

    Raises:
        RemoteError: not to be had.
    """
    found = client.ask(Backfill(stream=stream, first=first, last=min(last, first + MAX_RECORDS - 1))).result
    assert isinstance(found, Records)  # noqa: S101 - what Backfill is answered by
    return found


def follow(
    client: Client, listener: Listener, stream: StreamName, timeout_s: float, sequence: Sequence | None = None
) -> Iterator[Numbered | Gap]:
    """Yield the records of a stream in order, with none left out in silence, until nothing has come for that long.

    Args:
        client: asked for what was missed.
        listener: of that stream alone.
        stream: its name.
        timeout_s: longer than the second between two marks; nothing for so long is a gateway that is gone.
        sequence: what was seen before; it is kept up to date.
    """
    sequence = sequence or Sequence()
    while True:
        heard = False
        for message in listener.receive(timeout_s):
            heard = True
            yield from _with_what_is_missing(client, stream, sequence, message)
        if not heard:
            return


def _with_what_is_missing(
    client: Client, stream: StreamName, sequence: Sequence, message: StreamRecord | StreamMark
) -> Iterator[Numbered | Gap]:
    if sequence.begins_anew(message):
        restarted = sequence.epoch != 0
        sequence.begin(message)
        if restarted:
            yield from _since_restart(client, stream, sequence)
    missing = sequence.missing(message)
    if missing is not None:
        yield from map(sequence.saw, _fill(client, stream, message.epoch, *missing))
    if isinstance(message, StreamRecord) and message.number == sequence.last + 1:
        yield sequence.saw(Numbered(number=message.number, record=message.record))


def _since_restart(client: Client, stream: StreamName, sequence: Sequence) -> Iterator[Numbered | Gap]:
    """What the new gateway has that comes after the last record seen of the old one."""
    restarted = Gap(0, 0, "the gateway was started anew; what nobody told it while it was gone")
    try:
        there = kept(client, stream)
    except RemoteError as error:
        yield restarted
        yield Gap(0, 0, f"not to be had: {error}")
        return
    there_now = list(_fill(client, stream, sequence.epoch, there.oldest, sequence.last))
    gone = min(there.oldest - 1, sequence.last)
    # By the record itself, not by its time: a device without a battery for its clock sets it back and forth.
    newest = sequence.newest
    same = [at for at, found in enumerate(there_now) if isinstance(found, Numbered) and found.record == newest]
    later = there_now[same[-1] + 1 :] if same else there_now
    sequence.last -= sum(_count(found) for found in later) + (0 if same else gone)
    yield restarted
    if not same and gone > 0:
        yield sequence.saw(Gap(1, gone, "too long ago: the gateway does not keep them any more"))
    yield from map(sequence.saw, later)


def _count(found: Numbered | Gap) -> int:
    return found.last - found.first + 1 if isinstance(found, Gap) else 1


def _fill(client: Client, stream: StreamName, epoch: int, first: int, last: int) -> Iterator[Numbered | Gap]:
    """The records with these numbers, or a gap that says why not."""
    while first <= last:
        try:
            found = kept(client, stream, first, last)
        except RemoteError as error:
            yield Gap(first, last, f"not to be had: {error}")
            return
        if found.epoch != epoch:
            yield Gap(first, last, "the gateway was started anew")
            return
        begin = max(first, found.oldest)
        if begin > first:
            yield Gap(first, min(last, begin - 1), "too long ago: the gateway does not keep them any more")
        yield from found.records
        first = found.records[-1].number + 1 if found.records else begin
        if not found.records and begin <= last:
            yield Gap(begin, last, "the gateway does not have them")
            return
