"""A model on trial: what ends it, what does not, and that nothing from before counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.infer.trial import FATAL, LATE_LEAST, LATE_SHARE, REFUSED_LEAST, Trial

COUNTS = st.dictionaries(st.sampled_from([*FATAL, "deadline", "superseded", "stale", "range"]), st.integers(0, 1000))


@pytest.mark.parametrize("reason", FATAL)
def test_one_of_these_is_enough(reason: str) -> None:
    assert reason in Trial(5, {reason: 3}, {}).verdict(6, {reason: 4}, {})


@pytest.mark.parametrize(
    ("decided", "late", "ends"),
    [(0, LATE_LEAST - 1, False), (0, LATE_LEAST, True), (1000, LATE_LEAST, False), (60, 10, True)],
)
def test_missed_deadlines_end_it_when_they_are_many_and_a_share(decided: int, late: int, ends: bool) -> None:
    assert bool(Trial(0, {}, {}).verdict(decided, {"deadline": late}, {})) == ends
    assert (late >= LATE_LEAST and late > LATE_SHARE * (decided + late)) == ends


@pytest.mark.parametrize(
    ("reason", "ends"), [("range", True), ("unknown_action", True), ("estop", False), ("stale", False)]
)
def test_refusals_by_the_valve_count_if_the_model_is_to_blame(reason: str, ends: bool) -> None:
    assert bool(Trial(0, {}, {}).verdict(2 * REFUSED_LEAST - 1, {}, {reason: REFUSED_LEAST})) == ends


@given(COUNTS, COUNTS, st.integers(0, 1000))
def test_what_was_before_does_not_count(dropped: dict[str, int], refused: dict[str, int], decided: int) -> None:
    trial = Trial(decided, dropped, refused)
    assert trial.verdict(decided, dropped, refused) == ""
    assert trial.verdict(decided + 100, {**dropped, "superseded": dropped.get("superseded", 0) + 50}, refused) == ""
