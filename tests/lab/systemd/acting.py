"""A machine of the lab at work: its configuration, its units, and what its actuator was told."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.lab.systemd.machine import Machine, wait_for

GOOD = """
[daemon]
name = "main"

[sources.cam]
kind = "synthetic"
width = 160
height = 210
fps = 30.0

[agents.watcher]
package = "/usr/share/reflexd/pong"
source = "cam"
actuator = "arm"

[actuators.arm]
driver = "log"
actions = ["NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE"]
neutral = "NOOP"
deadman_ms = 250.0
arm_on_start = true
after_deadman = "resume"
"""
UNITS = ["reflexd-capture@cam", "reflexd-infer", "reflexd-actuate@arm"]
ACTIONS = "var/lib/reflexd/main/arm.jsonl"
RECOVERY_S = 15.0


def written(machine: Machine) -> list[dict[str, Any]]:
    """What the actuator was told, oldest first."""
    path = machine.root / ACTIONS
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def decided(machine: Machine, since_ns: int) -> list[dict[str, Any]]:
    return [line for line in written(machine) if line["cause"] == "proposal" and line["sensor_ns"] > since_ns]


def acts_again(machine: Machine) -> float:
    """Wait for a decision on a frame taken from now on; return how long it took, s."""
    now_ns = time.monotonic_ns()
    return wait_for(lambda: bool(decided(machine, now_ns)), RECOVERY_S, "an action")


def main_pid(machine: Machine, unit: str) -> int:
    return int(machine.show(unit, "MainPID"))


def states(machine: Machine) -> set[str]:
    return {machine.show(unit, "ActiveState") for unit in UNITS}


def stop(machine: Machine) -> float:
    """Stop everything; return how long it took, s."""
    begun = time.monotonic()
    machine.run("systemctl", "stop", "reflexd.target", "reflexd-*")
    return time.monotonic() - begun
