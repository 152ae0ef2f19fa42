"""``reflexd snapshot`` over a real capture process: the bytes in the ring, and what it says when there are none."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from daemon.cli import main
from daemon.pixels import fit
from daemon.plan import Plan, load
from tests.capture.cards import colour_card
from tests.infer.manifests import manifest_fields

ROOT = Path(__file__).parents[1]
VIEWS = {
    "whole": {"width": 16, "height": 16, "format": "gray8"},
    "boxed": {
        "width": 32,
        "height": 32,
        "format": "rgb24",
        "crop": {"x": 8, "y": 4, "width": 64, "height": 32},
        "letterbox": 114,
    },
}
CARDS = [colour_card(100, 60), colour_card(100, 60)[::-1].copy(), colour_card(100, 60)[:, ::-1].copy()]
CONFIG = """
[daemon]
name = "test"
runtime = "{folder}/run"
state = "{folder}/state"
[sources.cam]
kind = "frames"
path = "pictures"
fps = 50.0
loop = true
[actuators.arm]
driver = "log"
actions = ["LEFT", "STAY", "RIGHT"]
neutral = "STAY"
deadman_ms = 250.0
"""
AGENT = """
[agents.{name}]
package = "{name}"
source = "cam"
actuator = "arm"
"""


def plan_of(folder: Path, agents: list[str]) -> Plan:
    """A configuration whose agents look at the pictures of a folder, each with its view."""
    (folder / "pictures").mkdir(exist_ok=True)
    for number, card in enumerate(CARDS):
        Image.fromarray(card).save(folder / "pictures" / f"{number}.png")
    for name in agents:
        (folder / name).mkdir()
        view = VIEWS[name]
        side, layout = ([view["height"], view["width"]], "NSHW") if name == "whole" else ([32, 32, 3], "NSHWC")
        shape = [1, 2, *side]
        frame = {**manifest_fields()["inputs"][0], "view": view, "layout": layout, "shape": shape}
        fields = manifest_fields(inputs=[frame, manifest_fields()["inputs"][1]])
        (folder / name / "manifest.json").write_text(json.dumps(fields))
    text = CONFIG.format(folder=folder) + "".join(AGENT.format(name=name) for name in agents)
    (folder / "test.toml").write_text(text)
    return load(folder / "test.toml")


@contextmanager
def capturing(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "daemon.capture", str(folder / "test.toml"), "cam"]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while not list((folder / "run" / "rings").glob("cam.*")):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.wait()


def reflexd(folder: Path, *words: str) -> int:
    return main(["snapshot", *words, "--config", str(folder / "test.toml")])


@pytest.mark.parametrize("agent", VIEWS)
def test_the_picture_is_what_the_model_reads(run_folder: Path, agent: str) -> None:
    plan = plan_of(run_folder, list(VIEWS))
    view = plan.manifests[agent].frame.view
    with capturing(run_folder):
        began_ns = time.monotonic_ns()
        assert reflexd(run_folder, "cam", "--as", agent, "-o", str(run_folder / "seen.png")) == 0
    with Image.open(run_folder / "seen.png") as image:
        seen, words = np.asarray(image), image.info
    card = CARDS[(int(words["sequence"]) - 1) % len(CARDS)]
    assert np.array_equal(seen, fit(card, view))
    assert int(words["sensor_ns"]) > began_ns, "taken after the command"


def test_a_source_with_one_view_needs_no_agent_named(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan_of(run_folder, ["boxed"])
    monkeypatch.chdir(run_folder)
    with capturing(run_folder):
        assert reflexd(run_folder, "cam") == 0
    with Image.open("cam.png") as image:
        assert image.size == (32, 32)
    assert "cam.png: 32x32-rgb24-8.4.64.32-bars114 of cam, frame" in capsys.readouterr().out


def test_what_cannot_be_is_explained(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan_of(run_folder, list(VIEWS))
    assert reflexd(run_folder, "cam") == 1
    assert "cam: no such source is running" in capsys.readouterr().err
    with capturing(run_folder) as process:
        assert reflexd(run_folder, "eye") == 1
        assert "eye: no such source is running" in capsys.readouterr().err
        assert reflexd(run_folder, "cam") == 1
        assert "choose one with --as AGENT" in capsys.readouterr().err
        assert reflexd(run_folder, "cam", "--as", "nobody") == 1
        assert "those who do: whole, boxed" in capsys.readouterr().err
        assert reflexd(run_folder, "cam", "--as", "whole", "-o", "/proc/none.png") == 1
        assert "/proc/none.png: cannot write there" in capsys.readouterr().err
        process.send_signal(19)  # SIGSTOP
        assert reflexd(run_folder, "cam", "--as", "whole", "-o", str(run_folder / "seen.png")) == 1
        assert "cam: no new picture in 2 s, the last is" in capsys.readouterr().err
    assert not (run_folder / "seen.png").exists()
    assert reflexd(run_folder, "cam", "--as", "whole") == 1, "the rings of a dead process are not looked at"
