"""The scheduler's promises, by example and by random sequences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from daemon.config import Agent
from daemon.frames import Frame
from daemon.infer.encode import Observation
from daemon.infer.schedule import Scheduler, Waiting

MS = 1_000_000


def agent(priority: int, rate_hz: float = 100.0, deadline_ms: float = 0.0) -> Agent:
    return Agent(
        package="p",
        source="s",
        actuator="a",
        priority=priority,
        rate_hz=rate_hz,
        deadline_ms=deadline_ms,
        max_age_ms=60_000.0,
    )


def seen(at_ms: float, seq: int = 1) -> Observation:
    return Observation("r", 1, [Frame(seq, 0, round(at_ms * MS))])


def anything(_: Waiting) -> bool:
    return True


def order(scheduler: Scheduler, now_ms: float) -> list[str]:
    taken = []
    while (waiting := scheduler.take(round(now_ms * MS), anything)) is not None:
        taken.append(waiting.agent)
    return taken


def test_newest_wins_and_the_superseded_is_told() -> None:
    scheduler = Scheduler({"one": agent(5)}, 500 * MS)
    assert not scheduler.offer("one", seen(0, 1), 0)
    assert scheduler.offer("one", seen(1, 2), MS)
    waiting = scheduler.take(2 * MS, anything)
    assert waiting is not None
    assert waiting.observation.newest.seq == 2
    assert scheduler.take(2 * MS, anything) is None


def test_priority_class_first_then_earliest_deadline() -> None:
    agents = {"low": agent(1, deadline_ms=1), "late": agent(5, deadline_ms=9), "soon": agent(5, deadline_ms=3)}
    scheduler = Scheduler(agents, 500 * MS)
    for name in agents:
        scheduler.offer(name, seen(0), 0)
    assert order(scheduler, 0.5) == ["soon", "late", "low"]


def test_refused_at_the_deadline_and_not_a_nanosecond_earlier() -> None:
    scheduler = Scheduler({"one": agent(5, deadline_ms=10)}, 500 * MS)
    scheduler.offer("one", seen(5), 6 * MS)
    assert scheduler.next_deadline_ns() == 15 * MS
    assert scheduler.expired(15 * MS - 1) == []
    assert [waiting.agent for waiting in scheduler.expired(15 * MS)] == ["one"]
    assert scheduler.take(15 * MS, anything) is None
    assert scheduler.next_deadline_ns() is None


def test_who_cannot_start_is_passed_over() -> None:
    scheduler = Scheduler({"a": agent(9), "b": agent(1)}, 500 * MS)
    scheduler.offer("a", seen(0), 0)
    scheduler.offer("b", seen(0), 0)
    waiting = scheduler.take(0, lambda waiting: waiting.agent == "b")
    assert waiting is not None
    assert waiting.agent == "b"
    assert order(scheduler, 0) == ["a"]


def test_ageing_lifts_the_low_but_never_into_the_top_class() -> None:
    agents = {"top": agent(9, deadline_ms=50_000), "mid": agent(5, deadline_ms=50_000), "low": agent(1, deadline_ms=1)}
    scheduler = Scheduler(agents, 100 * MS)
    scheduler.offer("low", seen(0), 0)
    for name in ("top", "mid"):
        scheduler.offer(name, seen(1000), 1000 * MS)
    scheduler.offer("low", seen(1000), 1000 * MS)
    assert order(scheduler, 1000) == ["top", "low", "mid"]


def test_rate_limits_decisions_with_room_for_jitter() -> None:
    scheduler = Scheduler({"one": agent(5, rate_hz=20.0)}, 500 * MS)
    times = [0, 33.3, 66.7, 100, 133.3, 166.7, 200]
    assert [t for t in times if scheduler.due("one", round(t * MS))] == [0, 66.7, 100, 166.7, 200]


def test_a_source_at_the_agents_own_rate_loses_no_frame_to_jitter() -> None:
    scheduler = Scheduler({"one": agent(5, rate_hz=30.0)}, 500 * MS)
    assert all(scheduler.due("one", round((n * 33.333 + (n * 7919 % 13) - 6) * MS)) for n in range(1, 300))


@given(st.data())
def test_random_traffic_keeps_every_promise(data: st.DataObject) -> None:
    names = ["a", "b", "c"]
    agents = {n: agent(data.draw(st.integers(0, 9)), deadline_ms=data.draw(st.integers(1, 50))) for n in names}
    scheduler = Scheduler(agents, 20 * MS)
    held: dict[str, Observation] = {}
    now = 0
    for seq in range(1, data.draw(st.integers(1, 40))):
        now += data.draw(st.integers(0, 10)) * MS
        for waiting in scheduler.expired(now):
            assert waiting.deadline_ns <= now
            assert held.pop(waiting.agent) == waiting.observation
        if data.draw(st.booleans()):
            name = data.draw(st.sampled_from(names))
            observation = seen(now / MS, seq)
            assert scheduler.offer(name, observation, now) == (name in held)
            held[name] = observation
        else:
            taken = scheduler.take(now, anything)
            assert (taken is None) == (not held)
            if taken is not None:
                assert held.pop(taken.agent) == taken.observation, "not the newest"
                assert taken.deadline_ns > now, "started after its deadline"
                top = max(a.priority for a in agents.values())
                if agents[taken.agent].priority < top:
                    assert all(agents[n].priority < top for n in held), "overtook the top class"
