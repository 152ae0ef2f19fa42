"""Actions by hand, on their way to the arbiter and the valve: proposals like any agent's, and judged like them."""

from __future__ import annotations

from daemon.bus import Bus
from daemon.config import Config
from daemon.gateway.replies import failed
from daemon.messages import ActionProposal
from daemon.remote import Propose, Reply, Request


class ManualControl:
    """The way of the tables ``[manual.NAME]`` to their actuators.

    Args:
        bus: has the links.
        config: has the tables.
    """

    def __init__(self, bus: Bus, config: Config) -> None:
        self._tables = config.manual
        self._links = {
            name: bus.publisher("proposal", name) for name in {each.actuator for each in self._tables.values()}
        }
        self._sent = 0

    def propose(self, request: Request, ask: Propose, now_ns: int) -> Reply:
        """Hand a proposal on; its age counts from now, when it was taken in."""
        table = self._tables.get(ask.manual)
        if table is None:
            known = ", ".join(self._tables) or "none: add [manual.NAME] to the configuration"
            return failed(request, f"no manual control {ask.manual!r}; there are: {known}")
        self._sent += 1
        self._links[table.actuator].send(
            ActionProposal(
                agent=ask.manual, sensor_ns=now_ns, frame_seq=self._sent, action=ask.action, values=ask.values
            )
        )
        return Reply(id=request.id, status="done", detail=f"handed to the valve of {table.actuator}")
