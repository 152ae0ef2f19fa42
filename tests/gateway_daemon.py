"""A daemon with a gateway, run for a test."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from daemon.client import Address
from daemon.keys import KeyPair, read_key
from tests.configs import HEAD, acting
from tests.system.game import REFLEXD

_TABLES = """
[gateway]
{gateway}
[infer]
{infer}
{more}
"""
PATIENCE_S = 60.0


def free_port() -> int:
    """A port that is free together with the one after it, which the streams have."""
    while True:
        with socket.socket() as requests, socket.socket() as stream:
            requests.bind(("127.0.0.1", 0))
            port = int(requests.getsockname()[1])
            try:
                stream.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


class Running:
    """The daemon.

    Attributes:
        folder: has its log (``log``), its folders (``run``, ``state``, ``models``) and its configuration.
        process: its supervisor.
    """

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder, self.process = folder, process

    def network(self, port: int, own: KeyPair, server: str = "", host: str = "127.0.0.1") -> Address:
        """Of its gateway, from another machine; ``server`` instead of its own key."""
        return Address.remote(host, port, server or read_key(self.folder / "state/gateway.key").public, own)

    @property
    def address(self) -> Address:
        """Of its gateway, on this machine."""
        return Address.local(str(self.folder / "run"))

    def pid(self, process: str) -> int:
        """Of one of its processes."""
        return int((self.folder / "run/locks" / process).read_text())

    def wait_for_log(self, text: str, times: int = 1) -> None:
        """Until the text has been written that often."""
        until = time.monotonic() + PATIENCE_S
        while self.log().count(text) < times:
            assert time.monotonic() < until, self.log()
            time.sleep(0.05)

    def log(self) -> str:
        """What it has written so far."""
        return (self.folder / "log").read_text()


def listening(port: int, host: str = "127.0.0.1") -> str:
    """The table ``[gateway]`` of one that takes clients from other machines."""
    return f'listen = "{host}"\nport = {port}'


def configuration(folder: Path, gateway: str = "", infer: str = "", more: str = "") -> str:
    """A daemon with a gateway, without agents; with lines of these tables, and further tables."""
    return (HEAD + _TABLES).format(folder=folder, gateway=gateway, infer=infer, more=more)


@contextmanager
def running(folder: Path, package: Path, *, gateway: str = "", infer: str = "", more: str = "") -> Iterator[Running]:
    """Run agent ``good`` with actuator ``arm``; the gateway is there when this begins, and all has ended well after.

    Args:
        folder: a short path.
        package: of the agent.
        gateway, infer: lines of these tables.
        more: further tables.
    """
    text = configuration(folder, gateway, infer, more) + acting("good", "arm", str(package))
    (folder / "test.toml").write_text(text)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([REFLEXD, "run", str(folder / "test.toml"), "--plain"], stderr=log)
    found = Running(folder, process)
    try:
        until = time.monotonic() + PATIENCE_S
        while not all((folder / "run" / name).exists() for name in ("requests@gateway", "agents@infer")):
            assert time.monotonic() < until, found.log()
            assert process.poll() is None, found.log()
            time.sleep(0.02)
        yield found
        process.terminate()
        assert process.wait(timeout=10) == 0, found.log()
    finally:
        process.kill()
        process.wait()
