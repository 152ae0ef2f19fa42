"""What the daemon imports is declared: a library that only the tests bring along is not there on a device."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
SYSTEM = {"libcamera", "picamera2", "systemd"}
"""Come with the system; nothing that pip installs here provides them."""


def imported(folder: Path) -> set[str]:
    """Top-level names of the modules imported anywhere below a folder."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names) - {"daemon"}


def declared() -> set[str]:
    """Distributions of a run: the dependencies and every extra but the developers'."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for extra, lines in project["optional-dependencies"].items() if extra != "dev" for line in lines]
    return {_normal(re.split(r"[\[=<>~ ]", line)[0]) for line in [*project["dependencies"], *extras]}


def test_every_library_that_the_daemon_imports_is_declared() -> None:
    provided_by = packages_distributions()
    names, known = imported(ROOT / "daemon") - SYSTEM, declared()
    assert names
    undeclared = [name for name in names if not known & {_normal(found) for found in provided_by.get(name, [])}]
    assert not undeclared


def _normal(distribution: str) -> str:
    """As package indexes compare names."""
    return distribution.lower().replace("_", "-")
