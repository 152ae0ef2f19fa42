"""Which versions this installation has, read from package metadata: nothing heavy is imported for it."""

from __future__ import annotations

import importlib.metadata
import platform

import daemon

PACKAGES = ("torch", "executorch", "numpy", "pyzmq", "msgpack")
NOT_INSTALLED = "not installed"


def versions() -> dict[str, str]:
    """Versions of reflexd, of Python and of the packages that matter to a measurement."""
    return {
        "reflexd": daemon.__version__,
        "python": platform.python_version(),
        **{package: _version(package) for package in PACKAGES},
    }


def worker_kinds(found: dict[str, str]) -> dict[str, str]:
    """The kinds of inference worker, each with whether this installation has it; ``found`` is :func:`versions`."""
    missing = [package for package in ("torch", "executorch") if found[package] == NOT_INSTALLED]
    return {"python": f"needs {', '.join(missing)}" if missing else "available", "native": "not built"}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return NOT_INSTALLED
