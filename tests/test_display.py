"""What people see of a run: lines, status, the live view, and terminals that do not read."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from daemon.child import LINES_PER_SECOND, MAX_LINE_BYTES, OutputLines
from daemon.display import KEPT_LINES, Display, PlainScreen, status_line
from daemon.frames import RingWriter
from daemon.picture import Picture, fit_cells, half_blocks
from daemon.plan import Plan
from daemon.statistics import Report
from daemon.view import LiveView, Rates
from daemon.views import Crop, View
from tests import stand_in
from tests.infer.manifests import manifest

SECOND = 1_000_000_000


def report(seconds: float = 12.0, decisions: int = 300, **changes: Any) -> Report:
    agent = {
        "source": "pong",
        "decisions": decisions,
        "rate_hz": 29.97,
        "latency_ms": {"p50": 3.21, "p99": 9.87, "max": 20.0},
        "dropped": {"superseded": 2, "deadline": 1},
        "valve": "armed",
        "score": -3,
        "game": {"points": [4, 7], "over": False, "finished": [5, -21]},
    }
    process = {"rss_mb": 41.0, "cpu_percent": 3.0, "restarts": 2, "state": "degraded"}
    return {"seconds": seconds, "agents": {"player": agent | changes}, "processes": {"infer": process}}


# --- lines ---


def test_output_is_cut_into_lines_that_name_their_process() -> None:
    lines = OutputLines("infer")
    assert lines.take(b"INFO infer: ready\nTraceb", 0) == ["INFO infer: ready"]
    assert lines.take(b"ack\n\n", 1) == ["infer: Traceback"]
    lines.take(b"the end", 2)
    assert lines.flush() == ["infer: the end"]
    assert lines.flush() == []


def test_more_lines_than_a_second_may_have_are_counted() -> None:
    lines = OutputLines("infer")
    lines.take(b"", SECOND)
    assert len(lines.take(b"noise\n" * (LINES_PER_SECOND + 7), SECOND + 1)) == LINES_PER_SECOND
    assert lines.take(b"", SECOND + 2) == []
    assert lines.take(b"quiet\n", 3 * SECOND) == [
        f"infer: 7 more lines left out (it may write {LINES_PER_SECOND} a second)",
        "infer: quiet",
    ]


def test_a_line_without_end_is_cut() -> None:
    lines = OutputLines("infer")
    found = lines.take(b"x" * (MAX_LINE_BYTES + 1), 0)
    assert [len(line) for line in found] == [MAX_LINE_BYTES + len("infer: ")]
    assert lines.flush() == []


def test_bytes_that_are_no_text_do_no_harm() -> None:
    assert OutputLines("infer").take(b"\xff\xfe\n", 0) == ["infer: \ufffd\ufffd"]


def test_the_status_line_names_agents_drops_and_what_is_not_well() -> None:
    line = status_line(report())
    assert line == (
        "12 s | player: 300 decisions, 30.0/s, 3.2/9.9 ms p50/p99, score -3, "
        "dropped: deadline 1, superseded 2 [armed] | infer degraded"
    )


def test_lines_and_status_reach_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        kept: list[str] = []
        display = Display(lambda: PlainScreen(file.fileno()), 0.01, kept.append)
        display.say("first")
        display.show(report(seconds=5.0))
        time.sleep(0.1)
        display.say("last")
        display.close()
    lines = path.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("first", "last")
    assert lines[1].startswith("5 s | player")
    assert len(lines) == 3
    assert kept == ["first", "last"]


def test_a_reader_that_has_stopped_blocks_nobody_and_learns_what_it_has_missed() -> None:
    kept: list[str] = []
    reading, writing = os.pipe()
    display = Display(lambda: PlainScreen(writing), 0.01, kept.append)
    start = time.monotonic()
    for number in range(KEPT_LINES + 5000):
        display.say(f"{number} " + "x" * 100)
        time.sleep(0 if number % 100 else 0.002)
    display.close()
    assert time.monotonic() - start < 5
    text = b""
    while select.select([reading], [], [], 0.3)[0]:
        text += os.read(reading, 65536)
    os.close(reading)
    os.close(writing)
    assert b"lines lost: this terminal is too slow for them" in text


def test_a_reader_that_has_gone_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    kept: list[str] = []
    display = Display(lambda: PlainScreen(writing), 0.01, kept.append)
    display.say("nobody hears this")
    time.sleep(0.05)
    display.close()
    os.close(writing)


# --- pictures ---


@pytest.mark.parametrize(
    ("width", "height", "columns", "rows", "cells"),
    [
        (80, 80, 40, 50, (40, 20)),
        (80, 160, 40, 50, (40, 40)),
        (80, 160, 40, 20, (20, 20)),
        (640, 480, 40, 50, (40, 15)),
        (16, 16, 40, 50, (16, 8)),
        (4096, 1, 10, 10, (10, 1)),
    ],
)
def test_a_picture_fits_its_box_and_keeps_its_shape(
    width: int, height: int, columns: int, rows: int, cells: tuple[int, int]
) -> None:
    assert fit_cells(View(width, height, "gray8"), columns, rows) == cells


def test_two_pixel_rows_make_a_line() -> None:
    picture = Image.new("RGB", (3, 4))
    picture.paste((255, 255, 255), (0, 0, 3, 1))
    console = Console(width=20, color_system="truecolor", force_terminal=True)
    with console.capture() as capture:
        console.print(half_blocks(picture))
    lines = capture.get().splitlines()
    assert [line.count("▀") for line in lines if line] == [3, 3]
    assert "38;2;248;248;248;48;2;0;0;0" in lines[0]


def test_a_picture_follows_a_ring_that_is_made_anew(tmp_path: Path) -> None:
    view, path = View(16, 16, "gray8"), tmp_path / "ring"
    picture = Picture(path, view)
    assert picture.render(40, 40) is None
    first = RingWriter(path, view, 3, epoch=1)
    assert picture.render(40, 40) is None
    first.write(np.zeros(view.shape, np.uint8), 1)
    dark = picture.render(40, 40)
    first.close()
    second = RingWriter(path, view, 3, epoch=2)
    second.write(np.full(view.shape, 255, np.uint8), 2)
    bright = picture.render(40, 40)
    second.close()
    assert dark is not None
    assert bright is not None
    assert dark.segments != bright.segments
    assert picture.render(40, 40) is None
    picture.close()


def test_a_squeezed_view_is_shown_in_the_shape_of_its_crop() -> None:
    assert fit_cells(View(80, 160, "gray8", Crop(0, 34, 160, 160)), 40, 50) == (40, 20)


# --- the live view ---


@contextmanager
def terminal(columns: int, rows: int) -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


def shown(ours: int) -> str:
    data = b""
    while select.select([ours], [], [], 0.2)[0]:
        data += os.read(ours, 65536)
    return data.decode()


@pytest.mark.parametrize(("columns", "rows", "picture"), [(140, 45, True), (80, 45, True), (40, 16, False)])
def test_the_live_view_shows_agents_processes_log_and_picture(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, columns: int, rows: int, picture: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    runtime = stand_in.folder_of(run_folder)
    runtime.create()
    config = stand_in.plan(run_folder).config
    plan = Plan(Path("/none.toml"), config, {"player": manifest()})
    view = plan.views("pong")[0]
    ring = RingWriter(runtime.ring("pong", view), view, 3, epoch=1)
    ring.write(np.full(view.shape, 99, np.uint8), 1)
    with terminal(columns, rows) as (ours, theirs):
        live = LiveView(plan, runtime, theirs)
        live.draw(["INFO run: infer started"], None)
        shown(ours)
        live.draw([], report())
        text = shown(ours)
        live.close(["INFO run: the end"])
        after = shown(ours)
    ring.close()
    assert all(word in text for word in ("player", "armed", "superseded 2", "infer", "degraded", "started"))
    assert ("▀" in text) == picture
    assert ("4:7" in text) == picture
    assert "INFO run: the end" in after


def test_the_rate_shown_is_that_of_the_last_moment() -> None:
    rates = Rates()
    rates.take(report(seconds=10.0, decisions=300))
    assert rates.of("player") == 0.0
    later = report(seconds=12.0, decisions=310)
    rates.take(later)
    rates.take(later)
    assert rates.of("player") == 5.0
