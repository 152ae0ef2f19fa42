"""The models folder: packages that come in parts from another machine, and are there whole or not at all.

A package does not change once it is there: another build of a model is another package with a name of its own.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from daemon.package import GOLDENS_FILE, MANIFEST_FILE, MODEL_FILE, PackageError, read_manifest, verify_files
from daemon.remote import Models, ModelThere, PushModel

FILES = (MANIFEST_FILE, MODEL_FILE, GOLDENS_FILE)
MAX_BYTES = 512 * 1024 * 1024
"""Of one package."""
LEAVE_FREE_BYTES = 64 * 1024 * 1024
"""On the disk: latches and the log need room."""


class ModelError(ValueError):
    """Something that cannot be done with a package; the text says why and what to do."""


class ModelsFolder:
    """The packages of a device that agents can be told to act by.

    Args:
        folder: where they are; made when the first one comes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def list(self) -> Models:
        """All packages that are whole."""
        found = []
        for path in sorted(self._folder.glob("[a-z]*")):
            try:
                manifest = read_manifest(path)
            except PackageError as error:
                found.append(ModelThere(package=path.name[:32], detail=str(error)[:512]))
                continue
            size = sum((path / name).stat().st_size for name in FILES if (path / name).exists())
            sha256 = manifest.model.sha256
            found.append(ModelThere(package=path.name[:32], model=manifest.name[:64], sha256=sha256, bytes=size))
        return Models(models=found)

    def push(self, part: PushModel) -> str:
        """Write a part; return how much of the file is there.

        Raises:
            ModelError: the package is there already, the part leaves a hole, or there is no room.
        """
        if (self._folder / part.package).exists():
            raise ModelError(f"{part.package} is there already and does not change: choose another name, or remove it")
        if part.offset + len(part.data) > MAX_BYTES:
            raise ModelError(f"{part.package}/{part.file}: more than {MAX_BYTES // 2**20} MiB")
        coming = self._coming(part.package)
        try:
            coming.mkdir(mode=0o755, parents=True, exist_ok=True)
            if shutil.disk_usage(coming).free < LEAVE_FREE_BYTES + len(part.data):
                raise ModelError(f"{self._folder}: {LEAVE_FREE_BYTES // 2**20} MiB must stay free: remove models")
            return _write(coming / part.file, part.offset, part.data)
        except OSError as error:
            raise ModelError(f"{coming / part.file}: {error.strerror}") from None

    def finish(self, package: str) -> str:
        """Check what has come against its manifest and let it be chosen from now on.

        Raises:
            ModelError: something is missing or is not what the manifest says.
        """
        coming, there = self._coming(package), self._folder / package
        if there.exists():
            raise ModelError(f"{package} is there already")
        try:
            verify_files(coming, read_manifest(coming))
            for name in (*FILES, "."):
                _sync(coming / name)
            coming.rename(there)
            _sync(self._folder)
        except PackageError as error:
            raise ModelError(str(error)) from None
        except OSError as error:
            raise ModelError(f"{there}: {error.strerror}") from None
        return f"{there}: can be activated"

    def remove(self, package: str, in_use: set[str]) -> str:
        """Remove a package that no agent acts by, or what has come of one.

        Raises:
            ModelError: it is not there, or it is in use.
        """
        if package in in_use:
            raise ModelError(f"{package} is in use: activate another one first")
        found = [path for path in (self._folder / package, self._coming(package)) if path.exists()]
        if not found:
            raise ModelError(f"no package {package} in {self._folder}")
        for path in found:
            shutil.rmtree(path, ignore_errors=True)
        return f"{package} removed"

    def _coming(self, package: str) -> Path:
        return self._folder / f".{package}.coming"


def _write(path: Path, offset: int, data: bytes) -> str:
    """Write a part at its place; one that comes twice changes nothing."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        if offset > size:
            raise ModelError(f"{path.name}: part at {offset}, and {size} bytes are there: send what is between first")
        os.pwrite(descriptor, data, offset)
        return f"{max(size, offset + len(data))} bytes of {path.name} there"
    finally:
        os.close(descriptor)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
