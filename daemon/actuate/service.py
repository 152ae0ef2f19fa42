"""The actuator process: the sockets around :class:`daemon.actuate.control.Control`.

Order of a turn: commands first, because a stop waits for nothing; then the dead-man; then proposals. The clock is
read anew before each: if the process was held up in between, what it judges next is as old as it really is.
"""

from __future__ import annotations

import logging
import os
import time

import zmq

from daemon.actuate.control import DRIVER, Control
from daemon.actuate.drivers import Driver
from daemon.actuate.drivers.gpio import GpioDriver
from daemon.actuate.drivers.log import LogDriver
from daemon.actuate.drivers.simulated import SimulatedDriver
from daemon.actuate.latch import Latch
from daemon.actuate.limits import build_limits
from daemon.actuate.realtime import PRIORITY, become_realtime
from daemon.actuate.writer import Writer
from daemon.bus import Bus
from daemon.config import ConfigError
from daemon.desk import CommandDesk, Outcome
from daemon.messages import ActionProposal, Command
from daemon.pins import pin_complaints
from daemon.plan import Plan
from daemon.process import Ready, Report
from daemon.runtime import RuntimeFolder

logger = logging.getLogger(__name__)

COMMANDS_PER_TURN = 16
"""More wait for the next turn, so that commanders cannot keep the dead-man from being looked at."""
IDLE_NS = 1_000_000_000
"""Longest sleep when nothing is due."""


def make_driver(plan: Plan, runtime: RuntimeFolder, name: str, bus: Bus) -> Driver:
    """The driver that the configuration names for actuator ``name``.

    Raises:
        ConfigError: its pins cannot be as they are declared.
    """
    actuator = plan.config.actuators[name]
    if actuator.driver == "gpio":
        for complaint in pin_complaints(plan.config):
            raise ConfigError(f"{plan.path}: {complaint}")
        return GpioDriver(actuator, runtime.folder / f"gpio@{name}")
    if actuator.world is not None:
        return SimulatedDriver(bus, actuator.world)
    return LogDriver(runtime.state / f"{name}.jsonl")


class Actuation:
    """The stage of one actuator: opening it writes neutral before anything else.

    Raises:
        ConfigError: no such actuator, or pins that cannot be as they are declared.
        BusError: an endpoint cannot be bound; neutral is written by then.
    """

    def __init__(self, plan: Plan, runtime: RuntimeFolder, name: str, bus: Bus, poller: zmq.Poller) -> None:
        limits = build_limits(plan.config, name)
        driver = make_driver(plan, runtime, name, bus)
        driver.open()
        self._writer = Writer(driver)
        first = self._writer.write("start", limits.neutral)
        if self._writer.trouble:
            logger.warning("%s", self._writer.trouble)
        self._applied = bus.publisher("applied", name)
        if first is not None:
            self._applied.send(first)
        latch = Latch(runtime.state / f"{name}.estop")
        self._control = Control(limits, self._writer, latch, self._applied.send, time.monotonic_ns())
        if plan.config.actuators[name].arm_on_start:
            self._control.arm()
        self._desk = CommandDesk[Command](int.from_bytes(os.urandom(7)), self._operate, self._control.describe)
        self._proposals = bus.subscriber("proposal", name)
        self._commands = bus.command_server("command", name)
        poller.register(self._proposals.socket, zmq.POLLIN)
        poller.register(self._commands.socket, zmq.POLLIN)
        poller.register(self._applied.socket, zmq.POLLIN)
        self._progress = 0
        self._said: tuple[object, ...] = ()
        self._refused = self._hurry() if plan.config.actuators[name].realtime else ""
        self._say()

    def turn(self, ready: Ready, now_ns: int) -> int:
        """Commands, dead-man, proposals; return when the dead-man or another try of the driver is due."""
        self._progress += 1
        if self._commands.socket in ready:
            self._commands.serve(self._desk.answer, COMMANDS_PER_TURN)
            now_ns = time.monotonic_ns()
        self._control.watch(now_ns)
        if self._applied.socket in ready:
            self._applied.welcome()
        if self._proposals.socket in ready:
            received = self._proposals.receive()
            proposals = [message for message in received if isinstance(message, ActionProposal)]
            self._control.propose(proposals, time.monotonic_ns())
        due_ns = self._control.due_ns()
        return now_ns + IDLE_NS if due_ns is None else due_ns

    def report(self) -> Report:
        """Counts per agent, drops per agent and reason, and the valve's state as text."""
        self._say()
        armed = self._control.state.armed
        return Report(
            state="degraded" if self._writer.trouble else "running" if armed else "waiting",
            progress=self._progress,
            detail="; ".join(filter(None, (self._control.describe(time.monotonic_ns()), self._refused))),
            counts={**self._control.counts, DRIVER: {"lost": self._writer.lost}},
            dropped={agent: dict(reasons) for agent, reasons in self._control.dropped.items()},
        )

    def shutdown(self) -> None:
        """Neutral, then let go of the hardware."""
        if not self._control.finish(time.monotonic_ns()):
            logger.error("neutral could not be written at the end (%s): look at the actuator", self._writer.failure)
        self._writer.close()

    def _hurry(self) -> str:
        """Become real-time, after neutral and everything else that start-up does; return what was refused, in short."""
        refused = become_realtime()
        for text in refused:
            logger.warning("%s", text)
        if not refused:
            logger.info("real-time priority %d, memory locked", PRIORITY)
        return ", ".join(text.partition(":")[0] for text in refused)

    def _operate(self, command: Command, now_ns: int) -> Outcome:
        outcome = self._control.operate(command, now_ns)
        if command.operation != "status":
            logger.warning("%s by %r: %s: %s", command.operation, command.who, outcome.status, outcome.detail)
        return outcome

    def _say(self) -> None:
        """Log what changed about the valve's state, at most once a report: the journal is for changes."""
        now = self._control.state
        said = (now.armed, now.estop, "proposal" if now.live else now.cause, self._writer.trouble)
        if said != self._said:
            self._said = said
            logger.info("%s", self._control.describe(time.monotonic_ns()))
