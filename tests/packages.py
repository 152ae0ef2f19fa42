"""Small real packages for tests: policies in a few lines, exported by the project's own exporter, once per test run.

Each function fills ``folder`` with a copy that the test may damage as it likes.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from daemon.export import ExportReport, export_package
from daemon.package import file_sha256
from tests.policies import (
    ACTIONS,
    FULL_FRAME_CONTRACT,
    FULL_FRAME_POLICY,
    FULL_HEIGHT,
    FULL_WIDTH,
    HISTORY,
    PADDING_TOKEN,
    SIDE,
    tiny_contract,
    tiny_policy,
)

__all__ = ["ACTIONS", "FULL_HEIGHT", "FULL_WIDTH", "HISTORY", "PADDING_TOKEN", "SIDE"]

_EXAMPLES = 24


def tiny_package(
    folder: Path, *, stack: int = 1, nan_when_bright: bool = False, burn: int = 0, height: int = SIDE
) -> Path:
    """A policy on a grey view 16 wide that goes where the picture is brightest, by columns 0-4, 5-10, 11-15.

    Args:
        folder: where the package goes; must not exist.
        stack: frames per observation, 100 ms apart; only the newest counts.
        nan_when_bright: NaN logits as soon as a pixel is 255.
        burn: layers of 512x512 computed for nothing, about 0.03 ms each on a fast core.
        height: of the view.

    Returns:
        ``folder``.
    """
    shutil.copytree(_tiny(stack, nan_when_bright, burn, height), folder)
    return folder


def full_frame_package(folder: Path) -> Path:
    """A policy on a whole 640x480 rgb24 picture (NHWC), without history; for measuring."""
    shutil.copytree(_full_frame(), folder)
    return folder


def tiny_model(
    folder: Path, *, stack: int = 1, nan_when_bright: bool = False, burn: int = 0, height: int = SIDE
) -> Path:
    """The model folder behind :func:`tiny_package`, not yet exported; the test may change it first."""
    folder.mkdir(parents=True)
    (folder / "policy.py").write_text(tiny_policy(burn, nan_when_bright), encoding="utf-8")
    rng = np.random.default_rng(1)
    frames = rng.integers(0, 200, (_EXAMPLES, stack, height, SIDE), dtype=np.uint8)
    for index in range(_EXAMPLES):  # one third clearly brightest, in turn
        frames[index, 0, :, (index % 3) * 5 : (index % 3) * 5 + 5] += 50
    history = rng.integers(0, PADDING_TOKEN + 1, (_EXAMPLES, HISTORY), dtype=np.int64)
    np.savez_compressed(folder / "examples.npz", frames=frames, history=history)
    (folder / "model.toml").write_text(tiny_contract(stack, height), encoding="utf-8")
    return folder


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the exporter libraries' own deprecation warnings, which are not this project's to mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def export(folder: Path, out: Path | None = None) -> ExportReport:
    """The project's ``export_package``."""
    with quiet():
        return export_package(folder, out)


def rewrite_manifest(package: Path, **changes: object) -> None:
    """Change top-level keys of a package's manifest."""
    path = package / "manifest.json"
    path.write_bytes(msgspec.json.encode(msgspec.json.decode(path.read_bytes()) | changes))


def pin_hashes(package: Path) -> None:
    """Make the manifest's hashes and sizes those of the files as they are now: a damage made before export."""
    manifest = msgspec.json.decode((package / "manifest.json").read_bytes())
    for key, name in (("model", "model.pte"), ("goldens", "goldens.bin")):
        path = package / name
        manifest[key] |= {"sha256": file_sha256(path), "bytes": path.stat().st_size}
    rewrite_manifest(package, **manifest)


@functools.cache
def shared_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="reflexd-packages-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.cache
def _tiny(stack: int, nan_when_bright: bool, burn: int, height: int) -> Path:
    folder = shared_folder() / f"tiny-{stack}-{nan_when_bright}-{burn}-{height}"
    tiny_model(folder, stack=stack, nan_when_bright=nan_when_bright, burn=burn, height=height)
    return export(folder).package


@functools.cache
def _full_frame() -> Path:
    folder = shared_folder() / "full"
    folder.mkdir()
    (folder / "policy.py").write_text(FULL_FRAME_POLICY, encoding="utf-8")
    frames = np.random.default_rng(1).integers(0, 256, (4, FULL_HEIGHT, FULL_WIDTH, 3), dtype=np.uint8)
    np.savez_compressed(folder / "examples.npz", frames=frames)
    (folder / "model.toml").write_text(FULL_FRAME_CONTRACT, encoding="utf-8")
    return export(folder).package
