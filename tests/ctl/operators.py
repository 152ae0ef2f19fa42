"""An operator with ``reflexctl``, a configuration folder of their own, and a daemon to look after."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.gateway_daemon import Running

REFLEXCTL = str(Path(sys.executable).with_name("reflexctl"))
PROMPT_S = 4.0
"""A clear answer, with the start of the command line itself on a busy machine."""


class Operator:
    """Somebody with a configuration folder of their own."""

    def __init__(self, folder: Path, daemon: Running, port: int) -> None:
        self.folder, self.daemon, self.port = folder, daemon, port

    @property
    def environment(self) -> dict[str, str]:
        """In which commands run: with a home of their own, where no daemon is found by chance."""
        return {**os.environ, "XDG_CONFIG_HOME": str(self.folder), "XDG_RUNTIME_DIR": str(self.folder)}

    def run(self, *words: str) -> tuple[int, str]:
        """Exit status and all that was said."""
        began = time.monotonic()
        done = subprocess.run(
            [REFLEXCTL, *words], capture_output=True, text=True, env=self.environment, timeout=30, check=False
        )
        self.lasted_s = time.monotonic() - began
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout + done.stderr

    @contextmanager
    def beginning(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on by itself; its output is one pipe."""
        command = subprocess.Popen(
            [REFLEXCTL, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
        )
        try:
            yield command
        finally:
            command.kill()
            command.communicate()

    def here(self, *words: str) -> str:
        """Done on this machine."""
        status, said = self.run("--runtime", str(self.daemon.folder / "run"), *words)
        assert status == 0, said
        return said

    def key_of_device(self) -> str:
        """As the device's operator reads it out."""
        said = self.here("keys", "show", "--config", str(self.daemon.folder / "test.toml"))
        return next(line.split("\t")[0] for line in said.splitlines() if "the device" in line)

    def make_key(self) -> str:
        """This operator's own."""
        return self.run("keys", "new")[1].splitlines()[0]

    def add_device(self, role: str) -> str:
        """Make a key, have it trusted, and name the device ``car``; return the options that mean it."""
        self.trust(self.make_key(), "--role", role)
        status, said = self.run("devices", "add", "car", "127.0.0.1", self.key_of_device(), str(self.port))
        assert status == 0, said
        return "--device=car"

    def revoke(self) -> None:
        """Trust the operator's key no more."""
        self.here("keys", "revoke", "--config", str(self.daemon.folder / "test.toml"), "ada")

    def trust(self, public: str, *more: str) -> None:
        """Have a key trusted, under the name ``ada``."""
        self.here("keys", "trust", "--config", str(self.daemon.folder / "test.toml"), "ada", public, *more)
        time.sleep(0.5)  # looked at ten times a second
