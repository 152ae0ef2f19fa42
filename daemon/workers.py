"""Which inference worker runs, native or Python, and why: decided once per process, from what is installed.

The native worker is a program (``cross/``) built from the same declarations as this side; one that was built from
others, or does not run on this machine, is not used, and the reason is told. Nothing here imports torch.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import msgspec

import daemon
from daemon.config import ConfigError, WorkerKind, WorkerWanted
from daemon.declarations import declarations_digest
from daemon.frames import RING_VERSION
from daemon.messages import PROTOCOL
from daemon.oneshot import OneShot
from daemon.package import MANIFEST_VERSION

VARIABLE = "REFLEXD_WORKER"
"""Environment: path of a native worker, in place of those below."""
INSTALLED = Path("/usr/lib/reflexd/worker/reflexd-worker")
"""Where a package of the operating system puts it."""
CHECKOUT = Path(daemon.__file__).parents[1]
PROBE_LIMIT_S = 5.0
"""A binary must have told its versions by then; it takes milliseconds, but may come from a slow SD card."""

_BUILD = "make worker"
_INSTALL_PYTHON = "pip install 'reflexd[export]'"


class Candidate(NamedTuple):
    """A path where a native worker may be, and what to do if it does not fit."""

    path: Path
    remedy: str


class Worker(msgspec.Struct, frozen=True):
    """The worker to use.

    Attributes:
        kind: which implementation.
        path: the binary, or the interpreter.
        why: why this one.
        versions: what it is made of; of the native one only.
    """

    kind: WorkerKind
    path: str
    why: str
    versions: dict[str, str] = {}

    @property
    def line(self) -> str:
        """One line for the log."""
        if self.kind == "native":
            return f"worker: native {_versions_text(self.versions)}, {self.path}"
        return f"worker: python: {self.why}"

    def serve_command(self, link: int, rings: Path) -> list[str]:
        """Command that serves the messages of the link with this descriptor."""
        program = [self.path] if self.kind == "native" else [self.path, "-P", "-m", "daemon.infer.worker"]
        return [*program, "--fd", str(link), "--rings", str(rings)]

    def check_command(self, package: Path, threads: int, measured: bool = True) -> list[str]:
        """Command that checks a package and prints a ``daemon.infer.verify.Verdict``, with its latency if wanted."""
        native, python = [self.path, "--check"], [self.path, "-P", "-m", "daemon.infer.verify_child"]
        program = native if self.kind == "native" else python
        return [*program, str(package), "--threads", str(threads), *([] if measured else ["--unmeasured"])]


class Unfit(Exception):
    """A native worker that cannot be used here; the text says which, why and what to do."""


class _Told(msgspec.Struct):
    """What a native worker says of itself (``--version --json``), as far as it matters here."""

    worker: str
    protocol: int
    messages: str
    ring: int
    manifest: int
    executorch: str
    git: str = ""


def choose_worker(wanted: WorkerWanted) -> Worker:
    """Decide which worker runs.

    Args:
        wanted: ``infer.worker`` of the configuration.

    Raises:
        ConfigError: there is none, or not the one wanted; says what to do.
    """
    lacking = python_lacks()
    if wanted == "python":
        if lacking:
            raise ConfigError(f"infer.worker = 'python': {lacking}")
        return python_worker("infer.worker = 'python'")
    try:
        return find_native()
    except Unfit as unfit:
        if wanted == "native":
            raise ConfigError(f"infer.worker = 'native': {unfit}") from None
        if lacking:
            raise ConfigError(f"infer.worker = 'auto': neither worker can run: native: {unfit}; {lacking}") from None
        return python_worker(str(unfit))


def python_worker(why: str) -> Worker:
    """The Python worker."""
    return Worker("python", sys.executable, why)


def python_lacks() -> str:
    """What the Python worker needs and this installation lacks, with what to do; empty if nothing."""
    missing = [package for package in ("torch", "executorch") if find_spec(package) is None]
    return f"the Python worker needs {' and '.join(missing)}: {_INSTALL_PYTHON}" if missing else ""


def candidates(environment: Mapping[str, str]) -> list[Candidate]:
    """Where a native worker may be, best first. One named by the environment is the only one."""
    if named := environment.get(VARIABLE):
        return [Candidate(Path(named).absolute(), f"{VARIABLE} names it")]
    built = CHECKOUT / "cross" / "dist" / platform.machine() / INSTALLED.name
    places = [Candidate(INSTALLED, "install the version that belongs to this daemon"), Candidate(built, _BUILD)]
    return [place for place in places if place.path.exists()]


def find_native() -> Worker:
    """The first native worker that fits.

    Raises:
        Unfit: none; the text is about the first there is.
    """
    complaints = []
    for place in candidates(os.environ):
        try:
            return probe(place)
        except Unfit as unfit:
            complaints.append(unfit)
    if complaints:
        raise complaints[0]
    can_build = (CHECKOUT / "cross" / "CMakeLists.txt").exists()
    raise Unfit(f"no native worker is built: {_BUILD}" if can_build else f"no native worker is installed ({INSTALLED})")


def probe(place: Candidate, limit_s: float = PROBE_LIMIT_S) -> Worker:
    """Ask a binary what it is; a :class:`Worker` if it fits this daemon.

    Raises:
        Unfit: it does not run, does not answer in time, or was built from something else.
    """
    asked = OneShot([str(place.path), "--version", "--json"], limit_s)
    try:
        asked.start()
    except OSError as error:
        raise Unfit(f"{place.path} cannot be run: {error.strerror}: {place.remedy}") from None
    digest = declarations_digest()  # takes as long as the answer: both at once
    outcome = asked.wait()
    if outcome.failure or outcome.status != 0:
        failure = outcome.failure or f"left with status {outcome.status}"
        last = "".join(f" ({line.strip()})" for line in outcome.log.splitlines()[-1:])
        raise Unfit(f"{place.path} --version --json {failure}{last}: {place.remedy}")
    try:
        told = msgspec.json.decode(outcome.answer, type=_Told)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unfit(f"{place.path} is not a worker of this daemon: {error}: {place.remedy}") from None
    if (complaint := _mismatch(told, digest)) is not None:
        raise Unfit(f"{place.path} {complaint}: {place.remedy}")
    return Worker("native", str(place.path), "it fits this daemon", _versions(told))


def worker_kinds() -> dict[str, str]:
    """Both kinds of worker, each with what this installation has of it, for people."""
    try:
        native = find_native()
        text = f"{_versions_text(native.versions)}, {native.path}"
    except Unfit as unfit:
        text = str(unfit)
    return {"native": text, "python": python_lacks() or "available"}


def _mismatch(told: _Told, digest: str) -> str | None:
    """How the binary differs from this side, or None."""
    for what, theirs, ours in (
        ("speaks protocol", told.protocol, PROTOCOL),
        ("reads frame rings of version", told.ring, RING_VERSION),
        ("reads manifests of version", told.manifest, MANIFEST_VERSION),
    ):
        if theirs != ours:
            return f"{what} {theirs}, this daemon {ours}"
    return None if told.messages == digest else "was built from other message declarations"


def _versions(told: _Told) -> dict[str, str]:
    return {"worker": told.worker, "executorch": told.executorch, **({"git": told.git} if told.git else {})}


def _versions_text(versions: dict[str, str]) -> str:
    worker, *others = versions.items()
    return f"{worker[1]} ({', '.join(f'{name} {version}' for name, version in others)})"
