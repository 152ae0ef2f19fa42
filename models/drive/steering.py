"""Steering angles as tokens, and the history of them that a decision sees. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.drive.policy import BINS, HISTORY, PADDING_TOKEN

Tokens = NDArray[np.int64]
Angles = NDArray[np.float64]
Flags = NDArray[np.bool_]

STRAIGHT = BINS // 2
"""Token of straight ahead."""


def to_tokens(angles: Angles) -> Tokens:
    """The nearest bin of each angle.

    Args:
        angles: -1 (full left) to 1 (full right), as donkeycar writes them down; beyond that is the end.

    Raises:
        ValueError: an angle is not a finite number.
    """
    if not np.isfinite(angles).all():
        wrong = np.flatnonzero(~np.isfinite(angles))
        raise ValueError(f"steering angles: expected finite numbers from -1 to 1, not so at {wrong[:8].tolist()}")
    return np.rint((np.clip(angles, -1.0, 1.0) + 1.0) * STRAIGHT).astype(np.int64)


def to_angles(tokens: Tokens) -> Angles:
    """The middle of each token's bin, -1 to 1."""
    return tokens / STRAIGHT - 1.0


def histories(tokens: Tokens, follows: Flags) -> Tokens:
    """What was executed before each decision, as the daemon will tell the policy.

    The daemon's history has, last, the action in force when the frame was taken: that is the decision on the frame
    before, never the one the policy is asked for.

    Args:
        tokens: what was executed at each record.
        follows: whether a record comes right after the one before it; if not, nothing older is known.

    Returns:
        ``int64 [N, HISTORY]``, oldest first, :data:`~models.drive.policy.PADDING_TOKEN` where nothing is known.
    """
    found = np.full((len(tokens), HISTORY), PADDING_TOKEN, np.int64)
    for index in range(1, len(tokens)):
        if follows[index]:
            found[index] = [*found[index - 1, 1:], tokens[index - 1]]
    return found
