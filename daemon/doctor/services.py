"""What runs and what is left over: runs of this user, folders of runs that have crashed, the units of systemd."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from daemon.doctor.finding import Finding, fail, ok, skip, warn
from daemon.doctor.machine import Machine, bytes_text, may
from daemon.doctor.setup import Setup
from daemon.leftovers import RUN_LOCK
from daemon.runtime import SERVICES_RUNTIME, RuntimeFolder, owner_of, runtime_root

PROPERTIES = (
    "Id",
    "LoadState",
    "ActiveState",
    "SubState",
    "UnitFileState",
    "NRestarts",
    "StatusText",
    "NeedDaemonReload",
)


# --- runs --------------------------------------------------------------------------------------------------


def runs(machine: Machine, setup: Setup) -> Iterator[Finding]:
    """The runtime folders: what lives in them, and what nobody owns any more."""
    roots = [runtime_root(), machine.path(str(SERVICES_RUNTIME))]
    folders = [RuntimeFolder(setup.plan.config.daemon).folder] if setup.plan else []
    folders += [folder for root in roots if may(root, os.R_OK | os.X_OK) for folder in sorted(root.iterdir())]
    found = [finding for folder in dict.fromkeys(folders) for finding in runtime_folder(folder)]
    hidden = [root for root in roots if root.exists() and not may(root, os.R_OK | os.X_OK)]
    found += [skip("runs", f"user {os.getuid()} may not look into {root}", "sudo reflexd doctor") for root in hidden]
    yield from found or [ok("runs", "none, and nothing left over")]


def runtime_folder(folder: Path) -> Iterator[Finding]:
    """What is in one folder; nothing if it is no runtime folder or holds nothing but locks, which always stay."""
    locks = sorted((folder / "locks").glob("*")) if (folder / "locks").is_dir() else []
    owners = {lock.name: pid for lock in locks if (pid := owner_of(lock)) is not None}
    left = list(_left(folder))
    if owners:
        yield from _living(folder, owners, {lock.name for lock in locks})
    elif left and locks:
        size = bytes_text(sum(path.lstat().st_blocks * 512 for path in left))
        found = f"{folder}: a run has crashed and left {len(left)} sockets and frame rings, {size}"
        yield warn("runs", found, f"the next start takes them over; or rm -r {folder}")


def _living(folder: Path, owners: dict[str, int], locks: set[str]) -> Iterator[Finding]:
    processes = ", ".join(f"{name} {pid}" for name, pid in owners.items())
    if RUN_LOCK in locks and RUN_LOCK not in owners:
        found = f"{folder}: the supervisor is gone and left {processes}"
        yield fail("runs", found, "reflexd run, which ends them first; or kill them")
    else:
        yield ok("runs", f"{folder.name} runs: {processes}")


def _left(folder: Path) -> Iterator[Path]:
    for path in [*folder.glob("*@*"), *folder.glob("rings/*")]:
        mode = path.lstat().st_mode
        if stat.S_ISSOCK(mode) or stat.S_ISREG(mode):
            yield path


# --- units -------------------------------------------------------------------------------------------------


def units(machine: Machine, _: Setup) -> Iterator[Finding]:
    """What systemd says of the services."""
    told = machine.answer(
        "systemctl", "show", "--no-pager", f"--property={','.join(PROPERTIES)}", "reflexd.target", "reflexd-*"
    )
    if told is None:
        yield skip("units", "systemd does not run here, or does not answer")
        return
    found = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in told.split("\n\n")]
    there = [unit for unit in found if unit.get("LoadState") not in (None, "not-found")]
    if not there:
        yield skip("units", "reflexd is not installed as a service", "docs/systemd.md")
    for unit in there:
        yield unit_line(unit)


def unit_line(unit: dict[str, str]) -> Finding:
    """One unit's line, of the properties systemctl shows."""
    name, active, load = unit["Id"], unit.get("ActiveState", ""), unit.get("LoadState", "")
    restarts = int(unit.get("NRestarts") or 0)
    text = f"{name}: {active} ({unit.get('SubState', '')})"
    text += f", restarted {restarts} times" if restarts else ""
    text += f": {unit['StatusText']}" if unit.get("StatusText") else ""
    log = f"journalctl -b -u {name} -n 50"
    if active == "failed" or load != "loaded":
        return fail("units", text if load == "loaded" else f"{text}, {load}", log)
    if unit.get("NeedDaemonReload") == "yes":
        return warn("units", f"{text}; its file has changed since", "sudo systemctl daemon-reload, and restart it")
    if restarts or active in ("activating", "deactivating"):
        return warn("units", text, log)
    if active == "inactive" and name == "reflexd.target":
        return warn("units", f"{text}, {unit.get('UnitFileState')}", "sudo systemctl enable --now reflexd.target")
    return ok("units", text)
