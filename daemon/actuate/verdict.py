"""What the arbiter and the valve say of a proposal."""

from __future__ import annotations

from typing import Literal

import msgspec

from daemon.actuate.limits import Setting
from daemon.messages import ActionProposal, Drop


class Refusal(msgspec.Struct, frozen=True):
    """A proposal that goes no further: the counter's word, and the numbers for a person."""

    reason: Drop
    detail: str


class Passed(msgspec.Struct, frozen=True):
    """A proposal that may go on, and what would be written; ``clamped`` when that is not what was asked for."""

    proposal: ActionProposal
    setting: Setting
    clamped: bool

    @property
    def cause(self) -> Literal["proposal", "clamped"]:
        """The word of ``Applied.cause``."""
        return "clamped" if self.clamped else "proposal"


Verdict = Passed | Refusal
