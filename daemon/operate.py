"""``reflexd estop|clear|arm|disarm|status``: find the running actuators of this user and command them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from daemon.commander import CommandError, command
from daemon.config import Daemon
from daemon.messages import COMMAND_EXPIRY_MS, Operation
from daemon.runtime import SERVICES_RUNTIME, RuntimeFolder, owner_of, runtime_root

_PREFIX = "command@"
_AT_ONCE = 16


class Target(msgspec.Struct, frozen=True):
    """An actuator's command socket in the runtime folder of its daemon."""

    runtime: Path
    actuator: str

    @property
    def name(self) -> str:
        """``<daemon>/<actuator>``, for people."""
        return f"{self.runtime.name}/{self.actuator}"


class Answer(msgspec.Struct, frozen=True):
    """What came of a command for one actuator."""

    target: Target
    done: bool
    text: str


def running_daemons() -> list[Path]:
    """Runtime folders of this user's daemons and of the services, left out those of which no process lives."""
    roots = dict.fromkeys((runtime_root(), SERVICES_RUNTIME))
    folders = [folder for root in roots for folder in (root, *_listing(root))]
    return [folder for folder in folders if _has_life(folder)]


def folder_of(daemon: Daemon) -> Path:
    """Where a configured daemon runs: as a service if one of its name does and it is not bound to a folder."""
    service = SERVICES_RUNTIME / daemon.name
    return service if not daemon.runtime and _has_life(service) else RuntimeFolder(daemon).folder


def targets(folders: list[Path]) -> list[Target]:
    """Every actuator that has a command socket in one of the runtime folders."""
    found = []
    for folder in folders:
        sockets = [path for path in _listing(folder) if path.name.startswith(_PREFIX) and path.is_socket()]
        found += [Target(folder, path.name.removeprefix(_PREFIX)) for path in sockets]
    return found


def operate(chosen: list[Target], operation: Operation) -> list[Answer]:
    """Command all of them at the same time: a stop must not wait behind an actuator that does not answer."""
    if not chosen:
        return []
    with ThreadPoolExecutor(min(_AT_ONCE, len(chosen))) as pool:
        return list(pool.map(lambda target: _operate(target, operation), chosen))


def _operate(target: Target, operation: Operation) -> Answer:
    runtime = RuntimeFolder(Daemon(name="any", runtime=str(target.runtime)))
    try:
        reply = command(runtime, target.actuator, operation, COMMAND_EXPIRY_MS)
    except CommandError as error:
        return Answer(target, False, str(error))
    return Answer(target, reply.status == "done", " | ".join(filter(None, (reply.detail, reply.state))))


def _has_life(folder: Path) -> bool:
    return any(owner_of(lock) is not None for lock in _listing(folder / "locks"))


def _listing(folder: Path) -> Iterator[Path]:
    try:
        yield from sorted(folder.iterdir())
    except OSError:
        return
