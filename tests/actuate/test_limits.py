"""A limit that is no limit is refused before anything can move: NaN, infinity, negative, inverted, missing."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from daemon.actuate.limits import AgentLimits, ChannelLimits, Setting, build_limits
from daemon.config import Actuator, Agent, Channel, Config, ConfigError, Daemon, parse
from tests.actuate.running import make_setup
from tests.actuate.setups import MS

AGENT = Agent(package="p", source="s", actuator="paddle", priority=7, max_age_ms=33.25, min_confidence=0.5)
PADDLE = Actuator(
    driver="log", actions=["NOOP", "UP"], neutral="NOOP", deadman_ms=250.0, hold_ms=1.0, forbidden=[("UP", "UP")]
)
CHANNEL = Channel(unit="rad", minimum=-1.0, maximum=2.0, neutral=0.5, slew_per_s=3.0, clamp=True)
ARM = Actuator(driver="log", channels=[CHANNEL], deadman_ms=100.0, after_deadman="resume")
NO_NUMBERS: list[Any] = [math.nan, math.inf, -math.inf, True, None, "1"]


def config(actuator: Actuator = PADDLE, agent: Agent = AGENT) -> Config:
    other = Agent(package="p", source="s", actuator="else")
    return Config(
        daemon=Daemon(name="d"), agents={"mine": agent, "other": other}, actuators={"paddle": actuator, "else": PADDLE}
    )


def test_milliseconds_become_nanoseconds_and_only_own_agents_count() -> None:
    limits = build_limits(config(), "paddle")
    assert limits.deadman_ns == 250 * MS
    assert limits.hold_ns == MS
    assert (limits.min_interval_ns, limits.min_dwell_ns, limits.disarm_after_deadman) == (0, 0, True)
    assert limits.agents == {"mine": AgentLimits(7, 33_250_000, 0.5)}
    assert limits.actions == frozenset({"NOOP", "UP"})
    assert limits.forbidden == frozenset({("UP", "UP")})
    assert limits.neutral == Setting("NOOP", ())


def test_channels() -> None:
    limits = build_limits(config(ARM), "paddle")
    assert limits.channels == (ChannelLimits("rad", -1.0, 2.0, 3.0, True),)
    assert limits.neutral == Setting(None, (0.5,))
    assert not limits.disarm_after_deadman
    assert build_limits(config(_channel(slew_per_s=None)), "paddle").channels[0].slew_per_s is None


def test_unknown_actuator_is_named() -> None:
    with pytest.raises(ConfigError, match="expected one named 'nobody', found else, paddle"):
        build_limits(config(), "nobody")


@pytest.mark.parametrize("bad", [*NO_NUMBERS, -5.0])
def test_bad_times_are_refused(bad: Any) -> None:
    for key in ("deadman_ms", "hold_ms", "min_interval_ms", "min_dwell_ms"):
        with pytest.raises(ConfigError, match=rf"actuators\.paddle\.{key} = "):
            build_limits(config(replace(PADDLE, **{key: bad})), "paddle")
    with pytest.raises(ConfigError, match=r"agents\.mine\.max_age_ms = "):
        build_limits(config(agent=replace(AGENT, max_age_ms=bad)), "paddle")


@pytest.mark.parametrize("bad", [*NO_NUMBERS, -5.0, math.nextafter(0.0, -1.0), math.nextafter(1.0, 2.0)])
def test_bad_confidence_floors_are_refused(bad: Any) -> None:
    with pytest.raises(ConfigError, match=r"agents\.mine\.min_confidence = "):
        build_limits(config(agent=replace(AGENT, min_confidence=bad)), "paddle")


@pytest.mark.parametrize("bad", NO_NUMBERS)
def test_bad_channel_limits_are_refused(bad: Any) -> None:
    for key in ("minimum", "maximum", "neutral"):
        with pytest.raises(ConfigError, match=rf"channels\.0\.{key} = "):
            build_limits(config(_channel(**{key: bad})), "paddle")


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -5.0, True])
def test_bad_slew_is_refused(bad: Any) -> None:
    with pytest.raises(ConfigError, match=r"channels\.0\.slew_per_s = "):
        build_limits(config(_channel(slew_per_s=bad)), "paddle")


@pytest.mark.parametrize("changes", [{"minimum": 0.6}, {"maximum": 0.4}, {"minimum": 3.0, "maximum": -3.0}])
def test_inverted_limits_are_refused(changes: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="expected minimum <= neutral <= maximum"):
        build_limits(config(_channel(**changes)), "paddle")


@pytest.mark.parametrize(
    "actuator",
    [
        replace(PADDLE, neutral=None),
        replace(PADDLE, neutral="REST"),
        replace(ARM, channels=[]),
        replace(ARM, actions=["A"], neutral="A"),
    ],
)
def test_without_a_neutral_there_is_no_actuator(actuator: Actuator) -> None:
    with pytest.raises(ConfigError, match=r"paddle\.neutral = "):
        build_limits(config(actuator), "paddle")


@pytest.mark.parametrize("bad", ["nan", "inf", "-5", "0", "true", '"250"'])
def test_the_configuration_file_refuses_them_as_well(tmp_path: Path, bad: str) -> None:
    setup = make_setup(tmp_path)
    setup.config.write_text(setup.config.read_text().replace("deadman_ms = 2000.0", f"deadman_ms = {bad}"))
    with pytest.raises(ConfigError, match=r"actuators\..*deadman_ms"):
        parse(setup.config)


def _channel(**changes: Any) -> Actuator:
    return replace(ARM, channels=[replace(CHANNEL, **changes)])
