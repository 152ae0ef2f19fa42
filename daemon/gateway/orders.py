"""Requests that command actuators and agents, and the one reply that the outcomes of all of them make."""

from __future__ import annotations

import hashlib
import time

from daemon.bus import Bus
from daemon.gateway.account import Answer
from daemon.gateway.clients import Client
from daemon.gateway.forward import Forwarder
from daemon.gateway.replies import failed, together
from daemon.messages import AgentChange, AgentCommand, Command, Ordered
from daemon.remote import Activate, ChangeAgent, Outcome, Request, Rollback, Valve

_ID_LETTERS = 64
"""Of a command, at most; as many as SHA-256 has in hexadecimal."""

AgentAsk = ChangeAgent | Activate | Rollback


class Orders:
    """The way to every process that takes commands.

    Args:
        bus: has the links.
        actuators: names of all actuators.
    """

    def __init__(self, bus: Bus, actuators: list[str]) -> None:
        self._valves = {actuator: Forwarder(bus, "command", actuator) for actuator in actuators}
        self._agents = Forwarder(bus, "agents", "infer")
        self.forwarders = [*self._valves.values(), self._agents]

    def turn(self, now_ns: int) -> None:
        """Take the answers that have come."""
        for forwarder in self.forwarders:
            forwarder.turn(now_ns)

    def due_ns(self) -> int | None:
        """When :meth:`turn` has something to do if nothing comes."""
        due = (forwarder.due_ns() for forwarder in self.forwarders)
        return min((at_ns for at_ns in due if at_ns is not None), default=None)

    def command(self, client: Client, request: Request, ask: Valve, answer: Answer) -> None:
        """Command the actuators named, or all."""
        unknown = [name for name in ask.actuators if name not in self._valves]
        if unknown:
            text = f"no actuator {', '.join(unknown)}; actuators: {', '.join(self._valves)}: nothing was done"
            answer(failed(request, text))
            return
        order = Command(
            id=_inner_id(client, request),
            epoch=0,
            expires_ns=request.expires_ns,
            who=_who(client),
            operation=ask.operation,
        )
        names = dict.fromkeys(ask.actuators or self._valves)
        _send([self._valves[name] for name in names], order, request, answer)

    def change(self, client: Client, request: Request, ask: AgentAsk, answer: Answer) -> None:
        """Change an agent."""
        order = AgentCommand(
            id=_inner_id(client, request),
            epoch=0,
            expires_ns=request.expires_ns,
            who=_who(client),
            agent=ask.agent,
            change=_change(ask),
            value=ask.value if isinstance(ask, ChangeAgent) else None,
            package=ask.package if isinstance(ask, Activate) else "",
        )
        _send([self._agents], order, request, answer)


def _change(ask: AgentAsk) -> AgentChange:
    if isinstance(ask, ChangeAgent):
        return ask.change
    return "activate" if isinstance(ask, Activate) else "rollback"


def _send(forwarders: list[Forwarder], order: Ordered, request: Request, answer: Answer) -> None:
    """Send the order to each; answer when all outcomes are there."""
    outcomes: list[Outcome] = []

    def take(outcome: Outcome) -> None:
        outcomes.append(outcome)
        if len(outcomes) == len(forwarders):
            answer(together(request, outcomes))

    now_ns = time.monotonic_ns()
    for forwarder in forwarders:
        forwarder.send(order, now_ns, take)


def _inner_id(client: Client, request: Request) -> str:
    """Two clients may use the same id; the processes behind must not take one for the other."""
    whole = f"{client.name}:{request.id}"
    return whole if len(whole) <= _ID_LETTERS else hashlib.sha256(whole.encode()).hexdigest()


def _who(client: Client) -> str:
    return f"{client.name}, through the gateway"
