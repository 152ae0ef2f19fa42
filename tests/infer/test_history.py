"""History is what was executed: one token per decision, the action in force at that frame."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from daemon.infer.history import History
from daemon.messages import Applied

ACTIONS = ["LEFT", "STAY", "RIGHT"]
PAD = 9


def applied(seq: int, at: int, action: str | None) -> Applied:
    return Applied(seq=seq, applied_ns=at, cause="proposal", action=action)


def test_starts_with_padding_and_takes_the_action_in_force_at_each_frame() -> None:
    history = History(3, PAD, ACTIONS)
    assert history.decide(5) == [PAD, PAD, PAD]
    history.applied(applied(1, 10, "STAY"))
    history.applied(applied(2, 20, "LEFT"))
    assert history.decide(9) == [PAD, PAD, PAD]
    assert history.decide(10) == [PAD, PAD, 1]
    assert history.decide(19) == [PAD, 1, 1]
    assert history.decide(20) == [1, 1, 0]


def test_what_is_not_in_the_vocabulary_is_padding() -> None:
    history = History(2, PAD, ACTIONS)
    history.applied(applied(1, 10, "HONK"))
    assert history.decide(11) == [PAD, PAD]
    history.applied(applied(2, 12, None))
    assert history.decide(13) == [PAD, PAD]


def test_an_actuator_that_starts_anew_counts_from_its_own_beginning() -> None:
    history = History(1, PAD, ACTIONS)
    history.applied(applied(900, 10, "LEFT"))
    history.applied(applied(1, 30, "STAY"))
    assert history.applied_seq == 1
    assert history.decide(20) == [0]
    assert history.decide(31) == [1]


def test_lock_step_goes_by_the_write_named_and_not_by_the_clock() -> None:
    history = History(2, PAD, ACTIONS)
    history.applied(applied(1, 10, "STAY"))
    history.applied(applied(2, 30, "LEFT"))
    assert history.decide(20, after=2) == [PAD, 0], "the write was stamped after the world had moved"
    assert history.decide(40, after=1) == [0, 1]
    assert history.decide(40, after=9) == [1, PAD]


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from(ACTIONS)), max_size=60), st.integers(0, 300))
def test_in_force_is_the_last_write_not_after_the_frame(steps: list[tuple[int, str]], at: int) -> None:
    history = History(1, PAD, ACTIONS)
    now, expected = 0, PAD
    for seq, (wait, action) in enumerate(steps):
        now += wait
        history.applied(applied(seq, now, action))
        if now <= at:
            expected = ACTIONS.index(action)
    assert history.in_force(at) == expected
