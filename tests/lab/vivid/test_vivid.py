"""The v4l2 source and the daemon behind it on vivid, the kernel's virtual camera, in a machine of its own: `make lab`.

The machine is emulated, and whatever else its host does slows it down: five pictures a second, and what is asked
for is what happens in which order, rather than how fast.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.configs import acting
from tests.lab.vivid import machine
from tests.lab.vivid.watched import CAMERA, DECISIONS, FPS
from tests.packages import tiny_package

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(bool(machine.why_not()), reason=machine.why_not()),
]

PERIOD_NS = 1e9 / FPS
DEADMAN_MS = 1000.0
MAX_AGE_MS = 800.0
CONFIG = f"""
[daemon]
name = "lab"
runtime = "/dev/shm/lab"
state = "/mnt/results/state"
[sources.cam]
kind = "v4l2"
device = "{CAMERA}"
format = "yuyv"
width = 640
height = 480
fps = {FPS}
{acting("driver", "servo")}
"""
PATIENT = {
    'source = "cam"': f'source = "cam"\nrate_hz = {FPS}\ndeadline_ms = 700.0\nmax_age_ms = {MAX_AGE_MS}',
    "deadman_ms = 250.0": f"deadman_ms = {DEADMAN_MS}",
}
BARS = ("111", "110", "011", "010", "101", "100", "001", "000")
"""White, yellow, cyan, green, magenta, red, blue, black: which of red, green and blue each has."""
BRIGHT = 191
"""75 per cent of 255."""
STEP = 3
"""Vivid cuts its luma and chroma off to whole numbers, and so does the way back round them: so far off, at most."""
EDGE = 2
"""Columns beside an edge between bars in which chroma is that of both."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one boot of the machine has left; the tests look at its parts."""
    folder = tmp_path_factory.mktemp("vivid")
    disk = folder / "disk"
    disk.mkdir()
    config = CONFIG
    for text, patient in PATIENT.items():
        config = config.replace(text, patient)
    (disk / "lab.toml").write_text(config)
    tiny_package(disk / "package")
    return machine.run(folder, disk)


@pytest.fixture
def parts(results: Path) -> dict[str, Any]:
    """What the machine says of each part."""
    found: dict[str, Any] = json.loads((results / "results.json").read_text())
    broken = [part["broken"] for part in found.values() if "broken" in part]
    assert not broken, broken[0]
    return found


@pytest.fixture
def steps(parts: dict[str, Any]) -> dict[str, Any]:
    """What each step did to the running daemon."""
    found: dict[str, Any] = parts["run"]["steps"]
    return found


@pytest.fixture
def actions(results: Path) -> list[dict[str, Any]]:
    """What the actuator was told."""
    lines = (results / "state" / "servo.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def replaced(step: dict[str, Any]) -> bool:
    """Whether the step ended with another capture process; one that stands still for long is."""
    return bool(step["before"]["pid"] != step["after"]["pid"])


def grown(step: dict[str, Any], table: str, key: str) -> int:
    """By how much a counter of the capture process has grown; of a new process, what it counted."""
    began = 0 if replaced(step) else step["before"][table].get(key, 0)
    return int(step["after"][table].get(key, 0)) - int(began)


def within(actions: list[dict[str, Any]], begun_ns: int, end_ns: int) -> Iterator[dict[str, Any]]:
    """What the actuator was told in that time."""
    return (action for action in actions if begun_ns <= action["t_ns"] <= end_ns)


def went_neutral(actions: list[dict[str, Any]], step: dict[str, Any]) -> bool:
    """Whether the dead-man time ran out during a step."""
    causes = {(told["cause"], told["action"]) for told in within(actions, step["begun_ns"], step["end_ns"])}
    return ("deadman", "STAY") in causes


def test_the_camera_is_listed_by_the_name_that_stays_with_the_formats_that_are_read(parts: dict[str, Any]) -> None:
    lines = parts["sources"].splitlines()
    at = lines.index(f"  {CAMERA} (video0, vivid-000-vid-cap)")
    sizes = "320x180 640x360 640x480 1280x720 1920x1080 3840x2160"
    assert lines[at + 1 : at + 3] == [f"    yuyv: {sizes}", f"    nv12: {sizes}"]
    assert lines[at + 3].startswith("    not read: ")
    assert "vivid-000-vid-out): not a camera that can be read: " in lines[at + 4]


@pytest.mark.parametrize("form", ["yuyv", "nv12"])
def test_pictures_have_the_colours_of_the_test_pattern(results: Path, parts: dict[str, Any], form: str) -> None:
    assert parts["formats"][form]["format"] == form
    pixels = np.load(results / f"{form}.npy").astype(int)
    assert pixels.shape == (480, 640, 3)
    below_the_text = pixels[240:]
    for index, bar in enumerate(BARS):
        width = 640 // len(BARS)
        inner = below_the_text[:, index * width + EDGE : (index + 1) * width - EDGE]
        expected = [BRIGHT * int(part) for part in bar]
        assert np.abs(inner - expected).max() <= STEP, (bar, inner[0, 0])


@pytest.mark.parametrize("form", ["yuyv", "nv12"])
def test_pictures_have_the_drivers_times(parts: dict[str, Any], form: str) -> None:
    found = parts["formats"][form]
    taken = [sensor_ns for sensor_ns, _ in found["stamps"]]
    assert all(before < after for before, after in itertools.pairwise(taken))
    assert all(0 < now_ns - sensor_ns < 2 * PERIOD_NS for sensor_ns, now_ns in found["stamps"])
    elapsed = (taken[-1] - taken[0]) / PERIOD_NS
    assert len(taken) - 1 + found["late"] == pytest.approx(elapsed, abs=2), "what is left out is counted"


def test_a_format_it_does_not_have_is_refused(parts: dict[str, Any]) -> None:
    expected = f"SourceFailed: {CAMERA}: Invalid argument: it may not have mjpeg: reflexd sources lists what it has"
    assert parts["formats"]["mjpeg"]["error"] == expected


@pytest.mark.parametrize(("form", "wanted", "given"), [("yuyv", 480_000, 614_400), ("nv12", 360_000, 460_800)])
def test_a_size_it_does_not_have_is_refused(parts: dict[str, Any], form: str, wanted: int, given: int) -> None:
    error = parts["another size"][form]["error"]
    assert f"expected 500x480 {form}, the camera gives {given} bytes for {wanted}: " in error


def test_who_holds_the_camera_is_said_and_it_is_taken_when_it_is_free(parts: dict[str, Any], results: Path) -> None:
    busy = f"source cam: {CAMERA} is busy: held by v4l2-ctl (pid {parts['run']['holder']}): stop that first"
    assert busy in (results / "run.txt").read_text()
    assert parts["run"]["steps"]["busy"]["back"]


def test_a_minute_of_decisions(steps: dict[str, Any], actions: list[dict[str, Any]]) -> None:
    steady = steps["steady"]
    pictures = grown(steady, "counts", "frames") + grown(steady, "counts", "late")
    due = (steady["end_ns"] - steady["begun_ns"]) / PERIOD_NS
    told = [t for t in within(actions, steady["begun_ns"], steady["end_ns"]) if t["cause"] == "proposal"]
    print(f"\n{pictures} pictures of {due:.0f}, {len(told)} decisions, dropped {steady['after']['dropped']}")
    assert pictures == pytest.approx(due, rel=0.1)
    assert len(told) > due / 4
    assert {action["action"] for action in told} == {"LEFT"}, "white, yellow and cyan are on the left"
    stamps = [action["sensor_ns"] for action in told]
    assert all(before < after for before, after in itertools.pairwise(stamps))
    assert all(0 < action["t_ns"] - action["sensor_ns"] < MAX_AGE_MS * 1e6 for action in told)
    assert grown(steady, "counts", "failed") == 0


def test_no_action_outlives_its_dead_man_time(actions: list[dict[str, Any]]) -> None:
    slack_ms = 400.0  # of a machine that stands still for a moment
    gaps_ms = [(after["t_ns"] - before["t_ns"]) / 1e6 for before, after in itertools.pairwise(actions)]
    in_force = [told["action"] for told in actions[:-1]]
    assert max(gap for gap, action in zip(gaps_ms, in_force, strict=True) if action != "STAY") < DEADMAN_MS + slack_ms


def test_the_policy_follows_the_picture(steps: dict[str, Any], actions: list[dict[str, Any]]) -> None:
    mirror = steps["mirror"]
    told = [t["action"] for t in within(actions, mirror["begun_ns"], mirror["end_ns"]) if t["cause"] == "proposal"]
    assert [action for action, _ in itertools.groupby(told)] == ["LEFT", "RIGHT", "LEFT"]


def test_pictures_that_are_lost_now_and_then_do_not_matter(steps: dict[str, Any]) -> None:
    lossy = steps["drop some"]
    pictures = grown(lossy, "counts", "frames") + grown(lossy, "counts", "late")
    assert 0.5 < pictures * PERIOD_NS / (lossy["end_ns"] - lossy["begun_ns"]) < 0.93
    assert lossy["back"]
    assert grown(lossy, "counts", "failed") == 0


def test_a_spoilt_buffer_is_counted_and_the_stream_goes_on(steps: dict[str, Any]) -> None:
    spoilt = steps["spoil one"]
    assert grown(spoilt, "dropped", "empty") == 1
    assert "source cam: empty: an empty buffer, or one that the driver marked as spoilt" in spoilt["said"]
    assert grown(spoilt, "counts", "opened") == 0
    assert spoilt["back"]


def test_a_stream_that_breaks_is_opened_anew(steps: dict[str, Any]) -> None:
    broken = steps["break"]
    assert f"source cam: {CAMERA}: Input/output error" in broken["said"]
    assert not replaced(broken)
    assert grown(broken, "counts", "opened") == grown(broken, "counts", "failed") == 1
    assert broken["back"]


@pytest.mark.parametrize("call", ["streamon", "reqbufs", "qbuf"])
def test_an_opening_that_fails_is_tried_again_by_a_new_process_if_need_be(steps: dict[str, Any], call: str) -> None:
    refused = steps[f"refuse {call}"]
    assert f"source cam: {CAMERA}: Invalid argument" in refused["said"]
    assert "is busy" not in refused["said"]
    assert refused["back"]
    assert replaced(refused) == ("its buffers stay mapped" in refused["said"])
    assert replaced(refused) == (call != "reqbufs"), "there are no buffers yet when they are asked for"


@pytest.mark.parametrize(("name", "reason"), [("freeze", "identical"), ("future", "future")])
def test_a_camera_that_hangs_or_stamps_wrongly_counts_as_none(
    steps: dict[str, Any], actions: list[dict[str, Any]], name: str, reason: str
) -> None:
    faulty = steps[name]
    assert f"source cam: {reason}: " in faulty["said"]
    assert replaced(faulty) or grown(faulty, "dropped", reason) > 0
    assert replaced(faulty) or grown(faulty, "counts", "stalls") == 1
    assert went_neutral(actions, faulty)
    assert faulty["back"]


def test_a_camera_that_is_gone_for_a_moment_comes_back(steps: dict[str, Any]) -> None:
    gone = steps["disconnect"]
    assert f"{CAMERA} is gone: No such device" in gone["said"]
    assert not replaced(gone)
    assert gone["back"]


def test_a_camera_that_is_plugged_in_again_is_found_by_its_path(
    steps: dict[str, Any], actions: list[dict[str, Any]]
) -> None:
    replug = steps["replug"]
    before, after = replug["result"].split()
    assert before != after, "it has another number"
    assert f"{CAMERA} is not there: " in replug["said"]
    assert "waiting for it" in replug["said"]
    assert went_neutral(actions, replug)
    assert replug["back"]
    assert not replaced(replug)


def test_a_snapshot_is_what_the_model_reads(results: Path, steps: dict[str, Any]) -> None:
    assert "16x16-gray8 of cam" in steps["snapshot"]["result"]
    with Image.open(results / "cam.png") as picture:
        row = np.asarray(picture)[-1].astype(int)
    assert len(row) == 2 * len(BARS)
    assert (np.diff(row[::2]) < 0).all(), "the bars stand in the order of their luma"


def test_every_step_ends_with_decisions(steps: dict[str, Any], results: Path) -> None:
    assert not [name for name, step in steps.items() if not step["back"]]
    report = json.loads((results / "out.json").read_text())
    assert report["agents"]["driver"]["decisions"] > DECISIONS * len(steps)
    assert report["worker"]["kind"] == "native"
