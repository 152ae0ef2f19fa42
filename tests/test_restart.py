"""The restart policy, step by step and under any sequence of events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.restart import FIRST_PAUSE_NS, GOOD_RUN_NS, LONGEST_PAUSE_NS, RestartPolicy

SECOND = 1_000_000_000
START_LIMIT, STALL_LIMIT = 15 * SECOND, 3 * SECOND


def running(now_ns: int = 0) -> RestartPolicy:
    policy = RestartPolicy(START_LIMIT, STALL_LIMIT)
    policy.started(now_ns)
    policy.health(now_ns, "running", 1)
    return policy


def test_a_process_is_started_at_once() -> None:
    assert RestartPolicy(START_LIMIT, STALL_LIMIT).due(0) == "start"


def test_without_any_health_it_is_killed_after_the_start_limit() -> None:
    policy = RestartPolicy(START_LIMIT, STALL_LIMIT)
    policy.started(0)
    assert policy.due(START_LIMIT) is None
    assert policy.due(START_LIMIT + 1) == "kill"


def test_health_that_says_starting_does_not_stretch_the_start_limit() -> None:
    policy = RestartPolicy(START_LIMIT, STALL_LIMIT)
    policy.started(0)
    for second in range(16):
        policy.health(second * SECOND, "starting", 0)
    assert policy.due(START_LIMIT + SECOND) == "kill"


def test_progress_while_starting_counts() -> None:
    policy = RestartPolicy(START_LIMIT, STALL_LIMIT)
    policy.started(0)
    policy.health(14 * SECOND, "starting", 1)
    assert policy.due(20 * SECOND) is None


def test_the_stall_limit_begins_when_the_process_is_running() -> None:
    policy = RestartPolicy(START_LIMIT, STALL_LIMIT)
    policy.started(0)
    policy.health(0, "starting", 0)
    policy.health(10 * SECOND, "running", 0)
    assert policy.due(13 * SECOND) is None
    assert policy.due(13 * SECOND + 1) == "kill"


def test_health_without_progress_is_a_stall() -> None:
    policy = running()
    for tenth in range(31):
        policy.health(tenth * SECOND // 10, "running", 1)
    assert policy.due(STALL_LIMIT + 1) == "kill"


def test_silence_is_a_stall_whatever_was_said_before() -> None:
    policy = running()
    policy.health(SECOND, "waiting", 1)
    assert policy.due(SECOND + STALL_LIMIT + 1) == "kill"


@pytest.mark.parametrize("state", ["waiting", "done"])
def test_who_has_nothing_to_do_needs_only_to_send_health(state: str) -> None:
    policy = running()
    policy.health(10 * SECOND, state, 1)
    assert policy.due(10 * SECOND + STALL_LIMIT) is None


def test_a_killed_process_is_not_killed_again_nor_started_before_it_is_gone() -> None:
    policy = running()
    policy.killed()
    policy.health(SECOND, "running", 2)
    assert policy.due(100 * SECOND) is None
    policy.ended(100 * SECOND)
    assert policy.due(100 * SECOND) == "start"


def test_the_first_restart_comes_at_once_and_the_pauses_double_up_to_a_limit() -> None:
    policy, now, pauses = RestartPolicy(START_LIMIT, STALL_LIMIT), 0, []
    for _ in range(9):
        policy.started(now)
        pauses.append(policy.ended(now))
        now += pauses[-1]
    assert [pause / 1e9 for pause in pauses] == [0, 0.25, 0.5, 1, 2, 4, 5, 5, 5]
    assert policy.restarts == 8


def test_half_a_minute_of_good_running_forgives() -> None:
    policy = RestartPolicy(START_LIMIT, STALL_LIMIT)
    for _ in range(5):
        policy.started(0)
        policy.ended(0)
    policy.started(0)
    policy.health(10 * SECOND, "running", 1)
    assert policy.ended(10 * SECOND + GOOD_RUN_NS) == 0


def test_half_a_minute_of_starting_does_not_forgive() -> None:
    policy = RestartPolicy(START_LIMIT, STALL_LIMIT)
    policy.started(0)
    policy.ended(0)
    policy.started(0)
    policy.health(SECOND, "starting", 1)
    assert policy.ended(SECOND + GOOD_RUN_NS) == FIRST_PAUSE_NS


@pytest.mark.parametrize(("outcome", "phase"), [("final", "failed"), ("finished", "finished")])
def test_what_a_restart_cannot_mend_or_need_not_is_never_started_again(outcome: str, phase: str) -> None:
    policy = running()
    policy.ended(SECOND, "final" if outcome == "final" else "finished")
    assert policy.phase == phase
    assert policy.due(10**18) is None


EVENTS = st.lists(
    st.tuples(
        st.integers(0, 20 * SECOND),
        st.sampled_from(["health", "starting", "waiting", "stuck", "exit", "nothing"]),
    ),
    max_size=60,
)


@given(EVENTS)
def test_under_any_events_it_never_runs_twice_and_never_waits_longer_than_the_limits(
    events: list[tuple[int, str]],
) -> None:
    policy, now, progress, alive = RestartPolicy(START_LIMIT, STALL_LIMIT), 0, 0, False
    heard = 0
    for step, event in events:
        now += step
        if alive and event in ("health", "starting", "waiting", "stuck"):
            progress += event != "stuck"
            heard = now
            policy.health(now, {"health": "running", "stuck": "running"}.get(event, event), progress)
        elif alive and event == "exit":
            alive = False
            assert 0 <= policy.ended(now) <= LONGEST_PAUSE_NS
        due = policy.due(now)
        assert due != "start" or not alive
        assert due != "kill" or alive
        if due == "start":
            policy.started(now)
            alive, heard = True, now
        elif due == "kill":
            policy.killed()
            alive = False
            policy.ended(now)
        elif alive:
            assert now - heard <= START_LIMIT
        else:
            assert policy.due(now + LONGEST_PAUSE_NS) == "start"
