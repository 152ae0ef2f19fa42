"""Commands about agents: what may change while they run, what is refused, and with which words."""

from __future__ import annotations

from typing import Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.config import Actuator, Agent, Config, Daemon, Infer
from daemon.infer.change import NotChanged, changed
from daemon.messages import AgentChange, AgentCommand

P99_MS = {"one": 10.0, "two": 10.0}


def config(admission: Literal["refuse", "degrade"] = "refuse") -> Config:
    agents = {
        "one": Agent(package="p", source="s", actuator="a", priority=7, rate_hz=20.0),
        "two": Agent(package="p", source="s", actuator="a", priority=3, rate_hz=20.0),
    }
    actuators = {"a": Actuator(driver="log", actions=["STAY"], neutral="STAY", deadman_ms=200.0)}
    return Config(daemon=Daemon(name="t"), agents=agents, actuators=actuators, infer=Infer(admission=admission))


def command(change: AgentChange, value: float | None) -> AgentCommand:
    return AgentCommand(id="12345678", epoch=1, expires_ns=1, who="a test", agent="one", change=change, value=value)


def test_priority_and_rate_change_and_nothing_else() -> None:
    before = config()
    lower = changed(before, P99_MS, command("priority", 2.0))
    assert (lower.agents["one"].priority, lower.agents["two"]) == (2, before.agents["two"])
    faster = changed(lower, P99_MS, command("rate", 15.0))
    assert (faster.agents["one"].rate_hz, faster.agents["one"].priority) == (15.0, 2)
    assert before == config()


@pytest.mark.parametrize(
    ("change", "value", "words"),
    [
        ("priority", 10.0, "priority = 10.0: Expected `int` <= 9"),
        ("priority", 2.5, r"priority = 2.5: Expected `int`"),
        ("priority", None, "priority = None: Expected `int`"),
        ("rate", 0.0, "rate = 0.0: Expected `float` > 0.0"),
        ("rate", float("nan"), "rate = nan"),
        ("rate", 5.0, "period of 200 ms .* max_age_ms = 100: expected 10.0 Hz or more"),
        ("rate", 90.0, "not admitted: infer: the agents need 1.10 of 1 workers"),
    ],
)
def test_what_cannot_be_is_refused_with_what_was_expected(change: AgentChange, value: float, words: str) -> None:
    with pytest.raises(NotChanged, match=words):
        changed(config(), P99_MS, command(change, value))


def test_a_configuration_that_degrades_takes_what_is_not_admitted() -> None:
    assert changed(config(admission="degrade"), P99_MS, command("rate", 90.0)).agents["one"].rate_hz == 90.0


@given(st.sampled_from(["priority", "rate"]), st.none() | st.floats())
def test_whatever_comes_the_result_is_within_the_limits_of_a_configuration(change: AgentChange, value: float) -> None:
    assert change in get_args(AgentChange)
    try:
        agent = changed(config(admission="degrade"), P99_MS, command(change, value)).agents["one"]
    except NotChanged:
        return
    assert agent.priority in range(10)
    assert 0.0 < agent.rate_hz <= 1000.0
    assert agent.effective_deadline_ms <= agent.max_age_ms
