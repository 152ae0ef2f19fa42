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


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return NOT_INSTALLED
