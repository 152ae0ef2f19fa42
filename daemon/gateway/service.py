"""The gateway process: the sockets around reception, forwarders and streams.

It is the only process that may have a network socket. It subscribes to what the others publish and sends them commands
as any local commander does: whatever becomes of it, or of its clients, the control loop does not notice.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import zmq

from daemon import __version__
from daemon.allowlist import KEY_FILE, allow_list
from daemon.bus import AT_ONCE, Bus
from daemon.config import ConfigError
from daemon.config import Gateway as Table
from daemon.gateway import answers
from daemon.gateway.clients import LOCAL, AllowList, Client
from daemon.gateway.doors import Asked, Door, Doorkeeper
from daemon.gateway.logs import open_logs
from daemon.gateway.manual import ManualControl
from daemon.gateway.models import ModelsFolder
from daemon.gateway.orders import AgentAsk, Orders
from daemon.gateway.reception import Answer, Reception
from daemon.gateway.replies import done
from daemon.gateway.slow import SlowAnswers
from daemon.gateway.streams import Streams
from daemon.keys import KeyFileError, read_or_make_key
from daemon.messages import Applied, Health, Message, Refused
from daemon.plan import Plan
from daemon.process import Ready, Report
from daemon.remote import (
    REQUESTS,
    ActuatorRecord,
    Backfill,
    CheckConfig,
    ClientHello,
    FinishModel,
    GatewayWelcome,
    HealthRecord,
    ListModels,
    Log,
    Picture,
    Propose,
    PushModel,
    RemoveModel,
    Reply,
    Request,
    Status,
    StreamName,
    Valve,
)
from daemon.runtime import RuntimeFolder
from daemon.wire import WireError, decode, encode

if TYPE_CHECKING:
    from daemon.gateway.metrics import Metrics

logger = logging.getLogger(__name__)

REQUESTS_PER_TURN = 32
LOOK_EVERY_NS = 100_000_000
"""Pause between two looks at the log and at the allow-list."""


class Gateway:
    """The stage of the gateway.

    Raises:
        ConfigError: no ``[gateway]`` table, or a key that cannot be used.
        BusError: an endpoint cannot be bound.
    """

    def __init__(self, plan: Plan, runtime: RuntimeFolder, name: str, bus: Bus, poller: zmq.Poller) -> None:
        table = plan.config.gateway
        if table is None:
            raise ConfigError(f"{plan.path}: gateway: expected a table [gateway], found none")
        self._plan, self._runtime, self._poller = plan, runtime, poller
        epoch = int.from_bytes(os.urandom(7))
        self._epoch = epoch
        self._context = zmq.Context()
        self._allowed = AllowList(allow_list(plan.path, plan.config, runtime.state))
        self._doorkeeper: Doorkeeper | None = None
        self._doors = [self._local_door(name), *self._remote_doors(table)]
        for door in self._doors:
            for each in (door.requests, *door.monitors):
                poller.register(each, zmq.POLLIN)
        self._reception = Reception(epoch, self._begin)
        self._streams = Streams(epoch, self._publish)
        self._healths = answers.Healths()
        self._metrics = _metrics(table, self._healths)
        self._log = open_logs(runtime.state, runtime.folder, [*_processes(plan), name])
        self._orders = Orders(bus, list(plan.config.actuators))
        self._applied = {actuator: bus.subscriber("applied", actuator) for actuator in plan.config.actuators}
        self._health = [bus.subscriber("health", process) for process in _processes(plan)]
        self._manual = ManualControl(bus, plan.config)
        self._slow = SlowAnswers()
        self._models = ModelsFolder(runtime.models)
        poller.register(self._slow.wake.fileno(), zmq.POLLIN)
        for topic in (*self._applied.values(), *self._health):
            poller.register(topic.socket, zmq.POLLIN)
        for forwarder in self._orders.forwarders:
            poller.register(forwarder.socket, zmq.POLLIN)
        self._look_due_ns = 0
        self._progress = 0
        self._counts = Counter[str](requests=0)
        self._dropped = Counter[str]()

    def turn(self, ready: Ready, now_ns: int) -> int:
        """Requests, answers on their way, what the others publish, the log; return when there is something due."""
        self._progress += 1
        for door in self._doors:
            if door.requests in ready:
                self._take_requests(door)
            if any(monitor in ready for monitor in door.monitors):
                door.take_failures()
        self._orders.turn(time.monotonic_ns())
        self._take_telemetry(ready)
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
        for door in self._doors:
            self._dropped.update(door.refused)
            door.refused.clear()
        counts: dict[str, int] = {**self._counts, **{name: book.last for name, book in self._streams.books.items()}}
        dropped = {"clients": dict(self._dropped)}
        return Report(state="running", progress=self._progress, counts={"clients": counts}, dropped=dropped)

    def shutdown(self) -> None:
        """Let go of clients and sockets."""
        if self._metrics is not None:
            self._metrics.close()
        self._slow.close()
        for door in self._doors:
            door.close()
        if self._doorkeeper is not None:
            self._doorkeeper.close()
        self._context.destroy(linger=100)

    # --- doors ---------------------------------------------------------------------------------------------

    def _local_door(self, name: str) -> Door:
        requests, stream = (self._runtime.endpoint(end, name) for end in ("requests", "stream"))
        return Door(self._context, requests, stream, None)

    def _remote_doors(self, table: Table) -> list[Door]:
        if not table.listen:
            return []
        try:
            server = read_or_make_key(self._runtime.state / KEY_FILE)
        except KeyFileError as error:
            raise ConfigError(str(error)) from None
        self._doorkeeper = Doorkeeper(self._context, self._allowed)
        requests, stream = (f"tcp://{table.listen}:{port}" for port in (table.port, table.port + 1))
        logger.info("clients may come in by %s and %s; the key of this device is %s", requests, stream, server.public)
        return [Door(self._context, requests, stream, server)]

    def _publish(self, name: StreamName, message: Message) -> None:
        data = encode(message)
        for door in self._doors:
            door.publish(name.encode(), data)

    # --- requests ------------------------------------------------------------------------------------------

    def _take_requests(self, door: Door) -> None:
        for _ in range(REQUESTS_PER_TURN):
            asked = door.receive()
            if asked is None:
                return
            self._counts["requests"] += 1
            client = self._allowed.find(asked.key) if asked.key else LOCAL
            if client is None:
                self._dropped["revoked"] += 1
                reply = Reply(id="", status="refused", reason="role", detail="this key is not trusted any more")
                door.reply(asked.peer, reply)
            else:
                self._take(asked, client)

    def _take(self, asked: Asked, client: Client) -> None:
        try:
            message = decode(asked.data, REQUESTS)
        except WireError as error:
            self._dropped["malformed"] += 1
            reply = Reply(id="", status="refused", reason="malformed", detail=str(error)[:512])
            asked.door.reply(asked.peer, reply)
            return
        now_ns = time.monotonic_ns()
        if isinstance(message, ClientHello):
            asked.door.reply(asked.peer, self._welcome(client, now_ns))
        elif isinstance(message, Request):
            self._reception.take(client, message, now_ns, lambda reply: self._reply(asked, reply))

    def _reply(self, asked: Asked, reply: Reply) -> None:
        if reply.reason:
            self._dropped[reply.reason] += 1
        asked.door.reply(asked.peer, reply)

    def _welcome(self, client: Client, now_ns: int) -> GatewayWelcome:
        return GatewayWelcome(
            daemon=self._plan.config.daemon.name,
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
            self._answer(request, answer)

    def _answer(self, request: Request, answer: Answer) -> None:
        """What the gateway can answer by itself."""
        ask = request.ask
        if isinstance(ask, Status):
            answer(done(request, self._healths.report(time.monotonic_ns())))
        elif isinstance(ask, Backfill):
            answer(done(request, answers.backfill(self._streams.books[ask.stream], self._epoch, ask)))
        elif isinstance(ask, Log):
            self._find(request, ask, answer)
        elif isinstance(ask, Picture):
            self._slow.add(request, answer, lambda: done(request, answers.take_picture(self._runtime.folder, ask)))
        elif isinstance(ask, ListModels):
            self._slow.add(request, answer, lambda: done(request, self._models.list()))
        elif isinstance(ask, PushModel | FinishModel | RemoveModel):
            self._slow.add(request, answer, lambda: self._change_models(request, ask))
        elif isinstance(ask, CheckConfig):
            self._slow.add(request, answer, lambda: answers.check(request, self._plan.path))

    def _change_models(self, request: Request, ask: PushModel | FinishModel | RemoveModel) -> Reply:
        """In the thread of slow answers, one after the other."""
        if isinstance(ask, PushModel):
            detail = self._models.push(ask)
        elif isinstance(ask, FinishModel):
            detail = self._models.finish(ask.package)
        else:
            detail = self._models.remove(ask.package, answers.packages_in_use(self._runtime.state))
        return Reply(id=request.id, status="done", detail=detail)

    def _find(self, request: Request, ask: Log, answer: Answer) -> None:
        """In what is kept in memory, or beyond it, which takes its time."""
        kept = self._streams.books["log"].all()
        if answers.needs_history(kept, ask):
            work = partial(answers.find, kept, self._epoch, ask, self._log)
            self._slow.add(request, answer, lambda: done(request, work()))
        else:
            answer(done(request, answers.find(kept, self._epoch, ask, None)))

    # --- streams -------------------------------------------------------------------------------------------

    def _take_telemetry(self, ready: Ready) -> None:
        for actuator, topic in self._applied.items():
            for message in topic.receive(AT_ONCE) if topic.socket in ready else ():
                if isinstance(message, Applied | Refused):
                    if self._metrics is not None:
                        self._metrics.count(actuator, message)
                    self._streams.add("telemetry", ActuatorRecord(actuator=actuator, event=message))
        for topic in self._health:
            for message in topic.receive(AT_ONCE) if topic.socket in ready else ():
                if isinstance(message, Health):
                    self._healths.take(message)
                    self._streams.add("telemetry", HealthRecord(health=message))

    def _look(self) -> None:
        for record in self._log.read_new():
            self._streams.add("log", record)
        if self._allowed.refresh():
            logger.warning("the allow-list has changed: all clients from other machines must come in anew")
            for door in self._doors[1:]:
                door.reopen_stream()


def _metrics(table: Table, healths: answers.Healths) -> Metrics | None:
    if not table.metrics_port:
        return None
    try:
        from daemon.gateway.metrics import Metrics
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"gateway.metrics_port needs {error.name}: apt install python3-prometheus-client, "
            "or pip install 'reflexd[metrics]'"
        ) from None
    return Metrics(table.metrics_port, healths)


def _processes(plan: Plan) -> list[str]:
    config = plan.config
    kinds = {"actuate": list(config.actuators), "simulate": list(config.worlds), "capture": list(config.sources)}
    return [*(f"{kind}@{name}" for kind, names in kinds.items() for name in names), "infer"]
