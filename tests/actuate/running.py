"""A real ``python -m daemon.actuate`` process and the sockets of those around it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from daemon.bus import Bus, Publisher, Subscriber
from daemon.config import Daemon
from daemon.messages import ActionProposal, Applied, Health, Message, Refused
from daemon.runtime import RuntimeFolder

ROOT = Path(__file__).parents[2]
ACTIONS = ["NOOP", "LEFT", "RIGHT", "JUMP"]
START_S = 10.0


def write_package(folder: Path, actions: list[str]) -> Path:
    """A package of which only the manifest is there: actuate reads no more of it."""
    folder.mkdir()
    entry = {"sha256": "0" * 64, "bytes": 1}
    manifest = {
        "manifest_version": 1,
        "name": "stub",
        "model": entry,
        "goldens": {**entry, "count": 1, "tolerance": 0.001},
        "inputs": [
            {
                "role": "frame",
                "name": "frames",
                "dtype": "uint8",
                "shape": [1, 1, 8, 8],
                "layout": "NSHW",
                "view": {"width": 8, "height": 8, "format": "gray8"},
                "offsets_ms": [0.0],
            }
        ],
        "outputs": [{"role": "action_logits", "name": "logits", "dtype": "float32", "shape": [1, len(actions)]}],
        "actions": actions,
        "operators": [],
        "backends": [],
        "quantisation": "none",
        "built_with": {},
        "parity": {"samples": 1, "action_agreement": 1.0, "max_abs_error": 0.0},
        "latency": {"p50_ms": 1.0, "p99_ms": 1.0, "threads": 1, "machine": "none"},
    }
    (folder / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    return folder


class Setup(msgspec.Struct, frozen=True):
    """A configuration on disk with the actuator ``paddle`` and the agents ``low`` (priority 3) and ``high`` (7)."""

    config: Path
    runtime: RuntimeFolder

    @property
    def latch(self) -> Path:
        return self.runtime.state / "paddle.estop"

    @property
    def log(self) -> Path:
        return self.runtime.state / "paddle.jsonl"

    def lines(self) -> list[dict[str, object]]:
        """What the ``log`` driver wrote."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def causes(self) -> list[object]:
        """The causes of the writes, in their order."""
        return [line["cause"] for line in self.lines()]


def make_setup(folder: Path, *, driver: str = "log", **actuator: object) -> Setup:
    """Write a configuration below ``folder``; ``actuator`` changes keys of the actuator."""
    write_package(folder / "package", ACTIONS)
    keys: dict[str, object] = {
        "driver": driver,
        "actions": ACTIONS,
        "neutral": "NOOP",
        "deadman_ms": 2000.0,
        **actuator,
    }
    world = '[worlds.field]\ngame = "pong"\n' if driver == "simulated" else ""
    if driver == "simulated":
        keys["world"] = "field"
    table = "\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
    agents = "\n".join(
        f'[agents.{name}]\npackage = "package"\nsource = "camera"\nactuator = "paddle"\n'
        f"priority = {priority}\nmax_age_ms = 200.0"
        for name, priority in (("low", 3), ("high", 7))
    )
    config = folder / "reflexd.toml"
    config.write_text(
        f'[daemon]\nname = "t"\nruntime = "{folder / "run"}"\nstate = "{folder / "state"}"\n'
        f'{world}[sources.camera]\nkind = "synthetic"\n{agents}\n[actuators.paddle]\n{table}\n'
    )
    return Setup(config, RuntimeFolder(Daemon(name="t", runtime=str(folder / "run"), state=str(folder / "state"))))


def start(
    setup: Setup, name: str = "paddle", keep_fds: tuple[int, ...] = (), program: str = "daemon.actuate"
) -> subprocess.Popen[str]:
    """Start actuate; the caller ends it."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", program, str(setup.config), name],
        env={"PYTHONPATH": str(ROOT), **os.environ},
        stderr=subprocess.PIPE,
        pass_fds=keep_fds,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> str:
    """End it by its pid, whatever state it is in; return what it logged."""
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(3.0)
        process.kill()
    return process.communicate()[1]


class Peer:
    """The processes around an actuator: proposes, and keeps what comes back.

    Args:
        setup: names the endpoints.
        bus: this end's sockets.
    """

    def __init__(self, setup: Setup, bus: Bus) -> None:
        self.proposal: Publisher = bus.publisher("proposal", "paddle")
        self._applied: Subscriber = bus.subscriber("applied", "paddle")
        self._health: Subscriber = bus.subscriber("health", "actuate@paddle")
        self._sequence = 0
        self.messages: list[Message] = []
        self.health: Health | None = None

    def propose(self, action: str = "JUMP", agent: str = "low", age_ms: float = 0.0) -> ActionProposal:
        """Send a proposal whose observation is ``age_ms`` old."""
        self._sequence += 1
        sensor_ns = time.monotonic_ns() - round(age_ms * 1e6)
        proposal = ActionProposal(agent=agent, sensor_ns=sensor_ns, frame_seq=self._sequence, action=action)
        self.proposal.send(proposal)
        return proposal

    def read(self) -> None:
        """Take in what has come."""
        self.messages += self._applied.receive()
        for message in self._health.receive():
            assert isinstance(message, Health)
            self.health = message

    def wait(self, condition: Callable[[], object], what: str, within_s: float = 5.0) -> None:
        """Read until ``condition`` holds; fail with ``what`` if it does not in time."""
        deadline = time.monotonic() + within_s
        while True:
            self.read()
            if condition():
                return
            assert time.monotonic() < deadline, f"no {what} within {within_s} s: {self.messages[-5:]} {self.health}"
            time.sleep(0.002)

    @property
    def applied(self) -> list[Applied]:
        return [message for message in self.messages if isinstance(message, Applied)]

    @property
    def refused(self) -> list[Refused]:
        return [message for message in self.messages if isinstance(message, Refused)]

    def link(self) -> None:
        """Wait until both directions stand: a first proposal is answered, whatever the answer is."""

        def answered() -> bool:
            self.propose("NOOP")
            return any(not isinstance(message, Applied) or message.agent for message in self.messages)

        self.wait(lambda: self.health is not None, "health", START_S)
        self.wait(answered, "answer to a proposal", START_S)


@contextlib.contextmanager
def running(
    setup: Setup, keep_fds: tuple[int, ...] = (), program: str = "daemon.actuate"
) -> Iterator[tuple[subprocess.Popen[str], Peer]]:
    """Actuate in a process of its own, linked to a peer; ended by pid afterwards."""
    process = start(setup, keep_fds=keep_fds, program=program)
    try:
        with Bus(setup.runtime) as bus:
            peer = Peer(setup, bus)
            peer.link()
            yield process, peer
    finally:
        end(process)
