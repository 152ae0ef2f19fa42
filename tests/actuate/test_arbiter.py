"""Who holds the actuator: tables, edges in time, and properties over sequences."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from daemon.actuate import arbiter
from daemon.actuate.arbiter import NOBODY, Holding
from daemon.actuate.limits import AgentLimits, Setting
from daemon.actuate.verdict import Passed
from tests.actuate.setups import DISCRETE, HIGH, LOW, MS, NOW, proposal

MIDDLE, EQUAL = "middle", "equal"
LIMITS = replace(
    DISCRETE,
    agents={
        LOW: AgentLimits(3, 100 * MS, 0.0),
        MIDDLE: AgentLimits(5, 30 * MS, 0.0),
        EQUAL: AgentLimits(5, 30 * MS, 0.0),
        HIGH: AgentLimits(7, 50 * MS, 0.0),
    },
)


def candidate(agent: str, **changes: Any) -> Passed:
    return Passed(proposal(agent=agent, **changes), Setting("JUMP", ()), False)


def decide(holding: Holding, *agents: str, now_ns: int = NOW) -> tuple[str | None, list[str], Holding]:
    """Winner, losers and the new holding."""
    found = arbiter.decide(LIMITS, holding, [candidate(agent) for agent in agents], now_ns)
    assert all(refusal.reason == "outranked" for _, refusal in found.losers)
    winner = found.winner.proposal.agent if found.winner else None
    return winner, [loser.agent for loser, _ in found.losers], found.holding


def test_nobody_proposes() -> None:
    assert decide(NOBODY) == (None, [], NOBODY)
    assert decide(Holding(LOW, 5)) == (None, [], Holding(LOW, 5))


@pytest.mark.parametrize("order", [(LOW, HIGH, MIDDLE), (HIGH, MIDDLE, LOW), (MIDDLE, LOW, HIGH)])
def test_the_highest_of_several_wins_in_any_order(order: tuple[str, ...]) -> None:
    assert decide(NOBODY, *order) == (HIGH, [MIDDLE, LOW], Holding(HIGH, NOW))


def test_a_higher_one_takes_over_at_once() -> None:
    assert decide(Holding(LOW, NOW), HIGH) == (HIGH, [], Holding(HIGH, NOW))


def test_the_holder_keeps_against_lower_and_equal() -> None:
    held = Holding(MIDDLE, NOW)
    assert decide(held, LOW) == (None, [LOW], held)
    assert decide(held, EQUAL) == (None, [EQUAL], held)
    assert decide(held, EQUAL, MIDDLE) == (MIDDLE, [EQUAL], Holding(MIDDLE, NOW))
    assert decide(NOBODY, EQUAL, MIDDLE) == (EQUAL, [MIDDLE], Holding(EQUAL, NOW)), "first come"


@pytest.mark.parametrize(("holder", "other", "window_ms"), [(MIDDLE, EQUAL, 60), (HIGH, LOW, 60)])
@pytest.mark.parametrize(("offset_ns", "free"), [(-1, False), (0, False), (1, True)])
def test_holding_ends_when_the_last_good_proposal_is_too_old(
    holder: str, other: str, window_ms: int, offset_ns: int, free: bool
) -> None:
    winner, _, _ = decide(Holding(holder, NOW), other, now_ns=NOW + window_ms * MS + offset_ns)
    assert (winner is not None) == free


def test_holding_lasts_hold_ms_or_max_age_ms_whichever_is_longer() -> None:
    assert arbiter.hold_ns(LIMITS, MIDDLE) == 60 * MS
    assert arbiter.hold_ns(LIMITS, LOW) == 100 * MS
    assert arbiter.hold_ns(replace(LIMITS, hold_ns=0), MIDDLE) == 30 * MS


def test_the_refusal_names_who_holds() -> None:
    [(_, refusal)] = arbiter.decide(LIMITS, Holding(HIGH, NOW), [candidate(LOW)], NOW).losers
    assert refusal.detail == "priority 3; agent high holds the actuator with priority 7"


def test_newest_of_each_agent() -> None:
    first, second, third = (proposal(frame_seq=number) for number in (1, 2, 3))
    other = proposal(agent=HIGH)
    current, refused = arbiter.newest([first, other, second, third])
    assert current == [third, other]
    assert [(old, refusal.reason) for old, refusal in refused] == [(first, "superseded"), (second, "superseded")]
    assert arbiter.newest([]) == ([], [])
    twice = [first, replace(first)]
    assert len(arbiter.newest(twice)[1]) == 1, "equal ones are still two"


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 80 * MS), st.sets(st.sampled_from([LOW, MIDDLE, EQUAL, HIGH]))), max_size=20))
def test_never_two_at_a_time(steps: list[tuple[int, set[str]]]) -> None:
    holding, now_ns = NOBODY, NOW
    for pause_ns, agents in steps:
        now_ns += pause_ns
        before = holding
        winner, losers, holding = decide(before, *sorted(agents), now_ns=now_ns)
        assert sorted([*losers, *([winner] if winner else [])]) == sorted(agents), "each proposal has one outcome"
        if winner is None:
            assert holding == before
            continue
        assert holding == Holding(winner, now_ns)
        priority = LIMITS.agents[winner].priority
        assert all(LIMITS.agents[loser].priority <= priority for loser in losers)
        if before.agent is not None and winner != before.agent and not _ended(before, now_ns):
            assert priority > LIMITS.agents[before.agent].priority


def _ended(holding: Holding, now_ns: int) -> bool:
    assert holding.agent is not None
    return now_ns > holding.good_ns + arbiter.hold_ns(LIMITS, holding.agent)
