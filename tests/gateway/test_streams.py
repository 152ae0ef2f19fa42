"""Streams: what was there before is kept and not published again; what comes is numbered on from it."""

from __future__ import annotations

from daemon.gateway.streams import MARK_EVERY_NS, Streams
from daemon.messages import Message
from daemon.remote import LogRecord, StreamMark, StreamRecord


def record(text: str) -> LogRecord:
    return LogRecord(at_us=1, level="INFO", process="infer", text=text)


def test_the_log_of_before_is_no_news() -> None:
    published: list[Message] = []
    streams = Streams(7, lambda _, message: published.append(message))
    streams.load("log", [record("one"), record("two")])
    assert published == []
    streams.add("log", record("three"))
    assert published == [StreamRecord(stream="log", epoch=7, number=3, record=record("three"))]
    assert [kept.number for kept in streams.books["log"].between(1, 9)] == [1, 2, 3]


def test_marks_say_the_last_number_of_each_stream_once_a_second() -> None:
    published: list[Message] = []
    streams = Streams(7, lambda _, message: published.append(message))
    streams.load("log", [record("one")])
    for now_ns in (1, 2, MARK_EVERY_NS, 2 * MARK_EVERY_NS):
        streams.mark(now_ns)
    marks = [message for message in published if isinstance(message, StreamMark)]
    assert [(mark.stream, mark.number) for mark in marks] == [("log", 1), ("telemetry", 0)] * 2
