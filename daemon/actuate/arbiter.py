"""Who moves the actuator when several agents propose: one holder at a time, by priority. Pure.

An agent takes hold with a proposal that passed :func:`daemon.actuate.valve.screen`, and keeps hold while such
proposals keep coming. An agent of higher priority takes over at once; of equal priority, the one that came first
stays. The rules of motion are asked of the winner only, after this.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from daemon.actuate.limits import Limits
from daemon.actuate.verdict import Passed, Refusal
from daemon.messages import ActionProposal


class Holding(msgspec.Struct, frozen=True):
    """Which agent holds the actuator, and when its last good proposal came; ``agent`` None when nobody does."""

    agent: str | None
    good_ns: int


NOBODY = Holding(None, 0)
_SUPERSEDED = Refusal("superseded", "a newer proposal of the same agent was waiting behind it")


class Decision(msgspec.Struct, frozen=True):
    """Outcome for proposals judged together: at most one may go on to the rules of motion."""

    holding: Holding
    winner: Passed | None
    losers: Sequence[tuple[ActionProposal, Refusal]]


def newest(
    proposals: Sequence[ActionProposal],
) -> tuple[list[ActionProposal], list[tuple[ActionProposal, Refusal]]]:
    """Keep the last of each agent's proposals, which arrived in the order given; the others are superseded."""
    last = {proposal.agent: proposal for proposal in proposals}
    return list(last.values()), [
        (proposal, _SUPERSEDED) for proposal in proposals if last[proposal.agent] is not proposal
    ]


def decide(limits: Limits, holding: Holding, candidates: Sequence[Passed], now_ns: int) -> Decision:
    """Choose among screened proposals, one per agent.

    Args:
        limits: the agents' priorities and times.
        holding: who holds the actuator so far.
        candidates: proposals of known agents, as the valve's screen lets them pass.
        now_ns: CLOCK_MONOTONIC.
    """
    ranked = sorted(candidates, key=lambda passed: -limits.agents[passed.proposal.agent].priority)
    winner: Passed | None = None
    losers = []
    for passed in ranked:
        refusal = _outranked(limits, holding, passed.proposal.agent, now_ns)
        if refusal is not None:
            losers.append((passed.proposal, refusal))
        else:
            winner, holding = passed, Holding(passed.proposal.agent, now_ns)
    return Decision(holding, winner, losers)


def hold_ns(limits: Limits, agent: str) -> int:
    """How long a good proposal keeps the actuator for its agent, the end included."""
    return max(limits.hold_ns, limits.agents[agent].max_age_ns)


def _outranked(limits: Limits, holding: Holding, agent: str, now_ns: int) -> Refusal | None:
    holder = holding.agent
    if holder is None or holder == agent or now_ns - holding.good_ns > hold_ns(limits, holder):
        return None
    own, other = limits.agents[agent].priority, limits.agents[holder].priority
    if own > other:
        return None
    return Refusal("outranked", f"priority {own}; agent {holder} holds the actuator with priority {other}")
