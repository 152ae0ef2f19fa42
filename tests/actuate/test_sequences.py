"""Properties that hold for every sequence of proposals, commands and pauses, through arbiter and valve together."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from daemon.actuate import arbiter, state, valve
from daemon.actuate.limits import Limits, Setting
from daemon.actuate.state import State
from daemon.actuate.verdict import Passed, Refusal
from daemon.messages import ActionProposal
from tests.actuate.setups import CONTINUOUS, DISCRETE, HIGH, LOW, MS, NOW, armed

ODD_FLOATS = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1e308, -1e308])
FLOATS = st.floats(-4.0, 4.0) | ODD_FLOATS
PAUSES = st.integers(0, 400 * MS) | st.sampled_from([0, 1, 20 * MS, 40 * MS, 250 * MS])
ACTIONS = st.sampled_from(["NOOP", "LEFT", "RIGHT", "JUMP", "FLY", None])
ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.lists(FLOATS, max_size=3)


@st.composite
def proposals(draw: st.DrawFn, now_ns: int, limits: Limits) -> ActionProposal:
    fields: dict[str, Any] = {
        "agent": draw(st.sampled_from([LOW, HIGH, "stranger"])),
        "sensor_ns": now_ns - draw(st.integers(-2 * MS, 120 * MS)),
        "frame_seq": draw(st.integers(0, 9)),
        "action": draw(ACTIONS) if limits.actions else None,
        "values": draw(st.lists(FLOATS, min_size=2, max_size=2)) if limits.channels else [],
        "confidence": draw(st.floats(0.0, 1.0) | st.none() | ODD_FLOATS),
    }
    if draw(st.integers(0, 7)) == 0:
        fields[draw(st.sampled_from(sorted(fields)))] = draw(ANYTHING)
    return ActionProposal(**fields)


def check_move(limits: Limits, before: State, passed: Passed, now_ns: int) -> None:
    """What must be true of everything that goes through, said without the valve's own words."""
    proposal, setting = passed.proposal, passed.setting
    agent = limits.agents[proposal.agent]
    assert before.armed
    assert before.estop is None
    assert -MS <= now_ns - proposal.sensor_ns <= agent.max_age_ns
    assert proposal.sensor_ns > before.observed.get(proposal.agent, -1)
    if agent.min_confidence:
        assert proposal.confidence is not None
        assert agent.min_confidence <= proposal.confidence <= 1.0
    assert len(setting.values) == len(limits.channels)
    for was, value, channel in zip(before.in_force.values, setting.values, limits.channels, strict=True):
        assert channel.minimum <= value <= channel.maximum
        if channel.slew_per_s and (channel.clamp or setting != limits.neutral):
            room = channel.slew_per_s * min(now_ns - before.written_ns, limits.deadman_ns) / 1e9
            assert abs(value - was) <= room * (1 + 1e-9) + 1e-15
    if limits.actions:
        assert setting.action in limits.actions
    asked = Setting(proposal.action, tuple(proposal.values))
    assert passed.clamped == (setting != asked)
    if limits.neutral in (setting, asked):
        return
    assert now_ns - before.written_ns >= limits.min_interval_ns
    assert setting == before.in_force or now_ns - before.since_ns >= limits.min_dwell_ns
    assert (before.in_force.action, setting.action) not in limits.forbidden or setting == before.in_force


@settings(max_examples=150)
@given(st.data(), st.sampled_from([DISCRETE, CONTINUOUS]), st.booleans())
def test_nothing_unsafe_goes_through(data: st.DataObject, base: Limits, disarms: bool) -> None:
    limits = replace(base, disarm_after_deadman=disarms)
    current, holding, now_ns = armed(limits, NOW), arbiter.NOBODY, NOW
    for _ in range(data.draw(st.integers(1, 12))):
        now_ns += data.draw(PAUSES)
        event = data.draw(
            st.sampled_from(["propose", "propose", "propose", "propose", "stop", "disarm", "arm", "clear"])
        )
        fired = state.deadman(limits, current, now_ns)
        if fired is not None:
            assert now_ns - current.written_ns >= limits.deadman_ns
            assert fired.in_force == limits.neutral
            assert fired.armed != disarms
            current = fired
        if event == "propose":
            batch = data.draw(st.lists(proposals(now_ns, limits), min_size=1, max_size=3))
            current, holding = _propose(limits, current, holding, batch, now_ns)
        elif event == "stop":
            current = state.stop(limits, current, "a test", now_ns)
        elif event == "disarm":
            current = state.disarm(limits, current, now_ns)
        else:
            current = state.arm(current) if event == "arm" else state.clear(current)
        assert not (current.armed and current.estop is not None)
        assert current.armed or current.in_force == limits.neutral
        assert not current.live or now_ns - current.written_ns < limits.deadman_ns


def _propose(
    limits: Limits, current: State, holding: arbiter.Holding, batch: list[ActionProposal], now_ns: int
) -> tuple[State, arbiter.Holding]:
    hashable = [proposal for proposal in batch if isinstance(proposal.agent, str)]
    candidates = []
    for proposal in arbiter.newest(hashable)[0]:
        verdict = valve.screen(limits, current, proposal, now_ns)
        if isinstance(verdict, Passed):
            candidates.append(verdict)
    decision = arbiter.decide(limits, holding, candidates, now_ns)
    if decision.winner is None:
        return current, decision.holding
    moved = valve.rule(limits, current, decision.winner, now_ns)
    if isinstance(moved, Refusal):
        assert moved.reason in ("rate", "slew", "dwell", "transition")
        assert decision.winner.setting != limits.neutral
        return current, decision.holding
    check_move(limits, current, moved, now_ns)
    return state.applied(current, moved, now_ns), decision.holding


@settings(max_examples=200)
@given(st.fixed_dictionaries(dict.fromkeys(("agent", "sensor_ns", "frame_seq", "action", "confidence"), ANYTHING)))
def test_whatever_a_proposal_is_made_of_the_valve_answers(fields: dict[str, Any]) -> None:
    for limits in (DISCRETE, CONTINUOUS):
        for values in ([], [0.1, 0.1], None, "x"):
            for agent in (fields["agent"], LOW):
                odd = ActionProposal(**{**fields, "agent": agent, "values": values})
                verdict = valve.judge(limits, armed(limits), odd, NOW)
                assert isinstance(verdict, Refusal | Passed)


@settings(max_examples=100)
@given(FLOATS, FLOATS, PAUSES)
def test_a_clamped_proposal_passes_unclamped_when_asked_again(steering: float, throttle: float, pause: int) -> None:
    steady = replace(CONTINUOUS, min_interval_ns=0, min_dwell_ns=0)
    before = armed(steady, NOW - pause)
    asked = ActionProposal(agent=LOW, sensor_ns=NOW, frame_seq=1, values=[steering, throttle], confidence=1.0)
    first = valve.judge(steady, before, asked, NOW)
    if isinstance(first, Passed):
        second = valve.judge(steady, before, replace(asked, values=list(first.setting.values)), NOW)
        assert isinstance(second, Passed)
        assert second.setting == first.setting
        assert not second.clamped or first.proposal.values == [0.125, 0.0]
