"""Parts that configurations of tests share."""

from __future__ import annotations

HEAD = """
[daemon]
name = "test"
runtime = "{folder}/run"
state = "{folder}/state"
[sources.cam]
kind = "synthetic"
width = 64
height = 48
"""
"""A daemon with its folders in ``folder``, and a small test picture."""
_ACTING = """
[agents.{name}]
package = "{package}"
source = "{source}"
actuator = "{arm}"
[actuators.{arm}]
driver = "log"
actions = ["LEFT", "STAY", "RIGHT"]
neutral = "STAY"
deadman_ms = 250.0
arm_on_start = true
after_deadman = "resume"
"""


def acting(name: str, arm: str, package: str = "package", source: str = "cam") -> str:
    """An agent with the actions of the small packages, and an actuator of its own that writes down what it is told."""
    return _ACTING.format(name=name, arm=arm, package=package, source=source)
