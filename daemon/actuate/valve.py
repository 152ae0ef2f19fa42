"""The safety valve: a proposal goes through, is clamped where its channel says so, or is refused. Pure.

Order of the checks, which is also the order of the reasons given: structure and finite numbers, e-stop, armed,
vocabulary, range, confidence, age, replay (:func:`screen`: the proposal by itself, which is what the arbiter goes
by), then rate, slew, dwell, transition (:func:`rule`: against what is in force, for the winner only).

Refusal is the default: each check names what may pass, so that a comparison with NaN, false either way, refuses.
The way to neutral is never barred by the rules of motion.
"""

from __future__ import annotations

import math

from daemon.actuate.limits import AgentLimits, ChannelLimits, Limits, Setting
from daemon.actuate.state import State
from daemon.actuate.verdict import Passed, Refusal, Verdict
from daemon.messages import ActionProposal

FUTURE_TOLERANCE_NS = 1_000_000
"""A sensor time this far ahead is still accepted: cameras stamp by estimate; one clock serves all processes."""


def judge(limits: Limits, state: State, proposal: ActionProposal, now_ns: int) -> Verdict:
    """The whole valve for an actuator that one agent has to itself.

    Args:
        limits: what is allowed.
        state: what is in force.
        proposal: from the wire, or from anywhere: nothing in it is trusted, not even its types.
        now_ns: CLOCK_MONOTONIC.
    """
    verdict = screen(limits, state, proposal, now_ns)
    return verdict if isinstance(verdict, Refusal) else rule(limits, state, verdict, now_ns)


def screen(limits: Limits, state: State, proposal: ActionProposal, now_ns: int) -> Verdict:
    """Check the proposal by itself: well-formed, allowed at all, sure enough and fresh."""
    agent = limits.agents.get(proposal.agent) if isinstance(proposal.agent, str) else None
    if agent is None:
        return Refusal("foreign", f"agent {proposal.agent!r:.60}; expected one of {', '.join(sorted(limits.agents))}")
    refusal = (
        _structure(limits, proposal)
        or _finite(proposal)
        or _power(state)
        or _vocabulary(limits, proposal)
        or _range(limits, proposal)
        or _confidence(agent, proposal)
        or _age(agent, proposal, now_ns)
        or _replay(state, proposal)
    )
    if refusal is not None:
        return refusal
    values = tuple(_bounded(value, c) for value, c in zip(proposal.values, limits.channels, strict=True))
    return Passed(proposal, Setting(proposal.action, values), list(values) != proposal.values)


def rule(limits: Limits, state: State, passed: Passed, now_ns: int) -> Verdict:
    """Check the winner against what is in force: rate, slew, dwell, transition."""
    setting = _ramp(limits, state, passed.setting, now_ns)
    if passed.setting != limits.neutral:
        refusal = (
            _rate(limits, state, now_ns)
            or _slew(limits, state, setting, now_ns)
            or _dwell(limits, state, setting, now_ns)
            or _transition(limits, state, setting)
        )
        if refusal is not None:
            return refusal
    return Passed(passed.proposal, setting, passed.clamped or setting != passed.setting)


# --- the proposal by itself --------------------------------------------------------------------------------


def _structure(limits: Limits, proposal: ActionProposal) -> Refusal | None:
    for name, number in (("sensor_ns", proposal.sensor_ns), ("frame_seq", proposal.frame_seq)):
        if type(number) is not int or number < 0:
            return Refusal("malformed", f"{name} = {number!r:.40}; expected an integer of 0 or more")
    if not isinstance(proposal.values, list) or not all(isinstance(value, float) for value in proposal.values):
        return Refusal("malformed", f"values = {proposal.values!r:.80}; expected a list of floats")
    if len(proposal.values) != len(limits.channels):
        return Refusal("malformed", f"{len(proposal.values)} values; expected {len(limits.channels)}")
    if isinstance(proposal.action, str) != bool(limits.actions) or (proposal.action is None) == bool(limits.actions):
        wanted = "an action and no values" if limits.actions else "values and no action"
        return Refusal("malformed", f"action = {proposal.action!r:.80}; expected {wanted}")
    confidence: object = proposal.confidence
    if confidence is not None and not isinstance(confidence, float):
        return Refusal("malformed", f"confidence = {confidence!r:.40}; expected a float or none")
    return None


def _finite(proposal: ActionProposal) -> Refusal | None:
    if not all(map(math.isfinite, proposal.values)):
        return Refusal("nonfinite", f"values = {proposal.values!s:.200}; expected finite numbers")
    if proposal.confidence is not None and not math.isfinite(proposal.confidence):
        return Refusal("nonfinite", f"confidence = {proposal.confidence}; expected 0 to 1")
    return None


def _power(state: State) -> Refusal | None:
    if state.estop is not None:
        return Refusal("estop", f"e-stop latched: {state.estop}")
    return None if state.armed else Refusal("disarmed", "not armed")


def _vocabulary(limits: Limits, proposal: ActionProposal) -> Refusal | None:
    if proposal.action is None or proposal.action in limits.actions:
        return None
    return Refusal("unknown_action", f"action {proposal.action!r:.80}; expected one of {_some(limits.actions)}")


def _range(limits: Limits, proposal: ActionProposal) -> Refusal | None:
    for i, (value, channel) in enumerate(zip(proposal.values, limits.channels, strict=True)):
        if not (channel.minimum <= value <= channel.maximum or channel.clamp):
            wanted = f"{channel.minimum:g} to {channel.maximum:g} {channel.unit}"
            return Refusal("range", f"channel {i}: {value!r}; expected {wanted}")
    return None


def _confidence(agent: AgentLimits, proposal: ActionProposal) -> Refusal | None:
    if proposal.confidence is None:
        unneeded = agent.min_confidence == 0.0
        return None if unneeded else Refusal("confidence", f"none given; expected {agent.min_confidence:g} or more")
    if agent.min_confidence <= proposal.confidence <= 1.0:
        return None
    return Refusal("confidence", f"{proposal.confidence!r}; expected {agent.min_confidence:g} to 1")


def _age(agent: AgentLimits, proposal: ActionProposal, now_ns: int) -> Refusal | None:
    age_ns = now_ns - proposal.sensor_ns
    if age_ns < -FUTURE_TOLERANCE_NS:
        return Refusal("stale", f"observed {_ms(-age_ns)} ms in the future: not this machine's monotonic clock")
    if age_ns <= agent.max_age_ns:
        return None
    return Refusal("stale", f"observed {_ms(age_ns)} ms ago; expected {_ms(agent.max_age_ns)} ms at most")


def _replay(state: State, proposal: ActionProposal) -> Refusal | None:
    newest_ns = state.observed.get(proposal.agent)
    if newest_ns is None or proposal.sensor_ns > newest_ns:
        return None
    behind = _ms(newest_ns - proposal.sensor_ns)
    return Refusal("replayed", f"observation {behind} ms older than the last one acted on; expected a newer one")


def _bounded(value: float, channel: ChannelLimits) -> float:
    return min(max(value, channel.minimum), channel.maximum)


# --- the winner against what is in force -------------------------------------------------------------------


def _rate(limits: Limits, state: State, now_ns: int) -> Refusal | None:
    passed_ns = now_ns - state.written_ns
    if passed_ns >= limits.min_interval_ns:
        return None
    return Refusal("rate", f"{_ms(passed_ns)} ms after the last write; expected {_ms(limits.min_interval_ns)} ms")


def _reach(limits: Limits, state: State, channel: int, now_ns: int) -> tuple[float, float]:
    """Lowest and highest value the slew limit allows a channel now.

    The room grows with the time since the last write, up to the dead-man's: after that there was no motion to go on
    with, and a long rest must not buy a jump.
    """
    slew = limits.channels[channel].slew_per_s
    if slew is None:
        return -math.inf, math.inf
    time_ns = min(max(now_ns - state.written_ns, 0), limits.deadman_ns)
    step = slew * time_ns / 1e9
    return state.in_force.values[channel] - step, state.in_force.values[channel] + step


def _ramp(limits: Limits, state: State, wanted: Setting, now_ns: int) -> Setting:
    """``wanted``, its clamping channels brought within reach."""
    values = list(wanted.values)
    for i, channel in enumerate(limits.channels):
        if channel.clamp:
            low, high = _reach(limits, state, i, now_ns)
            values[i] = min(max(values[i], low), high)
    return Setting(wanted.action, tuple(values))


def _slew(limits: Limits, state: State, setting: Setting, now_ns: int) -> Refusal | None:
    for i, value in enumerate(setting.values):
        low, high = _reach(limits, state, i, now_ns)
        if not low <= value <= high:
            return Refusal("slew", f"channel {i}: {value!r}; within reach are {low:.6g} to {high:.6g}")
    return None


def _dwell(limits: Limits, state: State, setting: Setting, now_ns: int) -> Refusal | None:
    held_ns = now_ns - state.since_ns
    if setting == state.in_force or held_ns >= limits.min_dwell_ns:
        return None
    wanted = f"{_ms(limits.min_dwell_ns)} ms before {setting}"
    return Refusal("dwell", f"{state.in_force} held for {_ms(held_ns)} ms; expected {wanted}")


def _transition(limits: Limits, state: State, setting: Setting) -> Refusal | None:
    if setting == state.in_force or (state.in_force.action, setting.action) not in limits.forbidden:
        return None
    return Refusal("transition", f"{state.in_force} to {setting} is forbidden")


def _ms(time_ns: int) -> str:
    return f"{time_ns / 1e6:.6f}".rstrip("0").rstrip(".")


def _some(names: frozenset[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")
