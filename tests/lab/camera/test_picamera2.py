"""A real Picamera2 feeds the whole daemon: `make lab`."""

from __future__ import annotations

import itertools
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from tests.configs import acting
from tests.lab.camera.root import CameraRoot, why_not
from tests.packages import full_frame_package

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900), pytest.mark.skipif(bool(why_not()), reason=why_not())]

CONFIG = f"""
[daemon]
name = "lab"
runtime = "/dev/shm/lab"
state = "/lab/state"
[sources.cam]
kind = "picamera2"
camera = "Virtual0"
width = 640
height = 480
fps = 30.0
format = "yuv420"
{acting("driver", "servo")}
"""
RUN = "python3 -m daemon.cli run /lab/lab.toml --plain"
SECONDS = 60
STARTS = 20
PERIOD_MS = 1000 / 30
EDGE = 8
"""Columns between two bars that may be like a third: chroma is shared by two, and the camera blurs."""
BARS = ["white", "yellow", "cyan", "green", "magenta", "red", "blue", "black"]
COLOURS = {
    name: np.array([int(digit) * 255 for digit in rgb])
    for name, rgb in zip(BARS, ("111", "110", "011", "010", "101", "100", "001", "000"), strict=True)
}


@pytest.fixture
def root(tmp_path: Path) -> CameraRoot:
    """The root with a configuration and a policy on whole pictures."""
    (tmp_path / "lab.toml").write_text(CONFIG)
    full_frame_package(tmp_path / "package")
    return CameraRoot(tmp_path)


def log_of(root: CameraRoot) -> list[dict[str, Any]]:
    """What the actuator was told because of a picture."""
    lines = (root.folder / "state" / "servo.jsonl").read_text().splitlines()
    return [entry for entry in map(json.loads, lines) if entry["cause"] == "proposal"]


def test_the_camera_is_listed(root: CameraRoot) -> None:
    assert "camera = 0, or 'Virtual0': Virtual Video Device" in root.run("python3 -m daemon.cli sources", 60)


def test_a_minute_of_pictures(root: CameraRoot) -> None:
    root.run(f"{RUN} --for {SECONDS + 3} --json /lab/out.json", SECONDS + 60)
    agent = json.loads((root.folder / "out.json").read_text())["agents"]["driver"]
    print(f"\n{agent['decisions']} decisions, {agent['rate_hz']}/s, latency {agent['latency_ms']}, {agent['dropped']}")
    entries = log_of(root)
    assert len(entries) > 0.95 * SECONDS * 1000 / PERIOD_MS
    stamps = [entry["sensor_ns"] for entry in entries]
    steps_ms = [(after - before) / 1e6 for before, after in itertools.pairwise(stamps)]
    ages_ms = [(entry["t_ns"] - entry["sensor_ns"]) / 1e6 for entry in entries]
    assert min(steps_ms) > 0
    assert abs(statistics.median(steps_ms) - PERIOD_MS) < 1
    assert min(ages_ms) > 0
    assert statistics.median(ages_ms) < PERIOD_MS, "the sensor's time is that of the monotonic clock"


def test_twenty_starts_leave_nothing_behind(root: CameraRoot) -> None:
    left = "ls /dev/shm/lab/rings /dev/shm/lab | grep -v -e locks -e rings -e ':' -e '^$' || true"
    processes = "echo processes $(cat /proc/[0-9]*/comm | grep -c -e python -e reflexd)"
    once = f"{RUN} --for 3 --json /lab/out-$i.json; {left}; {processes}"
    said = root.run(f"for i in $(seq {STARTS}); do {once}; done", STARTS * 15)
    assert [line for line in said.splitlines() if line.startswith("processes ")] == ["processes 0"] * STARTS
    decisions = [
        json.loads((root.folder / f"out-{number}.json").read_text())["agents"]["driver"]["decisions"]
        for number in range(1, STARTS + 1)
    ]
    print(f"\ndecisions of each run of 3 s: {decisions}")
    assert min(decisions) > 20
    assert not [line for line in said.splitlines() if "/dev/shm/lab/" in line or line.startswith("cam.")]


def test_a_snapshot_shows_the_bars(root: CameraRoot) -> None:
    snapshot = "python3 -m daemon.cli snapshot cam --config /lab/lab.toml -o /lab/cam.png"
    root.run(f"{RUN} --for 8 & sleep 4; {snapshot}; wait", 60)
    with Image.open(root.folder / "cam.png") as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    seen = [nearest(pixels[pixels.shape[0] // 2, column]) for column in range(pixels.shape[1])]
    bars = [name for name, run in itertools.groupby(seen) if len(list(run)) > EDGE]
    start = bars.index("white")
    turned = bars[start:] + bars[:start]  # the picture moves to the left, and comes in again on the right
    assert [name for name, _ in itertools.groupby(turned)] in (BARS, [*BARS, "white"]), bars


def nearest(pixel: NDArray[np.int_]) -> str:
    """The colour of a bar that is most like this one."""
    return min(COLOURS, key=lambda name: int(np.abs(COLOURS[name] - pixel).sum()))
