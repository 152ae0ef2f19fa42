"""Admission: the bound is right where it is known, and the refusal has the numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.config import Actuator, Agent, Config, Daemon, Infer
from daemon.infer.admission import CHAIN_MS, admit, response_ms


def config(workers: int = 1, threads: int = 1, **agents: tuple[int, float, float]) -> Config:
    """Agents as name = (priority, rate_hz, deadline_ms)."""
    return Config(
        daemon=Daemon(name="test"),
        infer=Infer(workers=workers, threads=threads),
        actuators={"a": Actuator(driver="log", deadman_ms=1000.0, actions=["X"], neutral="X")},
        agents={
            name: Agent(
                package="p", source="s", actuator="a", priority=p, rate_hz=r, deadline_ms=d, max_age_ms=60_000.0
            )
            for name, (p, r, d) in agents.items()
        },
    )


def test_one_agent_takes_its_own_time_and_the_chain() -> None:
    assert response_ms(config(one=(5, 30, 33)), {"one": 7.0}, "one") == pytest.approx(7.0 + CHAIN_MS)


def test_urgent_agent_waits_for_one_blocking_inference_only() -> None:
    both = config(urgent=(9, 10, 100), slow=(1, 10, 400), slower=(1, 1, 1000))
    assert response_ms(both, {"urgent": 2, "slow": 10, "slower": 300}, "urgent") == pytest.approx(302 + CHAIN_MS)


def test_every_higher_arrival_counts_while_waiting() -> None:
    both = config(fast=(9, 100, 10), low=(1, 5, 200))
    times = {"fast": 4.0, "low": 30.0}
    assert response_ms(both, times, "low") == pytest.approx(34.0 + CHAIN_MS)
    assert response_ms(config(fast=(9, 100, 10), low=(1, 5, 200)), times, "fast") == pytest.approx(34.0 + CHAIN_MS)


def test_refusals_name_the_agent_and_the_numbers() -> None:
    assert admit(config(one=(5, 30, 33)), {"one": 5.0}) == []
    (complaint,) = admit(config(one=(5, 30, 33)), {"one": 31.0})
    assert "agents.one: may take 34.0 ms, its deadline is 33.0 ms (own inference 31.0)" in complaint
    (complaint,) = admit(config(one=(5, 30, 33)), {"one": 40.0})
    assert "need 1.20 of 1 workers" in complaint


def test_more_threads_than_cores_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert admit(config(2, 2, one=(5, 30, 33)), {"one": 1.0}) == []
    (complaint,) = admit(config(2, 3, one=(5, 30, 33)), {"one": 1.0})
    assert "2 workers x 3 threads on 4 cores" in complaint


@given(st.floats(0.1, 20), st.floats(0.1, 20), st.integers(0, 9), st.integers(0, 9))
def test_more_work_never_makes_it_faster(own: float, other: float, mine: int, theirs: int) -> None:
    both = config(a=(mine, 10, 100), b=(theirs, 10, 100))
    alone = response_ms(both, {"a": own}, "a")
    shared = response_ms(both, {"a": own, "b": other}, "a")
    assert alone <= shared <= response_ms(both, {"a": own, "b": other + 1}, "a")
    assert math.isfinite(shared)
