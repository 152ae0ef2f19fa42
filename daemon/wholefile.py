"""Files that are written whole or not at all: beside their place first, then into it."""

from __future__ import annotations

import os
from pathlib import Path


def fresh_name(path: Path) -> Path:
    """Where this process writes what is to become ``path``."""
    return path.with_name(f".{path.name}.{os.getpid()}.new")


def replace_file(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Write ``path`` whole or not at all; ``durable``: what was written is on the disk when it takes its place.

    Raises:
        OSError: not possible; what was there before is untouched.
    """
    fresh = fresh_name(path)
    try:
        with fresh.open("wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
