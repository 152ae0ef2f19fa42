"""The machine a doctor looks at: files below a root, and commands that are asked."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from daemon.oneshot import OneShot, Outcome

COMMAND_LIMIT_S = 2.0
"""A command that has not answered by then is not waited for: a person waits for the page."""

Ask = Callable[[list[str]], Outcome | None]
"""Runs a command and returns what became of it; None if there is no such program."""


class Machine:
    """What checks read.

    Args:
        root: stands for ``/``.
        ask: runs commands.
        now_s: seconds since the epoch, by this machine's clock.
    """

    def __init__(self, root: Path = Path("/"), ask: Ask | None = None, now_s: float | None = None) -> None:
        self.root = root
        self._ask = ask or ask_here
        self.now_s = time.time() if now_s is None else now_s

    def path(self, absolute: str) -> Path:
        """Where this path of the machine is."""
        return self.root / absolute.lstrip("/")

    def text(self, absolute: str) -> str | None:
        """A file's text without white space around it and the zero that ends those of a device tree; None if none."""
        return text_of(self.path(absolute))

    def glob(self, folder: str, pattern: str) -> list[Path]:
        """What there is in a folder of this name, the numbers in it in their order; nothing if there is no folder."""
        found = self.path(folder).glob(pattern)
        return sorted(found, key=lambda path: (len(path.name), path.name))

    def answer(self, *command: str) -> str | None:
        """What a command prints, without white space around it; None if it is not there, fails or takes too long."""
        outcome = self.outcome(*command)
        if outcome is None or outcome.failure or outcome.status != 0:
            return None
        return outcome.answer.decode(errors="replace").strip()

    def outcome(self, *command: str) -> Outcome | None:
        """What became of a command; None if there is no such program."""
        return self._ask(list(command))

    def is_pi(self) -> bool:
        """Whether it is a Raspberry Pi."""
        return self.board().startswith("Raspberry Pi")

    def board(self) -> str:
        """The board's name in its device tree; empty if there is none."""
        return self.text("/proc/device-tree/model") or ""


def text_of(path: Path) -> str | None:
    """The text of a file, see :meth:`Machine.text`."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0 \t\r\n")
    except OSError:
        return None


def number_of(path: Path) -> int | None:
    """The whole number a file holds; None if it holds none."""
    text = text_of(path) or ""
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else None


def ask_here(command: list[str]) -> Outcome | None:
    """Run a command on this machine."""
    asked = OneShot(command, COMMAND_LIMIT_S)
    try:
        asked.start()
    except OSError:
        return None
    return asked.wait()


def may(path: Path, mode: int = os.R_OK | os.W_OK) -> bool:
    """Whether this user may use a file so, which opens nothing."""
    return os.access(path, mode)


def group_advice(group: str) -> str:
    """How a user comes to devices that belong to a group."""
    return f"sudo usermod -aG {group} $USER, and log in anew; a service has the group from its unit"


def bytes_text(size: float) -> str:
    """Bytes, for people."""
    unit, per = next((unit for unit in (("GiB", 2**30), ("MiB", 2**20)) if size >= unit[1]), ("KiB", 2**10))
    return f"{size / per:.1f} {unit}" if unit == "GiB" else f"{size / per:.0f} {unit}"
