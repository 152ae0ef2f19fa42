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

from daemon.client import Client, Listener, NoGateway, NotLetIn
from daemon.ctl.devices import only_one
from daemon.follow import kept
from daemon.messages import Applied, Health
from daemon.remote import (
    MAX_RECORDS,
    ActuatorRecord,
    HealthRecord,
    LogRecord,
    Processes,
    Records,
    Status,
    StreamRecord,
)

WINDOW_S = 30
"""Seconds that a sparkline spans, one bar each."""
RATE_S = 5
REFRESH_S = 0.5
KEPT_RECORDS = 4 * MAX_RECORDS
"""Asked for at the start: of one agent at 30 decisions a second, a minute."""
_BARS = " ▁▂▃▄▅▆▇█"


class Pace:
    """Decisions of an agent on an actuator: how many a second, and how long they took. Pure."""

    def __init__(self) -> None:
        self.latest_ms: deque[float] = deque(maxlen=300)
        self._per_second: deque[int] = deque(maxlen=WINDOW_S + 1)
        """The second under way last."""
        self._second = 0

    def add(self, event: Applied) -> None:
        """Take in a decision that was applied."""
        self.tick(event.applied_ns)
        self._per_second[-1] += 1
        self.latest_ms.append((event.applied_ns - event.sensor_ns) / 1e6)

    def tick(self, now_ns: int) -> None:
        """So late is it on the device: seconds without a decision count too."""
        second = now_ns // 1_000_000_000
        if not self._per_second:
            self._second = second - 1
        self._per_second.extend([0] * min(WINDOW_S + 1, second - self._second))
        self._second = max(second, self._second)

    def bars(self) -> str:
        """One bar a second, the newest at the right."""
        whole = list(self._per_second)[:-1]
        most = max(whole, default=0) or 1
        return "".join(_BARS[round(number / most * (len(_BARS) - 1))] for number in whole).rjust(WINDOW_S)

    def rate_hz(self) -> float:
        """Over the last whole seconds, :data:`RATE_S` at most; the first one heard of may not be whole."""
        whole = list(self._per_second)[1:-1][-RATE_S:]
        return sum(whole) / len(whole) if whole else 0.0


class Page:
    """What is shown, from what has been heard. Pure."""

    def __init__(self) -> None:
        self._paces: dict[tuple[str, str], Pace] = {}

    def take(self, event: ActuatorRecord | HealthRecord | LogRecord) -> None:
        """Take in a record of the telemetry."""
        if isinstance(event, ActuatorRecord) and isinstance(event.event, Applied) and event.event.sensor_ns:
            self._paces.setdefault((event.actuator, event.event.agent), Pace()).add(event.event)

    def draw(self, processes: Processes, trouble: str = "") -> Group:
        """The page, with what stands in the way of a newer one."""
        ages = zip(processes.healths, processes.age_ms, strict=True)
        now_ns = max((health.at_ns + round(age_ms * 1e6) for health, age_ms in ages), default=0)
        for pace in self._paces.values():
            pace.tick(now_ns)
        return Group(self._agents(), Text(), _table(processes), Text(trouble, style="bold red"))

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
    address = only_one(options)
    page, console = Page(), Console()
    with Client(address) as client:
        listener = Listener(address, ["telemetry"])
        seen = _newest(client, page)
        processes = _processes(client)
        if options.once or not sys.stdout.isatty():
            console.print(page.draw(processes))
            return 0
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                trouble = ""
                _listen(listener, page, seen)
                try:
                    processes = _processes(client)
                except NotLetIn:
                    raise
                except NoGateway as error:
                    trouble = f"waiting for the gateway: {error}"
                live.update(page.draw(processes, trouble), refresh=True)


def _newest(client: Client, page: Page) -> Records:
    """What the gateway keeps of the time that the page shows; return how far that went."""
    there = kept(client, "telemetry")
    for first in range(max(there.oldest, there.last - KEPT_RECORDS + 1), there.last + 1, MAX_RECORDS):
        for numbered in kept(client, "telemetry", first, there.last).records:
            page.take(numbered.record)
    return there


def _listen(listener: Listener, page: Page, seen: Records) -> None:
    until_s = time.monotonic() + REFRESH_S
    while (left_s := until_s - time.monotonic()) > 0:
        for message in listener.receive(left_s):
            if isinstance(message, StreamRecord) and not _is_among(message, seen):
                page.take(message.record)


def _is_among(message: StreamRecord, seen: Records) -> bool:
    return message.epoch == seen.epoch and message.number <= seen.last


def _processes(client: Client) -> Processes:
    result = client.ask(Status()).result
    assert isinstance(result, Processes)  # noqa: S101 - what Status is answered by
    return result
