"""Replies and records as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from daemon.messages import Applied
from daemon.remote import (
    ActuatorRecord,
    HealthRecord,
    LogRecord,
    Models,
    Numbered,
    Outcomes,
    Processes,
    Records,
    Reply,
)


def reply_lines(reply: Reply) -> Iterator[str]:
    """What came of a request."""
    result = reply.result
    if isinstance(result, Outcomes):
        for outcome in result.outcomes:
            state = f" | {outcome.state}" if outcome.state else ""
            yield f"{outcome.target}: {outcome.status}: {outcome.detail}{state}"
    elif isinstance(result, Processes):
        yield from _processes(result)
    elif isinstance(result, Records):
        yield from map(record_line, result.records)
    elif isinstance(result, Models):
        for model in result.models:
            what = model.detail or f"{model.model}, {model.bytes} bytes, sha256 {model.sha256[:16]}"
            yield f"{model.package}: {what}"
    else:
        yield reply.detail or reply.status


def _processes(result: Processes) -> Iterator[str]:
    for health, age_ms in zip(result.healths, result.age_ms, strict=True):
        age = f", last heard of {age_ms / 1e3:.1f} s ago" if age_ms > 1000 else ""
        parts = [f"{part} {number} {what}" for part, counts in health.counts.items() for what, number in counts.items()]
        drops = [f"{part} {number} {why}" for part, counts in health.dropped.items() for why, number in counts.items()]
        dropped = f"; dropped: {', '.join(drops)}" if drops else ""
        text = ", ".join(filter(None, (health.detail, *parts)))
        yield f"{health.process}: {health.state}{age}: {text}{dropped}"


def record_line(numbered: Numbered) -> str:
    """One record."""
    record = numbered.record
    if isinstance(record, LogRecord):
        lost = f" [{record.lost} lost]" if record.lost else ""
        return f"{_clock(record.at_us)} {record.level:<7} {record.process}: {record.text}{lost}"
    if isinstance(record, HealthRecord):
        return f"{record.health.process}: {record.health.state}: {record.health.detail}"
    return _event(record)


def _event(record: ActuatorRecord) -> str:
    event = record.event
    if not isinstance(event, Applied):
        return f"{record.actuator}: {event.agent} refused: {event.reason}: {event.detail}"
    what = event.action if event.action is not None else event.values
    if not event.sensor_ns:
        return f"{record.actuator}: {what} ({event.cause})"
    age_ms = (event.applied_ns - event.sensor_ns) / 1e6
    return f"{record.actuator}: {what} ({event.cause} of {event.agent}, {age_ms:.1f} ms after its frame)"


def _clock(at_us: int) -> str:
    """Time of the device's wall clock, in this machine's time zone."""
    return datetime.fromtimestamp(at_us / 1e6).astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
