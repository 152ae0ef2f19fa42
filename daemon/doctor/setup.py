"""The configuration a doctor looks at, its packages and its latches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sized
from pathlib import Path
from typing import NamedTuple, TypeVar

from daemon.actuate.latch import Latch
from daemon.config import Actuator, ConfigError
from daemon.doctor.finding import Finding, fail, ok, skip, warn
from daemon.doctor.machine import Machine, may
from daemon.package import PackageError, verify_files
from daemon.plan import Plan, load, load_without_packages
from daemon.runtime import SERVICES_CONFIG, SERVICES_STATE, RuntimeFolder
from daemon.sources import SourceTable
from daemon.versions import NOT_INSTALLED, versions

Kind = TypeVar("Kind", bound=SourceTable)


class Setup(NamedTuple):
    """The configuration of this machine.

    Attributes:
        path: the file; None if none was named and there is none for services.
        plan: what it says; without the packages where these are not good, None where the file itself is not.
        complaint: what is wrong with it.
    """

    path: Path | None = None
    plan: Plan | None = None
    complaint: str = ""

    @property
    def actuators(self) -> dict[str, Actuator]:
        """Its actuators, by name."""
        return self.plan.config.actuators if self.plan else {}

    def sources(self, kind: type[Kind]) -> dict[str, Kind]:
        """Its sources of one kind, by name."""
        tables = self.plan.config.sources if self.plan else {}
        return {name: table for name, table in tables.items() if isinstance(table, kind)}


def read_setup(path: Path | None, services: Path = SERVICES_CONFIG) -> Setup:
    """Read a configuration, or the one of the services where none is named; never raises for what it holds."""
    if path is None and not services.exists():
        return Setup()
    path = path or services
    try:
        return Setup(path, load(path))
    except ConfigError as error:
        complaint = str(error)
    try:
        return Setup(path, load_without_packages(path), complaint)
    except ConfigError:
        return Setup(path, None, complaint)


def configuration(_: Machine, setup: Setup) -> Iterator[Finding]:
    """Whether it loads, with its packages."""
    if setup.path is None:
        yield skip(
            "config", f"none was named, and there is no {SERVICES_CONFIG}", "reflexd doctor CONFIG looks at one, too"
        )
    elif setup.complaint:
        yield fail("config", setup.complaint, "mend the file or the package; `reflexd check` says the same")
    elif setup.plan is not None:
        config = setup.plan.config
        parts: dict[str, Sized] = {
            "source": config.sources,
            "world": config.worlds,
            "agent": config.agents,
            "actuator": config.actuators,
        }
        counted = ", ".join(f"{len(found)} {what}{'s' * (len(found) != 1)}" for what, found in parts.items() if found)
        yield ok("config", f"{setup.path}: {config.daemon.name}: {counted}")


def packages(_: Machine, setup: Setup) -> Iterator[Finding]:
    """Whether each package's files are those its manifest pins, and which ExecuTorch it was made with."""
    if setup.plan is None or not setup.plan.manifests:
        yield skip("packages", "no configuration with good manifests")
        return
    folders = {setup.plan.package(agent): manifest for agent, manifest in setup.plan.manifests.items()}
    for folder, manifest in folders.items():
        try:
            verify_files(folder, manifest)
        except PackageError as error:
            yield fail("packages", str(error), "bring the package again; a model that was changed must not act")
            continue
        made_with = manifest.built_with.get("executorch", "an ExecuTorch it does not name")
        size = (manifest.model.bytes + manifest.goldens.bytes) / 2**20
        yield ok("packages", f"{folder}: hashes match, {size:.1f} MiB, made with {made_with}")


def pairing(setup: Setup, worker: dict[str, str]) -> Iterator[Finding]:
    """Whether what made the packages is what runs them; ``worker`` are the native worker's versions, if it runs."""
    installed = versions()["executorch"]
    runs = worker.get("executorch") or installed
    if runs == NOT_INSTALLED:
        return
    if worker and installed not in (NOT_INSTALLED, runs):
        fix = "pip install 'reflexd[export]' and make worker, so that packages are made for what runs them"
        yield warn("pairing", f"the native worker has ExecuTorch {runs}, Python here {installed}", fix)
    for agent, manifest in setup.plan.manifests.items() if setup.plan else ():
        made_with = manifest.built_with.get("executorch", runs)
        if made_with != runs:
            found = f"agent {agent}: its package was made with ExecuTorch {made_with}, the worker has {runs}"
            yield warn("pairing", found, "reflexd check says whether it acts the same; export it anew if not")


def latches(machine: Machine, setup: Setup) -> Iterator[Finding]:
    """Whether an emergency stop is latched."""
    if setup.plan is None:
        yield skip("e-stop", "no configuration: its actuators are not known")
        return
    config = setup.plan.config
    services = machine.path(str(SERVICES_STATE)) / config.daemon.name
    folders = dict.fromkeys((RuntimeFolder(config.daemon).state, services))
    held = [finding for folder in folders for finding in _latched(folder, list(config.actuators))]
    yield from held or [ok("e-stop", f"none is latched: {', '.join(config.actuators)}")]


def _latched(folder: Path, actuators: list[str]) -> Iterator[Finding]:
    try:
        folder.stat()
    except FileNotFoundError:
        return
    except OSError:
        pass
    if not may(folder, os.X_OK):
        yield skip("e-stop", f"user {os.getuid()} may not look into {folder}", "sudo reflexd doctor")
        return
    for name in actuators:
        why = Latch(folder / f"{name}.estop").read()
        if why is not None:
            yield warn("e-stop", f"{name} stands still: {why}", f"reflexd clear {name} && reflexd arm {name}")
