"""A real `reflexd run` of Pong games for system tests, with everything it says recorded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from daemon.bus import Bus, Subscriber
from daemon.config import Daemon
from daemon.messages import Applied, Health, Message, WorldState
from daemon.runtime import RuntimeFolder

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "models" / "pong" / "package"
REFLEXD = str(Path(sys.executable).with_name("reflexd"))
DEADMAN_MS = 250.0
START_SECONDS = 60.0

_WORLD = """
[worlds.{name}]
game = "pong"
{world}
[agents.{name}-player]
package = "{package}"
source = "{name}"
actuator = "{name}-paddle"
{agent}
[actuators.{name}-paddle]
driver = "simulated"
world = "{name}"
actions = ["NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE"]
neutral = "NOOP"
deadman_ms = 250.0
arm_on_start = true
after_deadman = "resume"
"""


def pong_config(folder: Path, worlds: dict[str, dict[str, Any]], package: Path = PACKAGE) -> Path:
    """A configuration with one game for each of ``worlds``: name to keys of world (and ``priority`` of its agent)."""
    text = f'[daemon]\nname = "test"\nruntime = "{folder}/run"\nstate = "{folder}/state"\n'
    for name, keys in worlds.items():
        world = {key: value for key, value in keys.items() if key not in ("priority", "package")}
        agent = {"priority": keys.get("priority", 5)}
        own = keys.get("package", package)
        text += _WORLD.format(name=name, package=own, world=_toml(world), agent=_toml(agent))
    path = folder / "game.toml"
    path.write_text(text)
    return path


class Game:
    """A running daemon and the record of its messages.

    Attributes:
        record: ``(topic instance, message)`` in order of arrival.
    """

    def __init__(self, folder: Path, config: Path, worlds: list[str], bus: Bus, process: subprocess.Popen[str]) -> None:
        self.folder, self.config, self.worlds, self.process = folder, config, worlds, process
        self.runtime = _runtime(folder)
        self.record: list[tuple[str, Message]] = []
        self.health: dict[str, Health] = {}
        names = [f"actuate@{w}-paddle" for w in worlds] + [f"simulate@{w}" for w in worlds] + ["infer"]
        self._topics: dict[str, Subscriber] = {f"health {name}": bus.subscriber("health", name) for name in names}
        for world in worlds:
            self._topics[f"world {world}"] = bus.subscriber("world", world)
            self._topics[f"applied {world}"] = bus.subscriber("applied", f"{world}-paddle")

    def listen(self, seconds: float = 0.05) -> None:
        """Record for a while."""
        until = time.monotonic() + seconds
        while True:
            for name, topic in self._topics.items():
                for message in topic.receive():
                    if isinstance(message, Health):
                        self.health[message.process] = message
                    else:
                        self.record.append((name, message))
            if time.monotonic() >= until:
                return
            time.sleep(0.01)

    def until(self, condition: Callable[[], bool], seconds: float, what: str) -> float:
        """Record until ``condition`` holds; return the seconds it took."""
        began = time.monotonic()
        while not condition():
            assert time.monotonic() < began + seconds, f"not within {seconds} s: {what}; log:\n{self.log()}"
            assert self.process.poll() is None, f"the run ended while waiting for {what}; log:\n{self.log()}"
            self.listen()
        return time.monotonic() - began

    def log(self) -> str:
        """What the daemon has said."""
        return (self.folder / "log").read_text()

    def pid(self, process: str) -> int:
        """Pid of a process: an identity, or ``worker0``."""
        if process.startswith("worker"):
            return self.health["infer"].children[process]
        return int(self.runtime.lock(process).read_text())

    def applied(self, world: str, since_ns: int = 0) -> list[Applied]:
        """What the world's actuator was told."""
        return [
            message
            for name, message in self.record
            if name == f"applied {world}" and isinstance(message, Applied) and message.applied_ns > since_ns
        ]

    def decisions(self, world: str, since_ns: int = 0) -> int:
        """Proposals carried out."""
        return sum(message.cause == "proposal" for message in self.applied(world, since_ns))

    def states(self, world: str) -> list[WorldState]:
        """The world's own record, about 30 a second."""
        return [m for name, m in self.record if name == f"world {world}" and isinstance(m, WorldState)]

    def wait_for_decisions(self, world: str, count: int = 10, seconds: float = START_SECONDS) -> float:
        """Wait until the world's agent acts (again); return the seconds it took."""
        since = time.monotonic_ns()
        return self.until(lambda: self.decisions(world, since) >= count, seconds, f"{count} decisions in {world}")

    def stop(self) -> float:
        """Ctrl-C; return the seconds until the end."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=10)
        return time.monotonic() - began


@contextmanager
def game(folder: Path, worlds: dict[str, dict[str, Any]], *arguments: str, package: Path = PACKAGE) -> Iterator[Game]:
    """Run games; whatever happens, nothing of them is left running."""
    config = pong_config(folder, worlds, package)
    _runtime(folder).create()
    command = [REFLEXD, "run", str(config), "--plain", *arguments]
    with (folder / "log").open("w") as log, Bus(_runtime(folder)) as bus:
        process = subprocess.Popen(command, stderr=log, text=True, cwd=ROOT, stdin=subprocess.DEVNULL)
        running = Game(folder, config, list(worlds), bus, process)
        try:
            yield running
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
                try:
                    process.wait(timeout=5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def late_outputs(running: Game, world: str, slack_ms: float) -> list[str]:
    """Moments at which the world was not neutral although no action had been applied within the dead-man time.

    The world's own record is compared with what the actuator applied; ``slack_ms`` allows for a tick and a late one.
    While a restarted actuator's messages do not yet reach this listener, nothing can be said: ``Applied.seq`` tells.
    """
    bound_ns = round((DEADMAN_MS + slack_ms) * 1e6)
    writes = running.applied(world)
    found, at, last_ns = [], 0, 0
    for state in running.states(world):
        while at < len(writes) and writes[at].applied_ns <= state.at_ns:
            last_ns = writes[at].applied_ns if writes[at].cause == "proposal" else last_ns
            at += 1
        unheard = at in (0, len(writes)) or writes[at].seq not in (1, writes[at - 1].seq + 1)
        if state.in_force != "NOOP" and not unheard and state.at_ns - last_ns > bound_ns:
            found.append(f"{state.in_force} in force {(state.at_ns - last_ns) / 1e6:.0f} ms after the last action")
    return found


def processes_of(folder: Path) -> list[int]:
    """Processes whose command line or working data name ``folder``: leftovers of a run, if it has ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if str(folder) in (entry / "cmdline").read_bytes().decode(errors="replace"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def _toml(keys: dict[str, Any]) -> str:
    return "\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())


def _runtime(folder: Path) -> RuntimeFolder:
    return RuntimeFolder(Daemon(name="test", runtime=f"{folder}/run", state=f"{folder}/state"))
