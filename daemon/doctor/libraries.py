"""Libraries that come with the system and break with its upgrades: each is imported, in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from daemon.doctor.finding import Finding, fail, ok, skip, warn
from daemon.doctor.header import hardware_pwm_pins
from daemon.doctor.machine import Machine
from daemon.doctor.setup import Setup
from daemon.sources import Picamera2, SourceTable, V4l2, Video

INSTALL = {
    "picamera2": "sudo apt install python3-picamera2; environments see it by python3 -m venv --system-site-packages",
    "av": "sudo apt install python3-av, or pip install 'reflexd[video]'",
    "gpiozero": "sudo apt install python3-gpiozero, or pip install 'reflexd[gpio]'",
    "lgpio": "sudo apt install python3-lgpio, or pip install 'reflexd[gpio]'",
    "systemd": "sudo apt install python3-systemd, or pip install 'reflexd[systemd]'",
}
REPAIR = (
    "the parts do not fit one another: upgrade all of the system (sudo apt full-upgrade), and remove what pip has "
    "put over the system's packages (pip list --user; pip uninstall numpy)"
)
# lgpio makes a pipe in the current folder, or in the one that this variable names: here in one that goes again.
_PROGRAM = """
import os, sys, tempfile
with tempfile.TemporaryDirectory() as folder:
    os.environ["LG_WD"] = folder
    os.chdir(folder)
    __import__(sys.argv[1])
    os.chdir("/")
"""


def libraries(machine: Machine, setup: Setup) -> Iterator[Finding]:
    """The libraries for cameras, pins and systemd; one that is missing fails only if the configuration needs it."""
    needed = needs(setup)
    with ThreadPoolExecutor(len(INSTALL)) as pool:  # each waits for a process
        yield from pool.map(lambda name: _judge(machine, name, needed.get(name, "")), INSTALL)


def needs(setup: Setup) -> dict[str, str]:
    """Library to what of the configuration needs it."""
    kinds: tuple[tuple[type[SourceTable], str], ...] = ((Picamera2, "picamera2"), (V4l2, "av"), (Video, "av"))
    found = {library: f"sources.{source}" for kind, library in kinds for source in setup.sources(kind)}
    for name, actuator in setup.actuators.items():
        if len(hardware_pwm_pins(actuator.outputs)) < len(actuator.outputs):
            found.update(dict.fromkeys(("gpiozero", "lgpio"), f"actuators.{name}"))
    return found


def _judge(machine: Machine, name: str, needed_by: str) -> Finding:
    check = f"library {name}"
    outcome = machine.outcome(sys.executable, "-P", "-W", "ignore", "-c", _PROGRAM, name)
    if outcome is None:
        return fail(check, f"{sys.executable} cannot be run", "install Python anew")
    if outcome.failure.startswith("did not finish"):
        return warn(check, f"importing it {outcome.failure}", "look again: a second time it comes from memory")
    if not outcome.failure and outcome.status == 0:
        return ok(check, "loads")
    why = outcome.failure or (outcome.log.strip().splitlines() or ["no word"])[-1]
    if f"No module named {name!r}" not in why:
        return fail(check, f"is there and does not load: {why}", REPAIR)
    if needed_by:
        return fail(check, f"not installed, and {needed_by} needs it", INSTALL[name])
    return skip(check, "not installed, and nothing here needs it")
