"""What is left behind: processes by a supervisor that died, sockets and frame rings by processes that ended."""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path

from daemon.process import LIFELINE_VARIABLE
from daemon.runtime import InstanceLock, RuntimeFolder, RuntimeFolderError
from daemon.table import Entry

Say = Callable[[str], None]
"""Takes a line of log."""

GONE_WITHIN_S = 2.0
"""A killed process lets go of its lock long before this, unless the kernel holds it."""
_LOOKS = 20
_LOOK_EVERY_S = 0.01
RUN_LOCK = "run"
"""Name of the supervisor's own lock."""


def clear_leftovers(runtime: RuntimeFolder, say: Say) -> None:
    """Kill what an earlier supervisor has started and left. The caller holds that supervisor's lock.

    Raises:
        RuntimeFolderError: a lock is held by a process no supervisor has started, such as a systemd service of the
            same configuration, or one that does not die.
    """
    for lock in sorted((runtime.folder / "locks").iterdir()):
        owner = None if lock.name == RUN_LOCK else _owner(lock)
        if owner is None:
            continue
        if owner == 0:
            raise RuntimeFolderError(f"{lock}: held by a process that has not written its pid: `fuser {lock}` names it")
        if not _was_supervised(owner):
            raise RuntimeFolderError(
                f"{lock}: held by process {owner}, which no `reflexd run` has started: "
                f"already running as a service or by hand? Stop that one first (kill {owner})"
            )
        say(f"WARNING run: {lock.name} (pid {owner}) is left over from a run whose supervisor died: killed")
        _kill_group(owner)
        _wait_for(lock, owner)


def _owner(lock: Path) -> int | None:
    """The pid of the process that holds the lock, 0 if it does not say, None if the lock is free."""
    probe = InstanceLock(lock)
    for _ in range(_LOOKS):
        owner = probe.take()
        probe.release()
        if owner != 0:
            break
        time.sleep(_LOOK_EVERY_S)  # it has just taken the lock and is about to write its pid
    return owner


def _was_supervised(pid: int) -> bool:
    """Whether a supervisor has started this process: it has given it a lifeline."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return True  # it has just gone, which is all we want of it
    except OSError:
        return False
    return any(variable.startswith(f"{LIFELINE_VARIABLE}=".encode()) for variable in variables)


def _kill_group(pid: int) -> None:
    """Kill the process and, if it leads its group as every supervised one does, the group."""
    try:
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _wait_for(lock: Path, pid: int) -> None:
    deadline = time.monotonic() + GONE_WITHIN_S
    while _owner(lock) is not None:
        if time.monotonic() > deadline:
            raise RuntimeFolderError(f"{lock}: process {pid} still holds it after SIGKILL: the kernel holds it; reboot")
        time.sleep(_LOOK_EVERY_S)


def remove_leavings(table: list[Entry]) -> None:
    """Remove the sockets and rings of these processes, which have all ended.

    Lock files stay: who removes one that another process is about to lock lets two owners in.
    """
    for entry in table:
        for path in entry.leaves:
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:
                continue
            if stat.S_ISSOCK(mode) or stat.S_ISREG(mode):
                path.unlink(missing_ok=True)
