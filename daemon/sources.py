"""The ``[sources.NAME]`` tables of the configuration: a kind of source each, with the keys that kind has."""

from __future__ import annotations

from typing import Annotated

import msgspec

from daemon.section import Section

Rate = Annotated[float, msgspec.Meta(gt=0.0, le=1000.0)]
Size = Annotated[int, msgspec.Meta(ge=16, le=4096)]
CameraControl = bool | int | float | str | list[bool | int | float]


class SourceTable(Section, frozen=True, kw_only=True, tag_field="kind"):
    """What every source has.

    Attributes:
        fps: frames per second. A frame must come at least every five of these periods, and every half second: the
            source counts as stalled otherwise, and is started anew.
    """

    fps: Rate = 30.0


class Synthetic(SourceTable, frozen=True, kw_only=True, tag="synthetic"):
    """``[sources.NAME]`` with ``kind = "synthetic"``: a moving test picture.

    Attributes:
        width, height: size of the picture, pixels.
    """

    width: Size = 640
    height: Size = 480


Source = Synthetic
SOURCE_TABLES: dict[str, type[SourceTable]] = {str(table.__struct_config__.tag): table for table in (Source,)}
"""Each kind with its table."""
