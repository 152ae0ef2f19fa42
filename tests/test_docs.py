"""The documents are true: commands exist and run, the explained configuration is the shipped one, pages are fresh."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest

from daemon.cli import main
from daemon.ctl.cli import parser as reflexctl_parser
from daemon.sources import Source
from docs.generate import PAGES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
REFLEXD = str(Path(sys.executable).with_name("reflexd"))


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands() -> list[list[str]]:
    lines = (line for block in blocks("sh") for line in block.splitlines())
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_generated_page_is_fresh(page: Path) -> None:
    assert page.read_text() == PAGES[page](), "run python -m docs.generate"


def test_the_explained_configurations_are_the_shipped_ones() -> None:
    for explained, shipped in zip(blocks("toml"), ("demo.toml", "log.toml"), strict=True):
        assert tomllib.loads(explained) == tomllib.loads((ROOT / "models/pong" / shipped).read_text())


def test_the_explained_sources_are_good() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/sources.md").read_text(), re.DOTALL)
    assert len(msgspec.convert(tomllib.loads(example)["sources"], dict[str, Source])) == 2


def test_every_command_is_of_a_known_kind() -> None:
    kinds = {"make", ".venv/bin/reflexd", ".venv/bin/reflexctl", ".venv/bin/python"}
    assert {command[0] for command in commands()} <= kinds


def test_commands_of_reflexctl_in_the_documents_are_understood() -> None:
    """They run in tests/ctl; here every way they are written is held against the parser."""
    text = (ROOT / "docs/gateway.md").read_text() + README
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    inline = re.findall(r"(?<!`)`([^`]+)`(?!`)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    commands = [shlex.split(line, comments=True) for line in [*lines, *inline] if "reflexctl " in line]
    asked = [words[words.index("reflexctl") + 1 :] for words in commands if "reflexctl" in words]
    assert len(asked) > 12
    for words in asked:
        if words != ["--help"]:
            assert callable(reflexctl_parser().parse_args(words).call), words


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {command[1] for command in commands() if command[0] == "make"} <= targets


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in commands() if c[0].endswith("reflexd")], ids=" ".join)
def test_reflexd_commands_run(command: list[str], run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As written, but shorter where one says how long, and with folders and results of its own."""
    arguments = command[1:]
    if "--for" in arguments:
        arguments[arguments.index("--for") + 1] = "20"
    if "--json" in arguments:
        arguments[arguments.index("--json") + 1] = str(run_folder / "out.json")
    if arguments[0] == "export":
        arguments += ["--out", str(run_folder / "package")]
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run_folder))
    monkeypatch.setenv("XDG_STATE_HOME", str(run_folder / "state"))
    done = subprocess.run([REFLEXD, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    nobody_runs = arguments[0] in ("snapshot", "status", "estop", "clear", "arm", "disarm")
    assert done.returncode == (1 if nobody_runs else 0), done.stderr
    assert "Traceback" not in done.stderr


def test_python_commands_run() -> None:
    for command in commands():
        if command[0].endswith("python"):
            done = subprocess.run(
                [sys.executable, *command[1:]], cwd=ROOT, capture_output=True, timeout=60, check=False
            )
            assert done.returncode == 0


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert all(command[1] in shown for command in commands() if command[0].endswith("reflexd"))
