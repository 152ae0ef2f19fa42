"""What the page of ``reflexctl top`` shows, from records and the device's clock alone."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from daemon.ctl.top import WINDOW_S, Pace, Page
from daemon.messages import Applied, Health
from daemon.remote import ActuatorRecord, Processes

S = 1_000_000_000
MS = 1_000_000


def applied(at_ns: int, latency_ms: float = 4.0, sensor: bool = True) -> Applied:
    sensor_ns = at_ns - round(latency_ms * 1e6) if sensor else 0
    return Applied(seq=1, applied_ns=at_ns, cause="proposal", agent="good", sensor_ns=sensor_ns)


def after_seconds(rates: list[int], begin_s: int = 1000) -> Pace:
    """An agent that decided so many times in each second, and then it is the next second."""
    pace = Pace()
    for second, rate in enumerate(rates, begin_s):
        for number in range(rate):
            pace.add(applied(second * S + number * S // max(1, rate)))
    pace.tick((begin_s + len(rates)) * S)
    return pace


def test_the_rate_is_of_the_last_whole_seconds() -> None:
    assert after_seconds([3, 30, 30, 30]).rate_hz() == 30.0
    assert after_seconds([30, 10, 10, 10, 10, 20, 20, 20, 20, 20]).rate_hz() == 20.0
    assert after_seconds([30]).rate_hz() == 0.0, "one second that may not be whole says nothing"


def test_an_agent_that_has_stopped_comes_down_to_nothing() -> None:
    pace = after_seconds([30] * 10)
    pace.tick(1013 * S)
    assert 0.0 < pace.rate_hz() < 30.0
    pace.tick(1016 * S)
    assert pace.rate_hz() == 0.0
    pace.tick(1100 * S)
    assert pace.bars() == " " * WINDOW_S


def test_a_second_is_a_bar_and_the_newest_is_at_the_right() -> None:
    assert after_seconds([30] * 100).bars() == "█" * WINDOW_S
    assert after_seconds([8, 16]).bars() == " " * (WINDOW_S - 2) + "▄█"
    assert after_seconds([16, 0, 4]).bars().endswith("█ ▂")


def test_a_clock_that_steps_back_is_no_second() -> None:
    pace = after_seconds([10, 10])
    pace.tick(900 * S)
    pace.add(applied(1002 * S + 1))
    assert pace.bars().endswith("██")


def test_the_page_has_agents_processes_and_drops() -> None:
    page = Page()
    for number in range(90):
        page.take(ActuatorRecord(actuator="arm", event=applied(1000 * S + number * S // 30, 1.0 + number)))
    page.take(ActuatorRecord(actuator="arm", event=applied(1003 * S, sensor=False)))
    dropped = {"good": {"stale": 7}}
    health = Health(
        process="actuate@arm", pid=1, state="running", progress=1, at_ns=1003 * S, detail="armed", dropped=dropped
    )
    console = Console(width=140, record=True, file=StringIO())
    console.print(page.draw(Processes(healths=[health], age_ms=[2.5]), "waiting for the gateway"))
    text = console.export_text()
    assert "arm       good   30.0  46.0    90.0" in text
    assert "actuate@arm  running  2       armed         good 7 stale" in text
    assert "waiting for the gateway" in text
