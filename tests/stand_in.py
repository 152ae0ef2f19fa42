"""Small child processes for tests of the supervisor, and a supervisor over them.

``stand_in.py FOLDER IDENTITY BEHAVIOUR`` is a child in the runtime folder FOLDER, ``stand_in.py FOLDER run
SECONDS IDENTITY=BEHAVIOUR...`` runs a table of such children; 0 seconds is for ever.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

import msgspec

from daemon.bus import Bus
from daemon.config import Config, ConfigError, Daemon
from daemon.plan import Plan
from daemon.process import EXIT_CONFIG, Ready, Report, configure_logging, serve, stop_signals
from daemon.runtime import InstanceLock, RuntimeFolder, RuntimeFolderError
from daemon.table import Entry

START_LIMIT_S = 10.0
STALL_LIMIT_S = 0.7
FOR_EVER_S = 3600.0
CHATTY_BYTES = 2_000_000
SLOW_START_TURNS = 22
"""Turns until one of behaviour ``late`` has started; it hangs in the second turn after."""


def folder_of(runtime: Path) -> RuntimeFolder:
    return RuntimeFolder(Daemon(name="stand-in", runtime=str(runtime), state=str(runtime / "state")))


def entry(runtime: Path, identity: str, behaviour: str) -> Entry:
    folder = folder_of(runtime)
    health = folder.endpoint("health", identity).removeprefix("ipc://")
    return Entry(
        identity=identity,
        argv=(
            "/nonexistent/python" if behaviour == "absent" else sys.executable,
            __file__,
            str(runtime),
            identity,
            behaviour,
        ),
        start_limit_s=0.2 if behaviour == "slow" else START_LIMIT_S,
        stall_limit_s=STALL_LIMIT_S,
        stops_first=identity.startswith("actuate@"),
        lock=folder.lock(identity),
        leaves=(Path(health), folder.rings / f"{identity}.ring"),
    )


class StandIn:
    """A stage that advances, until its behaviour says otherwise."""

    def __init__(self, runtime: RuntimeFolder, identity: str, behaviour: str) -> None:
        self._runtime, self._identity, self._behaviour = runtime, identity, behaviour
        self._turns = 0
        self._child: subprocess.Popen[bytes] | None = None
        (runtime.rings / f"{identity}.ring").write_bytes(b"ring")
        if behaviour == "parent":
            self._child = subprocess.Popen(["/bin/sleep", "3600"])
            (runtime.folder / "grandchild").write_text(str(self._child.pid))

    def turn(self, ready: Ready, now_ns: int) -> int:
        self._turns += 1
        if self._turns > 20 and self._behaviour == "freeze":
            time.sleep(FOR_EVER_S)
        if self._turns > SLOW_START_TURNS + 1 and self._behaviour == "late":
            time.sleep(FOR_EVER_S)
        if self._turns > 2 and self._behaviour == "crash":
            raise SystemExit(3)
        return now_ns + 50_000_000

    def report(self) -> Report:
        progress = 1 if self._behaviour == "spin" else self._turns
        children = {"worker0": self._child.pid} if self._child else {}
        return Report(state=self._state(), progress=progress, children=children)

    def _state(self) -> Literal["starting", "running", "done"]:
        if self._behaviour == "late" and self._turns <= SLOW_START_TURNS:
            return "starting"
        return "done" if self._behaviour == "done" else "running"

    def shutdown(self) -> None:
        if self._behaviour == "stubborn":
            time.sleep(FOR_EVER_S)
        with (self._runtime.folder / "order").open("a") as file:
            file.write(f"{self._identity}\n")
        if self._child is not None:
            self._child.kill()
            self._child.wait()


def child(runtime: RuntimeFolder, identity: str, behaviour: str) -> int:
    configure_logging(identity)
    with (runtime.folder / "starts").open("a") as file:
        file.write(f"{identity} {os.getpid()}\n")
    if behaviour == "misconfigured":
        logging.error("boat.keel = 3: expected 4")
        return EXIT_CONFIG
    if behaviour == "mute":
        time.sleep(FOR_EVER_S)
    if behaviour == "chatty":
        os.set_blocking(2, True)
        os.write(2, b"a line of noise that goes on and on\n" * (CHATTY_BYTES // 36))
    with InstanceLock(runtime.lock(identity)), Bus(runtime) as bus, stop_signals() as wake:
        serve(identity, bus, wake, lambda _: StandIn(runtime, identity, behaviour))
    return 0


def plan(runtime: Path) -> Plan:
    """A plan that fits the table only in its names; no package is looked at."""
    values = {
        "daemon": {"name": "stand-in", "runtime": str(runtime), "state": str(runtime / "state")},
        "worlds": {"pong": {"game": "pong"}},
        "agents": {"player": {"package": "none", "source": "pong", "actuator": "paddle"}},
        "actuators": {"paddle": {"driver": "simulated", "world": "pong", "deadman_ms": 200.0}},
    }
    return Plan(Path("/none.toml"), msgspec.convert(values, Config), {})


def supervise(runtime: Path, seconds: float, rows: list[str]) -> int:
    from daemon.run import Options, run  # here, because children start faster without it

    table = [entry(runtime, *row.split("=")) for row in rows]
    report = runtime.parent / "report.json"
    try:
        return run(plan(runtime), Options(seconds=seconds or None, json=report), table)
    except (ConfigError, RuntimeFolderError) as error:
        print(error, file=sys.stderr)
        return 71


def main(folder: str, identity: str, *rest: str) -> int:
    if identity == "run":
        return supervise(Path(folder), float(rest[0]), list(rest[1:]))
    return child(folder_of(Path(folder)), identity, rest[0])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
