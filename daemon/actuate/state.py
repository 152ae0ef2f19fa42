"""What the valve remembers, and how it changes: armed, stopped, what is in force and since when. Pure.

Every function returns a new state; the caller has written, or is about to write, what the new state says is in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec.structs import replace

from daemon.actuate.limits import Limits, Setting
from daemon.actuate.verdict import Passed

Rest = Literal["start", "stop", "deadman", "estop", "disarm", "driver"]
"""Why neutral is in force without a proposal."""
Cause = Rest | Literal["proposal", "clamped"]
"""Why the setting in force was written: the words of ``Applied.cause``."""


class State(msgspec.Struct, frozen=True):
    """The valve's memory.

    Attributes:
        armed: proposals may move the actuator.
        estop: why the emergency stop is latched; None when it is not.
        in_force: the setting written last.
        since_ns: since when that setting is in force; writing the same again does not change it.
        written_ns: time of the last write, judged before it was made: a process that is stopped in the middle of
            a write finds its dead-man due when it goes on.
        cause: why ``in_force`` was written.
        observed: per agent, the sensor time of the newest observation acted on.
    """

    armed: bool
    estop: str | None
    in_force: Setting
    since_ns: int
    written_ns: int
    cause: Cause
    observed: Mapping[str, int]

    @property
    def live(self) -> bool:
        """A proposal stands behind what is in force, so the dead-man runs."""
        return self.cause in ("proposal", "clamped")


def initial(limits: Limits, now_ns: int, estop: str | None) -> State:
    """After the first neutral write: disarmed, and stopped if the latch says so."""
    return State(False, estop, limits.neutral, now_ns, now_ns, "start", {})


def applied(state: State, passed: Passed, now_ns: int) -> State:
    """A proposal is in force, and no observation of its agent may be acted on twice."""
    observed = {**state.observed, passed.proposal.agent: passed.proposal.sensor_ns}
    return replace(_written(state, passed.setting, passed.cause, now_ns), observed=observed)


def neutral(limits: Limits, state: State, cause: Rest, now_ns: int) -> State:
    """Neutral is in force, and no proposal stands behind it."""
    return _written(state, limits.neutral, cause, now_ns)


def arm(state: State) -> State:
    """Armed; a latched e-stop keeps it disarmed."""
    return replace(state, armed=state.estop is None)


def disarm(limits: Limits, state: State, now_ns: int) -> State:
    """Disarmed and neutral."""
    return replace(neutral(limits, state, "disarm", now_ns), armed=False)


def stop(limits: Limits, state: State, why: str, now_ns: int) -> State:
    """Emergency stop: neutral, disarmed, latched. A second one keeps the first reason."""
    after = neutral(limits, state, "estop", now_ns)
    return replace(after, armed=False, estop=why if state.estop is None else state.estop)


def clear(state: State) -> State:
    """The stop is no longer latched. It has disarmed; arming is another, explicit step."""
    return replace(state, estop=None)


def deadman_due_ns(limits: Limits, state: State) -> int | None:
    """When the dead-man acts if nothing more is applied; None while nothing is in force but neutral."""
    return state.written_ns + limits.deadman_ns if state.live else None


def deadman(limits: Limits, state: State, now_ns: int) -> State | None:
    """The state after the dead-man, None while it is not due. It acts once: neutral is not live."""
    due = deadman_due_ns(limits, state)
    if due is None or now_ns < due:
        return None
    after = neutral(limits, state, "deadman", now_ns)
    return replace(after, armed=False) if limits.disarm_after_deadman else after


def describe(state: State, now_ns: int) -> str:
    """One line for a person: what the valve does with a proposal now, and what is in force."""
    force = f"{state.in_force} in force {_lasting(max(0, now_ns - state.since_ns))}"
    if state.estop is not None:
        return f"e-stop latched: {state.estop} (to go on: reflexd clear, then reflexd arm); {force}"
    if state.live:
        return f"armed, {force}"
    rest = f"{force} ({state.cause})"
    return f"armed, waiting for a proposal; {rest}" if state.armed else f"disarmed (to go on: reflexd arm); {rest}"


def _lasting(time_ns: int) -> str:
    return f"{time_ns // 1_000_000} ms" if time_ns < 10_000_000_000 else f"{time_ns // 1_000_000_000} s"


def _written(state: State, setting: Setting, cause: Cause, now_ns: int) -> State:
    since_ns = state.since_ns if setting == state.in_force else now_ns
    return replace(state, in_force=setting, since_ns=since_ns, written_ns=now_ns, cause=cause)
