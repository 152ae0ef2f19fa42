"""The records of a stream that are kept: numbered, bounded, for those who have missed some. Pure."""

from __future__ import annotations

from collections import deque

from daemon.remote import ActuatorRecord, HealthRecord, LogRecord, Numbered

Record = LogRecord | ActuatorRecord | HealthRecord


class Book:
    """The newest records of a stream.

    Args:
        limit: records kept.
    """

    def __init__(self, limit: int) -> None:
        self._kept: deque[Numbered] = deque(maxlen=limit)
        self.last = 0
        """Number of the newest record, 0 before the first."""

    @property
    def oldest(self) -> int:
        """Number of the oldest record kept; one more than the newest if there is none."""
        return self.last - len(self._kept) + 1

    def add(self, record: Record) -> Numbered:
        """Number a record and keep it."""
        self.last += 1
        numbered = Numbered(number=self.last, record=record)
        self._kept.append(numbered)
        return numbered

    def between(self, first: int, last: int) -> list[Numbered]:
        """The records with these numbers, both included, that are still there."""
        begin, end = max(first, self.oldest), min(last, self.last)
        return [self._kept[number - self.oldest] for number in range(begin, end + 1)]

    def all(self) -> list[Numbered]:
        """All that is kept, oldest first."""
        return list(self._kept)
