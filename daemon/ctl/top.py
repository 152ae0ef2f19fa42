"""``reflexctl top``: a device at a glance, live in a terminal, or once for a pipe."""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from daemon.client import Client, Listener
from daemon.ctl.devices import DeviceError, chosen
from daemon.messages import Applied, Health
from daemon.remote import ActuatorRecord, Processes, Status, StreamRecord

WINDOW_S = 30
"""Seconds that a sparkline spans, one bar each."""
_BARS = " ▁▂▃▄▅▆▇█"


class Pace:
    """Decisions of an agent on an actuator: how many a second, and how long they took. Pure."""

    def __init__(self) -> None:
        self.latest_ms: deque[float] = deque(maxlen=300)
        self._per_second: deque[int] = deque([0] * WINDOW_S, maxlen=WINDOW_S)
        self._second = 0

    def add(self, event: Applied) -> None:
        """Take in a decision that was applied."""
        self._tick(event.applied_ns // 1_000_000_000)
        self._per_second[-1] += 1
        self.latest_ms.append((event.applied_ns - event.sensor_ns) / 1e6)

    def bars(self) -> str:
        """One bar a second, the newest at the right."""
        most = max(self._per_second) or 1
        return "".join(_BARS[round(number / most * (len(_BARS) - 1))] for number in self._per_second)

    def rate_hz(self) -> float:
        """Over the last whole seconds that there were."""
        whole = list(self._per_second)[-6:-1]
        return sum(whole) / len(whole)

    def _tick(self, second: int) -> None:
        for _ in range(min(WINDOW_S, second - self._second) if self._second else 0):
            self._per_second.append(0)
        self._second = second


class Page:
    """What is shown, from what has been heard. Pure."""

    def __init__(self) -> None:
        self._paces: dict[tuple[str, str], Pace] = {}

    def take(self, record: StreamRecord) -> None:
        """Take in a record of the telemetry."""
        event = record.record
        if isinstance(event, ActuatorRecord) and isinstance(event.event, Applied) and event.event.sensor_ns:
            self._paces.setdefault((event.actuator, event.event.agent), Pace()).add(event.event)

    def draw(self, processes: Processes) -> Group:
        """The page."""
        return Group(self._agents(), Text(), _table(processes))

    def _agents(self) -> Table:
        table = Table("actuator", "agent", "Hz", "p50 ms", "max ms", f"last {WINDOW_S} s", box=None)
        for (actuator, agent), pace in sorted(self._paces.items()):
            times = sorted(pace.latest_ms)
            middle, most = f"{times[len(times) // 2]:.1f}", f"{times[-1]:.1f}"
            table.add_row(actuator, agent, f"{pace.rate_hz():.1f}", middle, most, pace.bars())
        return table


def _table(processes: Processes) -> Table:
    table = Table("process", "state", "age ms", "what it says", "dropped", box=None)
    for health, age_ms in zip(processes.healths, processes.age_ms, strict=True):
        style = "" if health.state in ("running", "waiting", "done") and age_ms < 1000 else "bold red"
        table.add_row(health.process, health.state, f"{age_ms:.0f}", health.detail, _drops(health), style=style)
    return table


def _drops(health: Health) -> str:
    return ", ".join(f"{part} {n} {why}" for part, drops in health.dropped.items() for why, n in drops.items())


def top(options: argparse.Namespace) -> int:
    """Show one device until Ctrl-C, or once."""
    addresses = chosen(options)
    if len(addresses) > 1:
        raise DeviceError("one device at a time: --device NAME instead of --all")
    (address,) = addresses.values()
    once = options.once or not sys.stdout.isatty()
    page, console = Page(), Console()
    with Client(address) as client:
        listener = Listener(address, ["telemetry"])
        client.hello()
        if once:
            _listen(listener, page, 2.0)
            console.print(page.draw(_processes(client)))
            return 0
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                _listen(listener, page, 0.5)
                live.update(page.draw(_processes(client)), refresh=True)


def _listen(listener: Listener, page: Page, for_s: float) -> None:
    until_s = time.monotonic() + for_s
    while (left_s := until_s - time.monotonic()) > 0:
        for message in listener.receive(left_s):
            if isinstance(message, StreamRecord):
                page.take(message)


def _processes(client: Client) -> Processes:
    result = client.ask(Status()).result
    assert isinstance(result, Processes)  # noqa: S101 - what Status is answered by
    return result
