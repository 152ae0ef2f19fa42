"""A camera that stands still under a whole daemon: its agent is held, its actuator neutral, the other agent goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.capture.rig import Rig, rig
from tests.packages import tiny_package

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

OTHER = """
[sources.other]
kind = "synthetic"
width = 64
height = 48
[agents.two]
package = "package"
source = "other"
actuator = "leg"
[actuators.leg]
driver = "log"
actions = ["LEFT", "STAY", "RIGHT"]
neutral = "STAY"
deadman_ms = 250.0
arm_on_start = true
"""
DEADMAN_NS = 250_000_000
SLACK_NS = 150_000_000
"""What a busy machine with two cores adds."""


def writes(run: Rig, actuator: str) -> list[dict[str, Any]]:
    """What the actuator was told, from the file of its driver; the last line may still be under way."""
    path = run.folder / "state" / f"{actuator}.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


def decisions(run: Rig, actuator: str, since_ns: int) -> int:
    return sum("agent" in write and write["t_ns"] > since_ns for write in writes(run, actuator))


@pytest.mark.parametrize("fault", ["blocks", "wedges", "repeats_the_stamp"])
def test_the_actuator_is_neutral_until_the_camera_is_back(run_folder: Path, fault: str) -> None:
    tiny_package(run_folder / "package")
    with rig(run_folder, fault, OTHER) as run:
        run.until(lambda: decisions(run, "arm", 0) > 20 and decisions(run, "leg", 0) > 20, "decisions of both")
        run.strike()
        struck = run.struck()
        run.until(lambda: decisions(run, "arm", struck + DEADMAN_NS + SLACK_NS), "decisions after the fault")
        told = writes(run, "arm")
        neutral = next(w for w in told if w["t_ns"] > struck and w["cause"] == "deadman")
        again = next(w for w in told if w["t_ns"] > neutral["t_ns"] and "agent" in w)
        assert neutral["action"] == "STAY"
        assert neutral["t_ns"] - struck <= DEADMAN_NS + SLACK_NS
        held = [w for w in told if neutral["t_ns"] < w["t_ns"] < again["t_ns"]]
        assert {w["action"] for w in held} <= {"STAY"}
        pause_s = (again["t_ns"] - neutral["t_ns"]) / 1e9
        others = [w for w in writes(run, "leg") if "agent" in w and neutral["t_ns"] < w["t_ns"] < again["t_ns"]]
        assert len(others) > 15 * pause_s, "the other agent went on at half its rate or more"
        print(f"{fault}: neutral after {(neutral['t_ns'] - struck) / 1e9:.2f} s, for {pause_s:.2f} s; ", end="")
        print(f"the other agent decided {len(others) / pause_s:.1f} times a second meanwhile")
