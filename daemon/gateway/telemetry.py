"""What the other processes publish: numbered for the streams, counted for the figures, remembered for the status."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

from daemon.bus import AT_ONCE, Bus
from daemon.config import ConfigError, Gateway
from daemon.gateway.answers import Healths
from daemon.gateway.streams import Streams
from daemon.messages import Applied, Health, Refused
from daemon.process import Ready
from daemon.remote import ActuatorRecord, HealthRecord

if TYPE_CHECKING:
    from daemon.gateway.metrics import Metrics


class Telemetry:
    """Subscriptions to every actuator and every process.

    Args:
        bus: has the links.
        actuators, processes: names of all.
        streams: takes the records.
        table: says where the figures are shown.
        poller: gets the sockets.

    Raises:
        ConfigError: the figures cannot be shown there.
    """

    def __init__(
        self,
        bus: Bus,
        actuators: list[str],
        processes: list[str],
        streams: Streams,
        table: Gateway,
        poller: zmq.Poller,
    ) -> None:
        self._streams = streams
        self.healths = Healths()
        self._metrics = _metrics(table.metrics_port, self.healths)
        self._applied = {actuator: bus.subscriber("applied", actuator) for actuator in actuators}
        self._health = [bus.subscriber("health", process) for process in processes]
        for topic in (*self._applied.values(), *self._health):
            poller.register(topic.socket, zmq.POLLIN)

    def take(self, ready: Ready) -> None:
        """Take in what has come."""
        for actuator, topic in self._applied.items():
            for message in topic.receive(AT_ONCE) if topic.socket in ready else ():
                if isinstance(message, Applied | Refused):
                    self._take_event(actuator, message)
        for topic in self._health:
            for message in topic.receive(AT_ONCE) if topic.socket in ready else ():
                if isinstance(message, Health):
                    self.healths.take(message)
                    self._streams.add("telemetry", HealthRecord(health=message))

    def close(self) -> None:
        """Show no more figures."""
        if self._metrics is not None:
            self._metrics.close()

    def _take_event(self, actuator: str, event: Applied | Refused) -> None:
        if self._metrics is not None:
            self._metrics.count(actuator, event)
        self._streams.add("telemetry", ActuatorRecord(actuator=actuator, event=event))


def _metrics(port: int, healths: Healths) -> Metrics | None:
    if not port:
        return None
    try:
        from daemon.gateway.metrics import Metrics
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"gateway.metrics_port needs {error.name}: apt install python3-prometheus-client, "
            "or pip install 'reflexd[metrics]'"
        ) from None
    return Metrics(port, healths)
