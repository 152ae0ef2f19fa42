"""A folder of pictures, or a donkeycar tub, as a source."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from daemon.capture.raw import BadPicture, RawPicture, packed
from daemon.config import ConfigError
from daemon.sources import Frames

SUFFIXES = (".jpg", ".jpeg", ".png")
_TUB_MANIFEST = "manifest.json"


class FrameFolder:
    """Shows the pictures of a folder one after the other.

    Args:
        table: the source's table.
        folder: where the pictures are.

    Raises:
        ConfigError: no such folder, or no pictures in it.
    """

    late, note = 0, ""

    def __init__(self, table: Frames, folder: Path) -> None:
        self._period_ns = round(1e9 / table.fps)
        self._paths = picture_files(folder)
        self._loop = table.loop
        self._next = 0

    def read(self) -> RawPicture | None:
        """The next picture, a period after the one before."""
        if self._next == len(self._paths) and self._loop:
            self._next = 0
        if self._next == len(self._paths):
            return None
        path = self._paths[self._next]
        self._next += 1
        try:
            with Image.open(path) as image:
                pixels = np.asarray(image if image.mode in ("L", "RGB") else image.convert("RGB"))
        except (OSError, SyntaxError, ValueError) as error:
            raise BadPicture("broken", f"{path}: {error}", self._period_ns) from None
        return packed(pixels, None, self._period_ns)

    def close(self) -> None:
        """Nothing is held."""


def picture_files(folder: Path) -> list[Path]:
    """The pictures of a folder in their order.

    Raises:
        ConfigError: no such folder, no pictures in it, or a tub whose manifest or catalogue cannot be read.
    """
    try:
        if (folder / _TUB_MANIFEST).exists():
            paths = [record.picture for record in tub_records(folder)]
        else:
            files = [path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES]
            paths = sorted((path for path in files if not path.name.startswith(".")), key=_natural_order)
    except OSError as error:
        raise ConfigError(f"path = {str(folder)!r}: expected a folder of pictures: {error}") from None
    if not paths:
        raise ConfigError(f"path = {str(folder)!r}: no pictures here ({', '.join(SUFFIXES)})")
    return paths


class TubRecord(NamedTuple):
    """A record of a donkeycar tub: its picture's file, and all its values by name (``user/angle`` and so on)."""

    picture: Path
    values: dict[str, Any]


def tub_records(folder: Path) -> list[TubRecord]:
    """The records of a donkeycar tub, version 2, in their order, without the deleted ones.

    Its manifest's lines are input names, input types and, last, the catalogues.

    Raises:
        OSError: a file of it cannot be read.
        ConfigError: the manifest or a catalogue is not a tub's.
    """
    manifest = folder / _TUB_MANIFEST
    try:
        lines = [json.loads(line) for line in manifest.read_text(encoding="utf-8").splitlines() if line.strip()]
        image_key = lines[0][lines[1].index("image_array")]
        deleted = set(lines[-1].get("deleted_indexes", []))
        records = []
        for catalogue in lines[-1]["paths"]:
            for line in (folder / Path(catalogue).name).read_text(encoding="utf-8").splitlines():
                values = json.loads(line)
                if values["_index"] not in deleted:
                    records.append(TubRecord(folder / "images" / Path(values[image_key]).name, values))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"{manifest}: not the manifest of a donkeycar tub: {error!r}") from None
    return records


def _natural_order(path: Path) -> list[tuple[int, str]]:
    """A key by which ``2.jpg`` comes before ``10.jpg``."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", path.name)]
