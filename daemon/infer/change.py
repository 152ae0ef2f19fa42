"""What commands change of the agents while they run: priority and rate. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from daemon.config import Agent, Config, Priority
from daemon.infer.admission import admit
from daemon.messages import AgentCommand
from daemon.sources import Rate

_TYPES: dict[str, Any] = {"priority": Priority, "rate": Rate}
_FIELDS = {"priority": "priority", "rate": "rate_hz"}


class NotChanged(ValueError):
    """A change that cannot be; the text says what was expected."""


def changed(config: Config, p99_ms: Mapping[str, float], command: AgentCommand) -> Config:
    """The configuration with the agent's new priority or rate.

    Args:
        config: as it holds now.
        p99_ms: forward time of each agent that acts, ms.
        command: a ``priority`` or a ``rate``.

    Raises:
        NotChanged: a value outside its limits, or agents that could not meet their deadlines any more.
    """
    agent = _with_value(config.agents[command.agent], command)
    if agent.effective_deadline_ms > agent.max_age_ms:
        least_hz = 1e3 / agent.max_age_ms
        raise NotChanged(
            f"a period of {agent.period_ms:.0f} ms is its deadline too and is above max_age_ms = {agent.max_age_ms:g}: "
            f"expected {least_hz:.1f} Hz or more, or deadline_ms in the configuration"
        )
    after = msgspec.structs.replace(config, agents={**config.agents, command.agent: agent})
    complaints = admit(after, p99_ms)
    if complaints and config.infer.admission == "refuse":
        raise NotChanged(f"not admitted: {'; '.join(complaints)}")
    return after


def _with_value(agent: Agent, command: AgentCommand) -> Agent:
    try:
        value = msgspec.convert(command.value, _TYPES[command.change], strict=False)
    except msgspec.ValidationError as error:
        raise NotChanged(f"{command.change} = {command.value}: {error}") from None
    return msgspec.structs.replace(agent, **{_FIELDS[command.change]: value})
