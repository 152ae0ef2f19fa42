"""Two agents with a change gate in a real run: one looks at a still picture, one at a moving one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from tests.capture.cards import colour_card
from tests.packages import tiny_package

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CONFIG = """
[daemon]
name = "test"
runtime = "{folder}/run"
state = "{folder}/state"
[sources.photo]
kind = "frames"
path = "pictures"
loop = true
[sources.film]
kind = "synthetic"
width = 64
height = 48
"""
AGENT = """
[agents.{name}]
package = "package"
source = "{source}"
actuator = "{name}-arm"
skip_unchanged = 6.0
[actuators.{name}-arm]
driver = "log"
actions = ["LEFT", "STAY", "RIGHT"]
neutral = "STAY"
deadman_ms = 250.0
arm_on_start = true
"""


def test_a_still_scene_is_skipped_and_a_moving_one_is_not(run_folder: Path) -> None:
    tiny_package(run_folder / "package")
    (run_folder / "pictures").mkdir()
    Image.fromarray(colour_card(64, 48)).save(run_folder / "pictures" / "1.png")
    text = CONFIG.format(folder=run_folder)
    text += AGENT.format(name="still", source="photo") + AGENT.format(name="moving", source="film")
    (run_folder / "test.toml").write_text(text)
    reflexd, config, out = Path(sys.executable).with_name("reflexd"), run_folder / "test.toml", run_folder / "out.json"
    command: list[str | Path] = [reflexd, "run", config, "--plain", "--for", "15", "--json", out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    counts = report["processes"]["infer"]["counts"]
    still, moving = counts["still"], counts["moving"]
    print(f"still: {still}, moving: {moving}")
    assert still["unchanged"] >= 0.9 * (still["unchanged"] + still["decided"])
    assert moving["unchanged"] == 0
    assert moving["decided"] > 100
    assert report["agents"]["still"]["decisions"] > 100, "the decision that holds is proposed for every frame"
    assert "deadman" not in report["actuators"]["still-arm"]["applied"]
