"""What all tables of the configuration are made of."""

from __future__ import annotations

from typing import Annotated

import msgspec

Rate = Annotated[float, msgspec.Meta(gt=0.0, le=1000.0)]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the configuration's tables: an unknown key is an error."""
