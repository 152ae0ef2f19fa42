"""Figures for Prometheus, over HTTP on this machine alone; docs/gateway.md names each.

prometheus-client serves them from a thread of its own. What counts up is counted here as it comes; what processes say
of themselves is taken from their last word when somebody looks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from daemon.config import ConfigError
from daemon.messages import Applied, Refused

if TYPE_CHECKING:
    from daemon.gateway.answers import Healths

HOST = "127.0.0.1"
BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.033, 0.05, 0.1, 0.2, 0.5)
"""From an inference of a small policy to the oldest frame that a valve may be told to take."""


class Metrics:
    """The figures and the server that shows them.

    Args:
        port: TCP port.
        healths: the last word of every process.

    Raises:
        ConfigError: the port cannot be had.
    """

    def __init__(self, port: int, healths: Healths) -> None:
        registry = CollectorRegistry()
        registry.register(_Processes(healths))
        self._applied = Counter(
            "reflexd_applied", "Writes to an actuator", ("actuator", "agent", "cause"), registry=registry
        )
        self._refused = Counter(
            "reflexd_refused", "Proposals not let through", ("actuator", "agent", "reason"), registry=registry
        )
        self._latency = Histogram(
            "reflexd_latency_seconds",
            "From the frame's capture to the action's write",
            ("actuator", "agent"),
            buckets=BUCKETS_S,
            registry=registry,
        )
        self._forward = Histogram(
            "reflexd_forward_seconds", "Inside the model", ("actuator", "agent"), buckets=BUCKETS_S, registry=registry
        )
        try:
            self._server, self._thread = start_http_server(port, HOST, registry)
        except OSError as error:
            raise ConfigError(f"gateway.metrics_port = {port}: {HOST}: {error.strerror}: choose another") from None

    def count(self, actuator: str, event: Applied | Refused) -> None:
        """Count what an actuator did, or did not let through."""
        if isinstance(event, Refused):
            self._refused.labels(actuator, event.agent, event.reason).inc()
            return
        self._applied.labels(actuator, event.agent, event.cause).inc()
        if event.sensor_ns and event.cause in ("proposal", "clamped"):
            self._latency.labels(actuator, event.agent).observe((event.applied_ns - event.sensor_ns) / 1e9)
        if event.forward_ns:
            self._forward.labels(actuator, event.agent).observe(event.forward_ns / 1e9)

    def close(self) -> None:
        """Stop serving."""
        with suppress(OSError):
            self._server.shutdown()
            self._server.server_close()
        self._thread.join(1.0)


class _Processes(Collector):
    """What processes said last."""

    def __init__(self, healths: Healths) -> None:
        self._healths = healths

    def collect(self) -> Iterator[Metric]:
        """All figures; called in the server's thread."""
        report = self._healths.report(time.monotonic_ns())
        age = GaugeMetricFamily("reflexd_health_age_seconds", "Since the process's last word", labels=("process",))
        state = GaugeMetricFamily("reflexd_state", "1 for the state the process is in", labels=("process", "state"))
        counts = CounterMetricFamily("reflexd_work", "What a process counts", labels=("process", "part", "what"))
        dropped = CounterMetricFamily("reflexd_dropped", "What went no further", labels=("process", "part", "reason"))
        for health, age_ms in zip(report.healths, report.age_ms, strict=True):
            age.add_metric((health.process,), age_ms / 1e3)
            state.add_metric((health.process, health.state), 1.0)
            for family, parts in ((counts, health.counts), (dropped, health.dropped)):
                for part, figures in parts.items():
                    for what, number in figures.items():
                        family.add_metric((health.process, part, what), number)
        return iter((age, state, counts, dropped))
