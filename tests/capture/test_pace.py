"""Pictures come when they are due, never sooner, and a pause is not made up for by a burst."""

from __future__ import annotations

import time
from threading import Event, Thread

from daemon.capture.pace import SHORT_S, Pace

STEP_NS = 20_000_000


def test_never_sooner_than_due() -> None:
    pace, began_ns = Pace(Event()), time.monotonic_ns()
    moments = [pace.wait(STEP_NS) for _ in range(11)]
    assert all(moment >= began_ns + number * STEP_NS for number, moment in enumerate(moments))
    assert time.monotonic_ns() >= moments[-1]


def test_after_a_pause_it_goes_on_from_now() -> None:
    pace = Pace(Event())
    pace.wait(STEP_NS)
    time.sleep(5 * STEP_NS / 1e9)
    late = pace.wait(STEP_NS)
    assert pace.late == 1
    assert pace.wait(STEP_NS) - late >= STEP_NS


def test_the_stop_ends_a_long_wait() -> None:
    stop = Event()
    pace = Pace(stop)
    pace.wait(0)
    waiting = Thread(target=pace.wait, args=[round((SHORT_S + 3600) * 1e9)])
    waiting.start()
    stop.set()
    waiting.join(20)
    assert not waiting.is_alive()
