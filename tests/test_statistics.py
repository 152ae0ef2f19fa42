"""Statistics of a run from its messages."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.config import Config
from daemon.distribution import EXACT_US, LONGEST_US, Distribution
from daemon.messages import Applied, Drop, Health, Refused, WorldState
from daemon.statistics import FoldedCounts, Report, Samples, Statistics

MS = 1_000_000
CONFIG = msgspec.convert(
    {
        "daemon": {"name": "t"},
        "worlds": {"pong": {"game": "pong"}},
        "sources": {"front": {"kind": "synthetic"}},
        "agents": {
            "player": {"package": "p", "source": "pong", "actuator": "paddle"},
            "driver": {"package": "p", "source": "front", "actuator": "wheels"},
        },
        "actuators": {
            "paddle": {"driver": "simulated", "world": "pong", "deadman_ms": 200.0},
            "wheels": {"driver": "log", "deadman_ms": 200.0},
        },
    },
    Config,
)


def applied(seq: int, latency_ms: float = 5.0, forward_ms: float = 2.0, agent: str = "player") -> Applied:
    at_ns = 1_000 * MS + seq * 20 * MS
    return Applied(
        seq=seq,
        applied_ns=at_ns,
        cause="proposal",
        agent=agent,
        sensor_ns=at_ns - round(latency_ms * MS),
        forward_ns=round(forward_ms * MS),
    )


def refused(reason: Drop = "stale") -> Refused:
    return Refused(agent="player", reason=reason, detail="", sensor_ns=0, refused_ns=1)


def health(process: str, pid: int, dropped: dict[str, dict[str, int]], detail: str = "") -> Health:
    return Health(process=process, pid=pid, state="running", progress=1, at_ns=0, detail=detail, dropped=dropped)


def agent(statistics: Statistics, name: str = "player") -> Report:
    found: Report = statistics.report()["agents"][name]
    return found


def test_an_agent_without_messages_has_no_times_and_no_score() -> None:
    found = agent(Statistics(CONFIG))
    assert found["decisions"] == 0
    assert found["rate_hz"] == 0.0
    assert found["latency_ms"] == {"p50": None, "p99": None, "max": None}
    assert (found["score"], found["game"], found["dropped"], found["valve"]) == (None, None, {}, "")


def test_latency_forward_and_overhead() -> None:
    statistics = Statistics(CONFIG)
    for seq in range(100):
        statistics.applied("paddle", applied(seq, latency_ms=float(seq + 1), forward_ms=0.5))
    found = agent(statistics)
    assert found["latency_ms"]["p50"] == pytest.approx(50.5, rel=1e-3)
    assert found["latency_ms"]["p99"] == pytest.approx(99.01, rel=1e-3)
    assert found["latency_ms"]["max"] == 100.0
    assert found["forward_ms"] == {"p50": 0.5, "p99": 0.5}
    assert found["overhead_ms"]["p50"] == pytest.approx(50.0, rel=1e-3)
    assert found["decisions"] == 100
    assert found["rate_hz"] == pytest.approx(50.0)


def test_overhead_takes_each_frame_s_own_forward_time() -> None:
    statistics = Statistics(CONFIG)
    for seq in range(50):
        statistics.applied("paddle", applied(seq, latency_ms=float(seq + 3), forward_ms=float(seq)))
    assert agent(statistics)["overhead_ms"] == pytest.approx({"p50": 3.0, "p99": 3.0}, rel=1e-3)


@pytest.mark.parametrize("cause", ["start", "stop", "deadman", "estop", "disarm", "driver"])
def test_neutral_writes_are_no_decisions(cause: str) -> None:
    statistics = Statistics(CONFIG)
    statistics.applied("paddle", msgspec.structs.replace(applied(1), cause=cause, agent=""))
    assert agent(statistics)["decisions"] == 0
    assert statistics.report()["actuators"]["paddle"]["applied"] == {cause: 1}


def test_a_clamped_action_is_a_decision() -> None:
    statistics = Statistics(CONFIG)
    statistics.applied("paddle", msgspec.structs.replace(applied(1), cause="clamped"))
    assert agent(statistics)["decisions"] == 1


def test_a_refused_proposal_shows_that_the_agent_decides() -> None:
    statistics = Statistics(CONFIG)
    before = statistics.agents["player"].decided
    statistics.applied("paddle", refused("disarmed"))
    assert (before, statistics.agents["player"].decided) == (False, True)
    assert agent(statistics)["decisions"] == 0


def test_an_unknown_agent_changes_nothing() -> None:
    statistics = Statistics(CONFIG)
    statistics.applied("paddle", applied(1, agent="stranger"))
    assert [one["decisions"] for one in statistics.report()["agents"].values()] == [0, 0]


def test_the_first_action_is_the_first_of_any_agent_and_no_neutral() -> None:
    statistics = Statistics(CONFIG)
    statistics.applied("wheels", msgspec.structs.replace(applied(1), cause="start", agent=""))
    assert statistics.first_action_ns is None
    for seq, name in ((9, "driver"), (5, "player"), (10, "player")):
        statistics.applied("paddle", applied(seq, agent=name))
    assert statistics.first_action_ns == applied(5).applied_ns


def test_missed_messages_are_counted_and_a_restarted_actuator_is_not_a_gap() -> None:
    statistics = Statistics(CONFIG)
    for seq in (5, 6, 9, 0, 1):
        statistics.applied("paddle", applied(seq))
    assert statistics.report()["actuators"]["paddle"]["missed"] == 2


def test_drops_of_infer_and_actuate_are_merged() -> None:
    statistics = Statistics(CONFIG)
    statistics.health(health("infer", 10, {"player": {"superseded": 3, "deadline": 1}, "driver": {"torn": 1}}))
    statistics.health(health("actuate@paddle", 11, {"player": {"stale": 2, "deadline": 1}}))
    assert agent(statistics)["dropped"] == {"deadline": 2, "stale": 2, "superseded": 3}
    assert agent(statistics, "driver")["dropped"] == {"torn": 1}


def test_counters_go_on_over_a_restart() -> None:
    statistics = Statistics(CONFIG)
    for pid, count in ((10, 3), (10, 5), (12, 0), (12, 2), (13, 1)):
        statistics.health(health("infer", pid, {"player": {"superseded": count}}))
    assert agent(statistics)["dropped"] == {"superseded": 8}


def test_drops_that_are_no_agent_s_stay_with_the_process() -> None:
    statistics = Statistics(CONFIG)
    statistics.health(health("actuate@paddle", 11, {"(unknown)": {"foreign": 4}, "player": {"stale": 1}}))
    assert statistics.process("actuate@paddle")["dropped"] == {"(unknown)": {"foreign": 4}}
    assert statistics.process("capture@none") == {"counts": {}, "dropped": {}}


def test_the_valve_of_an_agent_is_its_actuator_s() -> None:
    statistics = Statistics(CONFIG)
    statistics.health(health("actuate@paddle", 11, {}, "armed"))
    statistics.health(health("infer", 12, {}, "not a valve"))
    assert agent(statistics)["valve"] == "armed"
    assert agent(statistics, "driver")["valve"] == ""


def test_the_score_is_that_of_the_agent_s_world() -> None:
    statistics = Statistics(CONFIG)
    state = WorldState(tick=1, at_ns=1, points=[7, 21], finished=[3, -14], over=True, in_force="NOOP", late=0)
    statistics.world("pong", state)
    found = agent(statistics)
    assert found["score"] == -14
    assert found["game"] == {"points": [7, 21], "over": True, "finished": [3, -14]}
    assert agent(statistics, "driver")["score"] is None


def test_a_report_is_plain_json() -> None:
    statistics = Statistics(CONFIG)
    statistics.applied("paddle", applied(1))
    assert json.loads(json.dumps(statistics.report())) == statistics.report()


def test_the_largest_latency_is_kept_as_it_was() -> None:
    samples = Samples()
    for latency_ms in (1.5, 123_456.789, 2.0):
        samples.add(latency_ms, 1.0)
    assert samples.report()["latency_ms"] == {"p50": 2.0, "p99": pytest.approx(65_768, rel=1e-3), "max": 123_456.789}


def test_folded_counts_keep_zeros_and_keys_of_earlier_lives() -> None:
    counts = FoldedCounts()
    counts.update(1, {"a": {"x": 1, "y": 0}})
    counts.update(2, {"b": {"x": 2}})
    assert counts.total() == {"a": {"x": 1, "y": 0}, "b": {"x": 2}}


@given(st.lists(st.floats(0.0, LONGEST_US / 1e3), min_size=1), st.floats(0.0, 100.0))
def test_percentiles_are_those_of_the_durations(durations_ms: list[float], percent: float) -> None:
    distribution = Distribution()
    for duration_ms in durations_ms:
        distribution.add(duration_ms)
    (found,) = distribution.percentiles(percent)
    assert found == pytest.approx(float(np.percentile(durations_ms, percent)), rel=1 / 1024, abs=1.01e-3)


@given(st.integers(0, EXACT_US - 1))
def test_short_durations_are_exact_to_the_microsecond(us: int) -> None:
    distribution = Distribution()
    distribution.add(us / 1e3)
    assert distribution.percentiles(0, 50, 100) == [us / 1e3] * 3


def test_a_duration_below_zero_or_beyond_the_table_is_counted_at_its_end() -> None:
    distribution = Distribution()
    distribution.add(-1.0)
    distribution.add(1e9)
    assert distribution.percentiles(0, 100) == [0.0, pytest.approx(LONGEST_US / 1e3, rel=1e-3)]
    assert Distribution().percentiles(50) == [None]
