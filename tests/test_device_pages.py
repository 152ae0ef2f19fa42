"""The pages for a device: the configuration for a servo runs and moves it, and data stay where the page says."""

from __future__ import annotations

import re
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from daemon.cli import _parser
from tests.actuate.pins import trace_pins
from tests.system.game import PACKAGE, REFLEXD, ROOT, START_SECONDS, processes_of

PI = (ROOT / "docs/raspberry-pi.md").read_text()
PAGES = ["raspberry-pi.md", "systemd.md", "gpio.md"]
SERVO = 18
NEUTRAL_DUTY, TURNED_DUTY = 0.075, {0.075 - 20 / 180 * 0.05, 0.075 + 20 / 180 * 0.05}
"""Of 20 ms: 1500 us, and 20 degrees to each side."""


@pytest.fixture(autouse=True)
def own_folders(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run_folder))
    monkeypatch.setenv("XDG_STATE_HOME", str(run_folder / "state"))


@contextmanager
def running(config: Path, lock: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`reflexd run`, from when this process of it is there."""
    process = subprocess.Popen([REFLEXD, "run", str(config), "--plain"], stderr=subprocess.DEVNULL)
    try:
        wait_for(lock.exists, str(lock))
        yield process
    finally:
        process.terminate()
        process.wait(20)


def wait_for(condition: Callable[[], object], what: str) -> None:
    until = time.monotonic() + START_SECONDS
    while not condition():
        assert time.monotonic() < until, f"no {what} within {START_SECONDS} s"
        time.sleep(0.02)


def test_the_servo_of_the_page_moves_when_it_is_armed(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With mock pins in the place of the PWM block, and the package of this checkout in that of the installed one."""
    (text,) = re.findall(r"```toml\n(.*?)```", PI, re.DOTALL)
    config = run_folder / "reflexd.toml"
    text = re.sub(r"^ {3}", "", text, flags=re.MULTILINE).replace("/usr/share/reflexd/pong", str(PACKAGE))
    assert tomllib.loads(text)["agents"]["player"]["package"] == str(PACKAGE)
    config.write_text(text.replace(f"pin = {SERVO}\n", f"pin = {SERVO}\nsoftware_pwm = true\n"))
    trace = trace_pins(run_folder, monkeypatch)
    with running(config, run_folder / "reflexd/main/command@arm"):
        time.sleep(1.0)
        assert {round(level, 6) for level in trace.outputs(SERVO)} == {0.0, NEUTRAL_DUTY}, "low, then the middle"
        subprocess.run([REFLEXD, "arm", "--config", str(config)], check=True, capture_output=True, timeout=20)
        turned = {round(duty, 6) for duty in TURNED_DUTY}
        wait_for(lambda: {round(level, 6) for level in trace.outputs(SERVO)} & turned, "turn of the servo")
        subprocess.run([REFLEXD, "estop", "--config", str(config)], check=True, capture_output=True, timeout=20)
        assert round(trace.now(SERVO), 6) == NEUTRAL_DUTY


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_the_pages_are_commands(page: str) -> None:
    """With the arguments they have there."""
    text = (ROOT / "docs" / page).read_text()
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    lines = re.findall(r"^\s*(?:sudo )?(?:\w+=\S+ )*reflexd (.*)$", blocks, re.MULTILINE)
    assert lines
    for line in lines:
        _parser().parse_args(re.split(r"\s+#|\s*;|\s*&&", line)[0].split())


def test_data_stay_where_the_page_says(run_folder: Path) -> None:
    """No process has a network socket, and what is on disk after a run is text."""
    folder = run_folder / "reflexd/pong-log"
    with running(ROOT / "models/pong/log.toml", folder / "command@own-arm") as process:
        wait_for(lambda: list(folder.glob("rings/*")), "frame ring")
        written = run_folder / "state/reflexd/pong-log/own-arm.jsonl"
        wait_for(lambda: written.exists() and written.stat().st_size > 2000, "action")
        everything = [psutil.Process(pid) for pid in {process.pid, *processes_of(ROOT / "models/pong/log.toml")}]
        assert len(everything) >= 4
        assert [one.net_connections(kind="inet") for one in everything] == [[]] * len(everything)
    assert list(folder.glob("rings/*")) == []
    kept = {path.name: path.read_text() for path in (run_folder / "state").rglob("*") if path.is_file()}
    assert set(kept) == {"log.jsonl", "own-arm.jsonl"}
    assert all(text.isascii() for text in kept.values())
