"""Worlds: equal seeds give equal games, the clock is its own, an output that stays away is neutral."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.messages import Output
from daemon.simulate.clock import REPEAT_NS, ActionInForce, LockStep, RealTime
from daemon.simulate.pong import ACTIONS, PongGame

MS = 1_000_000


def output(seq: int, sent_ns: int, action: str, frame_seq: int = 1) -> Output:
    return Output(seq=seq, sent_ns=sent_ns, frame_seq=frame_seq, action=action)


def played(seed: int, sticky: float) -> tuple[list[int], bytes]:
    game = PongGame(seed, sticky)
    rng = np.random.default_rng(1)
    for _ in range(600):
        game.tick(ACTIONS[int(rng.integers(len(ACTIONS)))])
    return game.points, game.picture().tobytes()


def test_equal_seeds_give_equal_games_and_others_do_not() -> None:
    assert played(3, 0.25) == played(3, 0.25)
    assert played(3, 0.25) != played(4, 0.25)


def test_the_picture_is_what_a_camera_would_see() -> None:
    picture = PongGame(1).picture()
    assert picture.shape == (210, 160, 3)
    assert picture.dtype == np.uint8


def test_idle_play_loses_and_the_score_says_so() -> None:
    game = PongGame(1)
    while not game.over:
        game.tick("NOOP")
    assert game.points == [0, 21]
    assert game.score == -21


def test_disturbance_replaces_some_actions() -> None:
    game = PongGame(1, random_actions=0.5)
    changed = sum(game.disturb("NOOP") != "NOOP" for _ in range(1000))
    assert 350 < changed < 480


@given(st.lists(st.tuples(st.integers(0, 400), st.sampled_from(ACTIONS)), max_size=20), st.integers(0, 600))
def test_no_output_holds_longer_than_the_failsafe(outputs: list[tuple[int, str]], later: int) -> None:
    force, now, newest = ActionInForce("NOOP", ACTIONS, 250 * MS), 0, None
    for seq, (wait, action) in enumerate(outputs):
        now += wait * MS
        force.take([output(seq, now, action)])
        newest = action
    expected = newest if newest is not None and later <= 250 else "NOOP"
    assert force.at(now + later * MS) == expected


def test_the_newest_of_several_outputs_counts() -> None:
    force = ActionInForce("NOOP", ACTIONS, 250 * MS)
    force.take([output(1, 0, "LEFT"), output(2, 0, "RIGHT")])
    assert force.at(MS) == "RIGHT"
    force.take([])
    assert force.at(MS) == "RIGHT"


def test_real_time_keeps_its_rate_and_goes_on_without_a_burst_after_a_pause() -> None:
    clock = RealTime(60.0, 0)
    ticks = [now for now in range(0, 1000 * MS, MS) if clock.due(now)]
    assert len(ticks) == 60
    assert clock.late == 0
    assert clock.due(5000 * MS)
    assert clock.late == 1
    assert not clock.due(5000 * MS + MS)


def test_lock_step_waits_for_the_answer_to_its_frame() -> None:
    clock = LockStep()
    assert clock.repeat(0)
    clock.shown(7, 0)
    assert not clock.answered(None)
    assert not clock.answered(output(1, 0, "LEFT", frame_seq=6))
    assert clock.answered(output(2, 0, "LEFT", frame_seq=7))
    assert clock.late == 0
    assert not clock.repeat(REPEAT_NS - 1)
    assert clock.repeat(REPEAT_NS)
    assert clock.late == 1


def test_a_neutral_write_is_no_answer() -> None:
    clock = LockStep()
    clock.shown(1, 0)
    assert not clock.answered(output(1, 0, "NOOP", frame_seq=0))
    force = ActionInForce("NOOP", ACTIONS, 250 * MS)
    force.take([output(1, 0, "NOOP", frame_seq=0)])
    assert not force.decided


@pytest.mark.parametrize("action", ["JUMP", None])
def test_an_unknown_action_is_neutral(action: str | None) -> None:
    force = ActionInForce("NOOP", ACTIONS, 250 * MS)
    force.take([output(1, 0, "RIGHT"), Output(seq=2, sent_ns=0, frame_seq=1, action=action)])
    assert force.at(MS) == "NOOP"


def test_an_output_of_the_future_does_not_hold_for_ever() -> None:
    force = ActionInForce("NOOP", ACTIONS, 250 * MS)
    force.take([output(1, 10_000 * MS, "RIGHT")])
    assert force.at(MS) == "NOOP"
