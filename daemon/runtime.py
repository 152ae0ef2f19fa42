"""Where a run lives on disk: the runtime folder (sockets, locks, rings), the state folder, and who owns them."""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from daemon.config import Daemon

if TYPE_CHECKING:  # it imports numpy and Pillow, a second on a Pi for which `reflexd estop` must not wait
    from daemon.views import View

MAX_SOCKET_PATH = 107
"""Bytes of a Unix socket's path (sun_path, unix(7)), less the closing zero."""
SERVICES_CONFIG = Path("/etc/reflexd/reflexd.toml")
SERVICES_STATE = Path("/var/lib/reflexd")
"""``StateDirectory=`` of the units."""
SERVICES_RUNTIME = Path("/run/reflexd")
"""``RuntimeDirectory=`` of the units: where the daemons that systemd runs have their runtime folders."""


class RuntimeFolderError(OSError):
    """A runtime or state folder that cannot be used; the text says why and what to do."""


class RuntimeFolder:
    """Paths of one daemon's run.

    Args:
        daemon: the configuration's ``[daemon]`` table. Without ``runtime`` the folder is below
            ``$RUNTIME_DIRECTORY`` or ``$XDG_RUNTIME_DIR``, else below ``/dev/shm``; without ``state`` below
            ``$STATE_DIRECTORY`` or ``$XDG_STATE_HOME``.
    """

    def __init__(self, daemon: Daemon) -> None:
        self.folder = Path(daemon.runtime) if daemon.runtime else runtime_root() / daemon.name
        self.state = Path(daemon.state) if daemon.state else _state_root() / daemon.name
        self.models = self.state.parent / "models"
        """Packages an agent can be told to act by while it runs; of all daemons of this user."""

    def create(self) -> None:
        """Make the folders, for this user only.

        Raises:
            RuntimeFolderError: not possible, not ours, or too long a path for a socket.
        """
        for folder in (self.folder, self.folder / "rings", self.folder / "locks", self.state):
            _make_private(folder)
        longest = self.endpoint("health", "simulate@" + "a" * 32).removeprefix("ipc://")
        if len(os.fsencode(longest)) > MAX_SOCKET_PATH:
            raise RuntimeFolderError(
                f"{self.folder}: too long for sockets below it ({MAX_SOCKET_PATH} bytes at most): "
                "set daemon.runtime to a shorter path"
            )

    def endpoint(self, topic: str, instance: str) -> str:
        """ZeroMQ address of a topic's instance."""
        return f"ipc://{self.folder / f'{topic}@{instance}'}"

    @property
    def rings(self) -> Path:
        """Folder of the frame rings."""
        return self.folder / "rings"

    def ring(self, source: str, view: View) -> Path:
        """File of the ring that carries ``view`` of ``source``."""
        return self.rings / f"{source}.{view.name}"

    def lock(self, process: str) -> Path:
        """Lock file of a process of this run."""
        return lock_in(self.folder, process)


class InstanceLock:
    """A lock a process holds as long as it lives: its sockets and rings have one owner.

    The kernel drops it with the process, however that ends; the file with the owner's pid stays behind harmlessly.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def __enter__(self) -> InstanceLock:
        owner = self.take()
        if owner is not None:
            raise RuntimeFolderError(f"{self._path}: held by process {owner}: already running; stop that one first")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()

    def take(self) -> int | None:
        """Take the lock; return None, or the pid of the process that has it."""
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(self._fd, 32, 0)
            self.release()
            return int(owner) if owner.strip().isdigit() else 0
        with suppress(OSError):  # a full file system must not keep an actuator's process from starting again
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, str(os.getpid()).encode(), 0)
        return None

    def release(self) -> None:
        """Give the lock up."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def lock_in(folder: Path, process: str) -> Path:
    """Lock file of a process in any daemon's runtime folder."""
    return folder / "locks" / process


def owner_of(lock: Path) -> int | None:
    """The process a lock file names, if it lives. Trying the lock instead could make its owner fail to start."""
    try:
        pid = int(lock.read_text())
    except (OSError, ValueError):
        return None
    try:
        os.kill(pid, 0)
    except PermissionError:
        return pid  # it lives, as another user
    except OSError:
        return None
    return pid


def runtime_root() -> Path:
    """Folder below which every daemon of this user has its runtime folder, unless its configuration says otherwise."""
    for variable in ("RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"):
        if os.environ.get(variable):
            return Path(os.environ[variable]) / ("" if variable == "RUNTIME_DIRECTORY" else "reflexd")
    return Path("/dev/shm") / f"reflexd-{os.getuid()}"  # noqa: S108 - a tmpfs on every Linux; made private below


def _state_root() -> Path:
    if os.environ.get("STATE_DIRECTORY"):
        return Path(os.environ["STATE_DIRECTORY"])
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "reflexd"


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise RuntimeFolderError(f"{folder}: cannot make this folder: {error.strerror}") from None
    if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode):
        raise RuntimeFolderError(f"{folder}: belongs to user {status.st_uid}, not to {os.getuid()}: choose another")


def probe_runtime(folder: Path) -> None:
    """Write once: a read-only or full file system is an error before a run starts.

    Not for a single process that starts anew in mid-run: an actuator's first duty is to be neutral.

    Raises:
        RuntimeFolderError: writing failed.
    """
    probe = folder / "locks" / ".probe"
    try:
        probe.write_bytes(b"x" * 4096)
        probe.unlink()
    except OSError as error:
        raise RuntimeFolderError(f"{folder}: cannot write here: {error.strerror}: free space or remount it") from None
