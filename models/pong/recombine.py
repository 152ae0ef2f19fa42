"""More decisions than were played: the ball of one decision with the paddle of another.

Until they meet, ball and paddle do not influence each other, so any ball track on its way to the paddle goes with any
paddle track and its executed actions: a situation that could have been played, and the expert can judge it. It gives
many more of the few decisions that decide a rally, and costs neither emulator nor pictures.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.pong import expert
from models.pong.policy import POINTS

NEARBY = 0.05
"""Paddles come from this share of the decisions to each side, in order of where the paddle is heading: one that is
far off loses the ball whatever it does, which teaches nothing."""

_PADDLE = POINTS.index("paddle")


def recombine(
    points: Tensor, history: Tensor, fields: list[expert.Field], copies: int, rng: np.random.Generator
) -> tuple[Tensor, Tensor, Tensor, list[expert.Field]]:
    """Pair every decision whose ball is near with ``copies`` other paddles.

    Args:
        points: ``float32 [N, stack, points, 3]`` as the policy's eyes gave them.
        history: ``int64 [N, HISTORY]``.
        fields: the N fields behind them.
        copies: new decisions per decision whose ball is near.
        rng: draws the pairs.

    Returns:
        Points, history, worth ``float32 [M, moves]`` and fields of the M new decisions.
    """
    balls, paddles = _pairs(fields, copies, rng)
    mixed = points[balls]
    mixed[:, :, _PADDLE] = points[paddles][:, :, _PADDLE]
    new = [
        replace(fields[ball], paddle=fields[paddle].paddle, target=fields[paddle].target)
        for ball, paddle in zip(balls, paddles, strict=True)
    ]
    worth = np.array([expert.values(field) for field in new], np.float32).reshape(-1, len(expert.MOVES))
    return mixed, history[paddles], torch.from_numpy(worth), new


def _pairs(
    fields: list[expert.Field], copies: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices of the decisions to take the ball and the paddle from."""
    near = np.array([index for index, field in enumerate(fields) if field.near], np.int64)
    order = near[np.argsort([fields[index].target for index in near], kind="stable")]
    ranks = np.tile(np.arange(len(order)), copies)
    reach = max(1, int(NEARBY * len(order)))
    partners = np.clip(ranks + rng.integers(-reach, reach + 1, len(ranks)), 0, len(order) - 1)
    return order[ranks], order[partners] if len(order) else order
