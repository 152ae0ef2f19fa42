"""What an actuator may do, as data: the configuration's limits in the units the valve computes in. Pure.

Nothing here has a default that lets something through: a limit is either built from a checked number or refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from daemon.config import Actuator, Agent, Channel, Config, ConfigError


class Setting(msgspec.Struct, frozen=True):
    """What an actuator is told: an action of its vocabulary, or one value per channel in the channel's unit."""

    action: str | None
    values: tuple[float, ...]

    def __str__(self) -> str:
        return self.action if self.action is not None else f"[{', '.join(f'{value:.6g}' for value in self.values)}]"


class ChannelLimits(msgspec.Struct, frozen=True):
    """``minimum`` <= value <= ``maximum``, by ``slew_per_s`` at most; ``clamp`` corrects instead of refusing."""

    unit: str
    minimum: float
    maximum: float
    slew_per_s: float | None
    clamp: bool


class AgentLimits(msgspec.Struct, frozen=True):
    """What is asked of one agent's proposals; a larger ``priority`` takes the actuator from a smaller one."""

    priority: int
    max_age_ns: int
    min_confidence: float


class Limits(msgspec.Struct, frozen=True):
    """Everything the arbiter and the valve of one actuator go by.

    Attributes:
        actions: the vocabulary, empty for continuous actuators.
        channels: limits per value, empty for discrete actuators.
        neutral: the safe setting.
        forbidden: pairs (from, to) of actions that must not follow one another.
        agents: who may propose.
        deadman_ns: longest time an applied action stays in force without another one.
        disarm_after_deadman: a dead-man also disarms.
        hold_ns: shortest time the holder keeps the actuator after a good proposal.
        min_interval_ns: shortest time between two writes.
        min_dwell_ns: shortest time a setting stays before another one.
    """

    actions: frozenset[str]
    channels: tuple[ChannelLimits, ...]
    neutral: Setting
    forbidden: frozenset[tuple[str, str]]
    agents: Mapping[str, AgentLimits]
    deadman_ns: int
    disarm_after_deadman: bool
    hold_ns: int
    min_interval_ns: int
    min_dwell_ns: int


def build_limits(config: Config, name: str) -> Limits:
    """The limits of actuator ``name`` and of the agents that may move it.

    Raises:
        ConfigError: no such actuator, or a limit that is not finite or negative; names key, value and expectation.
    """
    actuator = config.actuators.get(name)
    if actuator is None:
        known = ", ".join(sorted(config.actuators))
        raise ConfigError(f"actuators: expected one named {name!r}, found {known}")
    key = f"actuators.{name}"
    return Limits(
        actions=frozenset(actuator.actions),
        channels=tuple(_channel(channel, f"{key}.channels.{i}") for i, channel in enumerate(actuator.channels)),
        neutral=_neutral(actuator, key),
        forbidden=frozenset(actuator.forbidden),
        agents=_agents(config, name),
        deadman_ns=_nanoseconds(actuator.deadman_ms, f"{key}.deadman_ms"),
        disarm_after_deadman=actuator.after_deadman == "disarm",
        hold_ns=_nanoseconds(actuator.hold_ms, f"{key}.hold_ms"),
        min_interval_ns=_nanoseconds(actuator.min_interval_ms, f"{key}.min_interval_ms"),
        min_dwell_ns=_nanoseconds(actuator.min_dwell_ms, f"{key}.min_dwell_ms"),
    )


def _agents(config: Config, actuator: str) -> dict[str, AgentLimits]:
    """Who may propose: agents, and people by hand, whose proposals say nothing of how sure they are."""
    agents = {
        name: _agent(agent, f"agents.{name}") for name, agent in config.agents.items() if agent.actuator == actuator
    }
    for name, manual in config.manual.items():
        if manual.actuator == actuator:
            max_age_ns = _nanoseconds(manual.max_age_ms, f"manual.{name}.max_age_ms")
            agents[name] = AgentLimits(manual.priority, max_age_ns, 0.0)
    return agents


def _neutral(actuator: Actuator, key: str) -> Setting:
    neutral = Setting(actuator.neutral, tuple(channel.neutral for channel in actuator.channels))
    if (neutral.action in actuator.actions) == bool(neutral.values):
        raise ConfigError(f"{key}.neutral = {neutral.action!r}: expected one of actions, or channels and no action")
    return neutral


def _channel(channel: Channel, key: str) -> ChannelLimits:
    minimum, neutral, maximum = (
        _finite(getattr(channel, field), f"{key}.{field}") for field in ("minimum", "neutral", "maximum")
    )
    if not minimum <= neutral <= maximum:
        raise ConfigError(f"{key}: expected minimum <= neutral <= maximum, got {minimum}, {neutral}, {maximum}")
    slew = channel.slew_per_s
    if slew is not None and not _finite(slew, f"{key}.slew_per_s") > 0.0:
        raise ConfigError(f"{key}.slew_per_s = {slew}: expected more than 0")
    return ChannelLimits(channel.unit, minimum, maximum, slew, channel.clamp)


def _agent(agent: Agent, key: str) -> AgentLimits:
    floor = _finite(agent.min_confidence, f"{key}.min_confidence")
    if not 0.0 <= floor <= 1.0:
        raise ConfigError(f"{key}.min_confidence = {floor}: expected 0 to 1")
    return AgentLimits(agent.priority, _nanoseconds(agent.max_age_ms, f"{key}.max_age_ms"), floor)


def _nanoseconds(value_ms: float, key: str) -> int:
    if not _finite(value_ms, key) >= 0.0:
        raise ConfigError(f"{key} = {value_ms}: expected 0 or more")
    return round(value_ms * 1e6)


def _finite(value: float, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"{key} = {value!r}: expected a finite number")
    return float(value)
