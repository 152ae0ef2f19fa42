"""Reading a donkeycar tub: the pictures as the policy will see them, and how a person steered at each."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from daemon.capture.frames import TubRecord, tub_records
from daemon.export.recipe import RECIPE_FILE, read_recipe
from daemon.package import FrameInput
from daemon.pixels import Pixels, fit
from daemon.views import View
from models.drive.steering import Tokens, histories, to_tokens

FOLDER = Path(__file__).parent
ANGLE, MODE = "user/angle", "user/mode"


class TubError(ValueError):
    """A tub that cannot be learned from; the text says what was expected and what was found."""


class Drive(NamedTuple):
    """A recorded drive, record by record in time.

    Attributes:
        frames: ``uint8 [N, height, width, 3]`` in the policy's view.
        tokens: ``int64 [N]``, what was executed.
        history: ``int64 [N, HISTORY]``, what had been executed before.
    """

    frames: Pixels
    tokens: Tokens
    history: Tokens

    def part(self, begin: int, end: int) -> Drive:
        """The records from ``begin`` up to ``end``."""
        return Drive(self.frames[begin:end], self.tokens[begin:end], self.history[begin:end])


def view() -> View:
    """The policy's view of a picture."""
    (frame,) = (spec for spec in read_recipe(FOLDER).inputs if isinstance(spec, FrameInput))
    return frame.view


def read(tub: Path) -> Drive:
    """Read all records of a tub that a person steered.

    Raises:
        TubError: no such tub, a record without an angle, or a picture that cannot be read or is too small.
        ConfigError: its manifest or catalogue is not a tub's.
    """
    try:
        records = [record for record in tub_records(tub) if record.values.get(MODE, "user") == "user"]
    except OSError as error:
        raise TubError(f"{tub}: expected an unpacked donkeycar tub (version 2): {error}") from None
    if not records:
        raise TubError(f"{tub}: no record in it that a person steered ({MODE} is 'user')")
    tokens = to_tokens(np.array([_angle(record) for record in records]))
    values = [record.values for record in records]
    follows = np.array([False, *(_follows(before, after) for before, after in pairwise(values))])
    seen = view()
    frames = np.stack([_frame(record.picture, seen) for record in records])
    return Drive(frames, tokens, histories(tokens, follows))


def _follows(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """No record was left out between the two, and the car was not switched off."""
    same_session = before.get("_session_id") == after.get("_session_id")
    return bool(after["_index"] == before["_index"] + 1 and same_session)


def _angle(record: TubRecord) -> float:
    angle = record.values.get(ANGLE)
    if not isinstance(angle, int | float) or not np.isfinite(angle):
        raise TubError(f"{record.picture.name}: expected a number from -1 to 1 as {ANGLE}, found {angle!r}")
    return float(angle)


def _frame(path: Path, seen: View) -> Pixels:
    """A picture fitted as the daemon fits it."""
    try:
        with Image.open(path) as image:
            return fit(np.asarray(image.convert("RGB")), seen)
    except (OSError, SyntaxError) as error:
        raise TubError(f"{path}: expected a picture: {error}") from None
    except ValueError as error:
        raise TubError(f"{path}: {error}; change the crop in {FOLDER / RECIPE_FILE} to fit the camera") from None
