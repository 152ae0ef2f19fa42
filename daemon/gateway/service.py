"""The gateway process: entrance, reception, orders, streams, put together.

It is the only process that may have a network socket. It subscribes to what the others publish and sends them commands
as any local commander does: whatever becomes of it, or of its clients, the control loop does not notice.
"""

from __future__ import annotations

import os
import time
from collections import Counter

import zmq

from daemon import __version__
from daemon.allowlist import allow_list
from daemon.bus import Bus
from daemon.config import ConfigError
from daemon.gateway.account import Answer
from daemon.gateway.clients import Client
from daemon.gateway.doors import Asked
from daemon.gateway.entrance import Entrance
from daemon.gateway.logs import open_logs
from daemon.gateway.manual import ManualControl
from daemon.gateway.orders import AgentAsk, Orders
from daemon.gateway.own import OwnAnswers
from daemon.gateway.reception import Reception
from daemon.gateway.slow import SlowAnswers
from daemon.gateway.streams import Streams
from daemon.gateway.telemetry import Telemetry
from daemon.plan import Plan
from daemon.process import Ready, Report
from daemon.remote import REQUESTS, ClientHello, GatewayWelcome, Propose, Reply, Request, Valve
from daemon.runtime import RuntimeFolder
from daemon.wire import WireError, decode

LOOK_EVERY_NS = 100_000_000
"""Pause between two looks at the log and at the allow-list."""


class Gateway:
    """The stage of the gateway.

    Raises:
        ConfigError: no ``[gateway]`` table, or a key or a port that cannot be used.
        BusError: an endpoint cannot be bound.
    """

    def __init__(self, plan: Plan, runtime: RuntimeFolder, name: str, bus: Bus, poller: zmq.Poller) -> None:
        table = plan.config.gateway
        if table is None:
            raise ConfigError(f"{plan.path}: gateway: expected a table [gateway], found none")
        self._daemon = plan.config.daemon.name
        self._epoch = int.from_bytes(os.urandom(7))
        trusted = allow_list(plan.path, plan.config, runtime.state)
        self._entrance = Entrance(table, runtime, name, trusted, poller)
        self._reception = Reception(self._epoch, self._begin)
        self._streams = Streams(self._epoch, self._entrance.publish)
        actuators, processes = list(plan.config.actuators), _processes(plan)
        self._telemetry = Telemetry(bus, actuators, processes, self._streams, table, poller)
        self._log = open_logs(runtime.state, runtime.folder, [*processes, name])
        # Not as news: whoever follows has had it from the gateway before.
        self._streams.load("log", self._log.read_new())
        self._orders = Orders(bus, actuators)
        self._manual = ManualControl(bus, plan.config)
        self._slow = SlowAnswers()
        self._own = OwnAnswers(plan, runtime, self._streams, self._telemetry.healths, self._log, self._slow)
        poller.register(self._slow.wake.fileno(), zmq.POLLIN)
        for forwarder in self._orders.forwarders:
            poller.register(forwarder.socket, zmq.POLLIN)
        self._look_due_ns = 0
        self._progress = 0
        self._requests = 0

    def turn(self, ready: Ready, now_ns: int) -> int:
        """Requests, answers on their way, what the others publish, the log; return when there is something due."""
        self._progress += 1
        for asked, client in self._entrance.receive(ready):
            self._requests += 1
            self._take(asked, client)
        self._orders.turn(time.monotonic_ns())
        self._telemetry.take(ready)
        if self._slow.wake.fileno() in ready:
            self._slow.take()
        if now_ns >= self._look_due_ns:
            self._look_due_ns = now_ns + LOOK_EVERY_NS
            self._look()
        self._streams.mark(now_ns)
        due_ns = self._orders.due_ns()
        return self._look_due_ns if due_ns is None else min(due_ns, self._look_due_ns)

    def report(self) -> Report:
        """Requests, records, and what was refused."""
        records = {name: book.last for name, book in self._streams.books.items()}
        counts = Counter[str](requests=self._requests, **records)
        dropped = {"clients": self._entrance.counts()}
        return Report(state="running", progress=self._progress, counts={"clients": dict(counts)}, dropped=dropped)

    def shutdown(self) -> None:
        """Let go of clients and sockets."""
        self._telemetry.close()
        self._slow.close()
        self._log.close()
        self._entrance.close()

    def _take(self, asked: Asked, client: Client) -> None:
        try:
            message = decode(asked.data, REQUESTS)
        except WireError as error:
            self._reply(asked, Reply(id="", status="refused", reason="malformed", detail=str(error)[:512]))
            return
        now_ns = time.monotonic_ns()
        if isinstance(message, ClientHello):
            asked.door.reply(asked.peer, self._welcome(client, now_ns))
        elif isinstance(message, Request):
            self._reception.take(client, message, now_ns, lambda reply: self._reply(asked, reply))

    def _reply(self, asked: Asked, reply: Reply) -> None:
        if reply.reason:
            self._entrance.dropped[reply.reason] += 1
        asked.door.reply(asked.peer, reply)

    def _welcome(self, client: Client, now_ns: int) -> GatewayWelcome:
        return GatewayWelcome(
            daemon=self._daemon,
            epoch=self._epoch,
            now_ns=now_ns,
            wall_us=time.time_ns() // 1000,
            role=client.role,
            frames=client.frames,
            version=__version__,
        )

    def _begin(self, client: Client, request: Request, answer: Answer) -> None:
        ask = request.ask
        if isinstance(ask, Valve):
            self._orders.command(client, request, ask, answer)
        elif isinstance(ask, Propose):
            answer(self._manual.propose(request, ask, time.monotonic_ns()))
        elif isinstance(ask, AgentAsk):
            self._orders.change(client, request, ask, answer)
        else:
            self._own.answer(request, answer)

    def _look(self) -> None:
        for record in self._log.read_new():
            self._streams.add("log", record)
        self._entrance.refresh()


def _processes(plan: Plan) -> list[str]:
    config = plan.config
    kinds = {"actuate": list(config.actuators), "simulate": list(config.worlds), "capture": list(config.sources)}
    return [*(f"{kind}@{name}" for kind, names in kinds.items() for name in names), "infer"]
