"""Figures for Prometheus: what is counted, under which names, and that they are on this machine's own address alone."""

from __future__ import annotations

import re
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from daemon.config import ConfigError
from daemon.gateway.answers import Healths
from daemon.gateway.metrics import HOST, Metrics
from daemon.messages import Applied, Health, Refused
from tests.gateway_daemon import free_port

MS = 1_000_000


@pytest.fixture
def served() -> Iterator[tuple[Metrics, Healths, int]]:
    port, healths = free_port(), Healths()
    metrics = Metrics(port, healths)
    yield metrics, healths, port
    metrics.close()


def scrape(port: int) -> dict[tuple[str, tuple[str, ...]], float]:
    """Sample name and label values, in the order of the labels' names, to value."""
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value for sample in samples
    }


def applied(**fields: object) -> Applied:
    given: dict[str, object] = {"seq": 1, "applied_ns": 30 * MS, "cause": "proposal", "agent": "a", **fields}
    return Applied(**given)  # type: ignore[arg-type]


def test_what_actuators_do_is_counted_and_timed(served: tuple[Metrics, Healths, int]) -> None:
    metrics, _, port = served
    metrics.count("arm", applied(sensor_ns=26 * MS, forward_ns=MS))
    metrics.count("arm", applied(sensor_ns=0, cause="deadman", agent=""))
    metrics.count("arm", Refused(agent="a", reason="stale", detail="", sensor_ns=1, refused_ns=2))
    seen = scrape(port)
    assert seen["reflexd_applied_total", ("arm", "a", "proposal")] == 1
    assert seen["reflexd_applied_total", ("arm", "", "deadman")] == 1
    assert seen["reflexd_refused_total", ("arm", "a", "stale")] == 1
    assert seen["reflexd_latency_seconds_sum", ("arm", "a")] == pytest.approx(0.004)
    assert seen["reflexd_latency_seconds_count", ("arm", "a")] == 1, "a dead-man has no frame behind it"
    assert seen["reflexd_forward_seconds_sum", ("arm", "a")] == pytest.approx(0.001)


def test_the_last_word_of_a_process_is_shown(served: tuple[Metrics, Healths, int]) -> None:
    _, healths, port = served
    counts, dropped = {"a": {"decided": 7}}, {"a": {"deadline": 2}}
    healths.take(Health(process="infer", pid=1, state="running", progress=1, at_ns=0, counts=counts, dropped=dropped))
    seen = scrape(port)
    assert seen["reflexd_state", ("infer", "running")] == 1
    assert seen["reflexd_work_total", ("a", "infer", "decided")] == 7
    assert seen["reflexd_dropped_total", ("a", "infer", "deadline")] == 2
    assert seen["reflexd_health_age_seconds", ("infer",)] > 0
    healths.take(Health(process="infer", pid=1, state="waiting", progress=1, at_ns=0))
    assert ("reflexd_state", ("infer", "running")) not in scrape(port)


def test_nobody_from_outside_can_connect(served: tuple[Metrics, Healths, int]) -> None:
    port = served[2]
    own = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), port, socket.AF_INET, socket.SOCK_STREAM)}
    for address in own - {HOST} - {"127.0.1.1"}:
        with pytest.raises(OSError), socket.create_connection((str(address), port), timeout=2):
            pass


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"gateway.metrics_port = {port}: 127.0.0.1: .*in use"):
            Metrics(port, Healths())


def test_the_page_names_every_figure_and_no_other(served: tuple[Metrics, Healths, int]) -> None:
    metrics, healths, port = served
    metrics.count("arm", applied(sensor_ns=26 * MS, forward_ns=MS))
    metrics.count("arm", Refused(agent="a", reason="stale", detail="", sensor_ns=1, refused_ns=2))
    counts = {"a": {"decided": 7}}
    healths.take(
        Health(process="infer", pid=1, state="running", progress=1, at_ns=0, counts=counts, dropped={"a": {"torn": 1}})
    )
    shown = {re.sub("_(bucket|sum|count|created)$", "", name) for name, _ in scrape(port)}
    page = (Path(__file__).parents[2] / "docs/gateway.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `(reflexd_\w+)`", page, re.MULTILINE))
    counters = {name.removesuffix("_total") for name in shown if name.endswith("_total")}
    assert shown - counters == documented
