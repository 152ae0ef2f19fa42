"""Writing a package so that nobody ever sees half of one: beside its place, checked, then exchanged in one step."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib.metadata
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from daemon import __version__
from daemon.export.lower import Program
from daemon.export.parity import Comparison
from daemon.export.policy import Observation
from daemon.export.recipe import ExportError, Recipe, draft_manifest
from daemon.package import (
    GOLDENS_FILE,
    MANIFEST_FILE,
    MODEL_FILE,
    FileEntry,
    Goldens,
    Manifest,
    file_sha256,
    read_goldens,
    read_manifest,
    verify_files,
)

MAX_GOLDENS = 8
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextlib.contextmanager
def staging(target: Path) -> Iterator[Path]:
    """An empty folder beside ``target`` to build the package in; it is gone afterwards, whatever happened.

    Raises:
        ExportError: ``target`` is something else than a package, which must not be replaced.
    """
    if target.exists() and not (target / MANIFEST_FILE).is_file() and not _is_empty_folder(target):
        raise ExportError(f"{target}: exists and is not a package (no {MANIFEST_FILE}); choose another --out")
    folder: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        folder.chmod(0o755)  # mkdtemp's 0700 would lock out the device's user
        yield folder
    except OSError as error:
        raise ExportError(f"{target}: cannot be written: {error.strerror or error}; nothing was changed") from error
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def publish(
    folder: Path, target: Path, recipe: Recipe, program: Program, observations: list[Observation], result: Comparison
) -> Manifest:
    """Complete the package in ``folder`` (which holds the program), the manifest last, and put it at ``target``."""
    count = min(MAX_GOLDENS, len(observations))
    chosen = np.linspace(0, len(observations) - 1, count).round().astype(int).tolist()
    _write(folder / GOLDENS_FILE, _goldens(observations, result, chosen))
    manifest = _manifest(folder, recipe, program, result, count)
    _write(folder / MANIFEST_FILE, _pretty(manifest))
    _check(folder)
    _exchange(folder, target)
    return manifest


def _goldens(observations: list[Observation], result: Comparison, chosen: list[int]) -> bytes:
    """Inputs and the runtime's output, case by case, as ``daemon.package.read_goldens`` expects them."""
    parts: list[bytes] = []
    for index in chosen:
        parts += [tensor.numpy().tobytes() for tensor in observations[index]]
        parts.append(result.outputs[index].tobytes())
    return b"".join(parts)


def _manifest(folder: Path, recipe: Recipe, program: Program, result: Comparison, count: int) -> Manifest:
    model, goldens = (_entry(folder / name) for name in (MODEL_FILE, GOLDENS_FILE))
    return msgspec.structs.replace(
        draft_manifest(recipe),
        model=model,
        goldens=Goldens(sha256=goldens.sha256, bytes=goldens.bytes, count=count, tolerance=recipe.gates.max_abs_error),
        operators=program.operators,
        backends=program.backends,
        built_with={
            "executorch": importlib.metadata.version("executorch"),
            "reflexd": __version__,
            "torch": importlib.metadata.version("torch"),
        },
        parity=result.parity,
        latency=result.latency,
    )


def _pretty(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest, order="sorted"), indent=2) + b"\n"


def _check(folder: Path) -> None:
    """Read the package as the device will, before it takes its place."""
    manifest = read_manifest(folder)
    verify_files(folder, manifest)
    for _ in read_goldens(folder, manifest):
        pass


def _entry(path: Path) -> FileEntry:
    return FileEntry(sha256=file_sha256(path), bytes=path.stat().st_size)


def _write(path: Path, data: bytes) -> None:
    """Write and wait for the disk: the exchange that follows must not get there first."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _exchange(folder: Path, target: Path) -> None:
    """Put ``folder`` at ``target`` in one step; an older package ends up in ``folder``."""
    if not target.exists():
        folder.rename(target)
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, os.fsencode(folder), _AT_FDCWD, os.fsencode(target), _RENAME_EXCHANGE):
        reason = errno.errorcode.get(ctypes.get_errno(), str(ctypes.get_errno()))
        raise ExportError(f"{target}: this file system cannot exchange folders ({reason}); remove it and export again")


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())
