"""Limits, states and proposals for tests that need no process."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from daemon.actuate import state
from daemon.actuate.limits import AgentLimits, ChannelLimits, Limits, Setting
from daemon.actuate.state import State
from daemon.messages import ActionProposal

MS = 1_000_000
NOW = 1_000_000 * MS
"""A time at which nothing has been going on for long."""
LOW, HIGH = "low", "high"

DISCRETE = Limits(
    actions=frozenset({"NOOP", "LEFT", "RIGHT", "JUMP"}),
    channels=(),
    neutral=Setting("NOOP", ()),
    forbidden=frozenset({("LEFT", "RIGHT")}),
    agents={LOW: AgentLimits(3, 100 * MS, 0.25), HIGH: AgentLimits(7, 50 * MS, 0.0)},
    deadman_ns=250 * MS,
    disarm_after_deadman=True,
    hold_ns=60 * MS,
    min_interval_ns=20 * MS,
    min_dwell_ns=40 * MS,
)
STEERING = ChannelLimits("rad", -0.5, 0.75, 2.0, clamp=False)
THROTTLE = ChannelLimits("m/s", 0.0, 3.0, 4.0, clamp=True)
CONTINUOUS = replace(
    DISCRETE,
    actions=frozenset(),
    channels=(STEERING, THROTTLE),
    neutral=Setting(None, (0.125, 0.0)),
    forbidden=frozenset(),
)


def armed(limits: Limits, at_ns: int = 0) -> State:
    """Neutral since ``at_ns``, and armed."""
    return state.arm(state.initial(limits, at_ns, None))


def proposal(**changes: Any) -> ActionProposal:
    """JUMP of agent ``low``, sure, from an observation of 10 ms before NOW; or whatever ``changes`` says."""
    fields = {"agent": LOW, "sensor_ns": NOW - 10 * MS, "frame_seq": 1, "action": "JUMP", "confidence": 0.9}
    return ActionProposal(**{**fields, **changes})


def drive(steering: float = 0.125, throttle: float = 0.0, **changes: Any) -> ActionProposal:
    """The same with values."""
    return proposal(**{"action": None, "values": [steering, throttle], **changes})
