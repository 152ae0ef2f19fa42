"""How long something took, over a whole run: any percentile at any time from a table of fixed size. Pure.

Microseconds are counted one by one up to :data:`EXACT_US`; from there on neighbours share a count, so that a duration
read back is off by at most half of 1/1024 of itself (a log-linear histogram, as HdrHistogram's).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import accumulate

_BITS = 10
"""Of a duration's leading bits, those after the first that are told apart."""
EXACT_US = 1 << (_BITS + 1)
LONGEST_US = (1 << 26) - 1
"""A minute: what takes longer counts as this long."""


class Distribution:
    """Counts durations."""

    def __init__(self) -> None:
        # Written to at once, so that the memory is there from the start and does not grow page by page for hours.
        self._counts = array("I", [0]) * (_bucket(LONGEST_US) + 1)

    def add(self, ms: float) -> None:
        """Count one duration; one below zero, by two clocks' disagreement, counts as zero."""
        self._counts[_bucket(max(0, min(round(ms * 1e3), LONGEST_US)))] += 1

    def percentiles(self, *percents: float) -> list[float | None]:
        """Percentiles in ms, linear between neighbours; None without durations."""
        below = list(accumulate(self._counts))
        if not below[-1]:
            return [None for _ in percents]
        return [self._at(below, (below[-1] - 1) * percent / 100) for percent in percents]

    def _at(self, below: list[int], rank: float) -> float:
        """The duration at a rank from 0 on, in ms; between two ranks in proportion."""
        whole = int(rank)
        first = _middle_us(bisect_right(below, whole))
        if whole == rank:
            return round(first / 1e3, 3)
        second = _middle_us(bisect_right(below, whole + 1))
        return round((first + (second - first) * (rank - whole)) / 1e3, 3)


def _bucket(us: int) -> int:
    """Index of the count of a duration."""
    shift = max(0, us.bit_length() - _BITS - 1)
    return (shift << _BITS) + (us >> shift)


def _middle_us(bucket: int) -> float:
    """The middle of the durations of a count."""
    shift = max(0, (bucket >> _BITS) - 1)
    return float(((bucket - (shift << _BITS)) << shift) + ((1 << shift) - 1) / 2)
