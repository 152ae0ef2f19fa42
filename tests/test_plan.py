"""Rules between the parts of a configuration: what does not fit is refused with key, value and expectation."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from daemon.config import ConfigError
from daemon.plan import Plan, load
from tests.infer.manifests import manifest_fields

BASE = """
[daemon]
name = "test"
[worlds.table]
game = "pong"
[sources.cam]
kind = "synthetic"
width = 64
height = 48
fps = 20.0
[agents.one]
package = "package"
source = "cam"
actuator = "arm"
[actuators.arm]
driver = "log"
actions = ["LEFT", "STAY", "RIGHT"]
neutral = "STAY"
deadman_ms = 250.0
[agents.two]
package = "pong"
source = "table"
actuator = "paddle"
[actuators.paddle]
driver = "simulated"
world = "table"
actions = ["NOOP", "LEFT", "RIGHT"]
neutral = "NOOP"
deadman_ms = 250.0
"""


def write(folder: Path, old: str = "", new: str = "", **manifest: Any) -> Path:
    """The base configuration with a text replaced, and its packages' manifests."""
    assert old in BASE
    for name, fields in (("package", manifest), ("pong", {"actions": ["NOOP", "LEFT", "RIGHT"]})):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "manifest.json").write_text(json.dumps(manifest_fields(**fields)))
    (folder / "test.toml").write_text(BASE.replace(old, new, 1))
    return folder / "test.toml"


def test_the_base_is_good(tmp_path: Path) -> None:
    plan = load(write(tmp_path))
    assert isinstance(plan, Plan)
    assert [view.name for view in plan.views("cam")] == ["16x16-gray8"]
    assert plan.frame_rate("cam") == 20.0
    assert plan.frame_rate("table") == 30.0
    assert plan.package("one") == tmp_path / "package"


def test_a_ring_has_room_for_the_longest_use(tmp_path: Path) -> None:
    plan = load(write(tmp_path))
    assert plan.slots("cam") == 3 + 2, "100 ms of age and 50 ms of stack at 20 frames a second, and two"


WRONG: dict[str, tuple[str, str, str]] = {
    "a neutral the world does not know": (
        'actions = ["NOOP", "LEFT", "RIGHT"]\nneutral = "NOOP"',
        'actions = ["NOOP", "LEFT", "RIGHT"]\nneutral = "LEFT"',
        r"actuators.paddle.neutral = 'LEFT': in world table only 'NOOP' does nothing",
    ),
    "an action the world does not know": (
        'actions = ["NOOP", "LEFT", "RIGHT"]',
        'actions = ["NOOP", "LEFT", "RIGHT", "JUMP"]',
        r"actuators.paddle.actions = .*JUMP.*: world table takes NOOP, FIRE",
    ),
    "no such world": ('world = "table"', 'world = "chair"', r"world = 'chair': expected one of the worlds: table"),
    "an agent named as a source": ("[agents.one]", "[agents.cam]", r"agents.cam: a source or world has this name"),
    "no such source": ('source = "cam"', 'source = "eye"', r"agents.one.source = 'eye': expected .*: cam, table"),
    "no such actuator": ('actuator = "arm"', 'actuator = "leg"', r"actuator = 'leg': expected .*: arm, paddle"),
    "an action the actuator lacks": (
        'actions = ["LEFT", "STAY", "RIGHT"]',
        'actions = ["LEFT", "STAY"]',
        r"agents.one.package = 'package': its actions \['RIGHT'\] are not in actuators.arm.actions",
    ),
    "older than the dead-man": (
        "deadman_ms = 250.0",
        "deadman_ms = 50.0",
        r"agents.one.max_age_ms = 100.0: expected at most the actuator's deadman_ms = 50.0",
    ),
    "neutral not in the vocabulary": (
        'neutral = "STAY"',
        'neutral = "STOP"',
        r"actuators.arm.neutral = 'STOP': expected one of actions: LEFT, STAY, RIGHT",
    ),
    "neither discrete nor continuous": (
        'actions = ["LEFT", "STAY", "RIGHT"]\n',
        "",
        "actuators.arm.actions, channels: expected one of the two",
    ),
    "a way to neutral forbidden": (
        'neutral = "STAY"',
        'neutral = "STAY"\nforbidden = [["LEFT", "STAY"]]',
        "the way to neutral cannot be forbidden",
    ),
    "a kind of source there is not": (
        'kind = "synthetic"',
        'kind = "eye"',
        r"sources.cam.kind = 'eye': expected one of synthetic",
    ),
    "a source without a kind": ('kind = "synthetic"\n', "", r"sources.cam: .*`kind`; expected one of synthetic"),
    "a key another kind of source has": (
        "height = 48",
        "depth = 48",
        r"sources.cam: .*`depth`; expected one of fps, w",
    ),
    "a value out of its limits": ("height = 48", "height = 4", r"sources.cam.height = 4: Expected `int` >= 16"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_named(tmp_path: Path, name: str) -> None:
    old, new, words = WRONG[name]
    with pytest.raises(ConfigError, match=words):
        load(write(tmp_path, old, new))


def test_a_view_larger_than_the_picture_is_named(tmp_path: Path) -> None:
    frame = manifest_fields()["inputs"][0]
    frame["view"] = frame["view"] | {"crop": {"x": 60, "y": 0, "width": 16, "height": 16}}
    path = write(tmp_path, inputs=[frame, manifest_fields()["inputs"][1]])
    with pytest.raises(ConfigError, match="lies outside the source's 64x48 picture"):
        load(path)


MANIFESTS: dict[str, tuple[dict[str, Any], str]] = {
    "another version": ({"manifest_version": 2}, "manifest_version = 2; this build reads 1"),
    "an unknown key": ({"extra": 1}, "unknown field `extra`"),
    "an unknown role": (
        {"outputs": [{"role": "action_chunk", "name": "x", "dtype": "float32", "shape": [1, 3]}]},
        "action_chunk",
    ),
    "a shape that is not the vocabulary's": ({"actions": ["LEFT", "STAY"]}, r"expected \[1, 2\], one per action"),
    "a name twice": ({"actions": ["LEFT", "STAY", "LEFT"]}, "a name stands twice"),
    "not a hash": ({"model": {"sha256": "xyz", "bytes": 1}}, "sha256"),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_that_must_not_act_is_named(tmp_path: Path, name: str) -> None:
    fields, words = MANIFESTS[name]
    with pytest.raises(ConfigError, match=rf"(?s)agents.one.package = 'package'.*{words}"):
        load(write(tmp_path, **fields))


def test_the_shipped_configurations_are_good() -> None:
    folder = Path(__file__).parents[1] / "models" / "pong"
    for name in ("demo.toml", "two.toml", "log.toml"):
        assert load(folder / name).config.agents.keys() == tomllib.loads((folder / name).read_text())["agents"].keys()
