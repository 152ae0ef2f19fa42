"""The Pong policy: four frames and the last eight executed actions in, one logit per action out.

Two parts. :class:`Keypoints` finds the ball and the own paddle in each frame by a spatial softmax (Levine et al.
2016, "End-to-End Training of Deep Visuomotor Policies"), which gives positions finer than a pixel. :class:`Head`
turns positions, their changes and the executed actions into a choice. Both live in one exported graph.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from daemon.simulate.pong import ACTIONS
from daemon.views import Crop, View

HISTORY = 8
"""Executed actions the policy sees, oldest first."""
PADDING_TOKEN = len(ACTIONS)
"""Token for "nothing was executed yet"."""
FIELD = Crop(x=0, y=34, width=160, height=160)
"""The play field in the raw screen, without score and walls."""
VIEW = View(width=80, height=160, format="gray8", crop=FIELD)
"""Full height, because the ball's height decides where a hit goes."""
STACK = (0, 1, 2, 3)
"""Frames the policy sees, as decisions back from now, newest first."""
POINTS = ("ball", "paddle")
"""What :class:`Keypoints` finds; the paddle is the own one, on the right."""
WEIGHTS = Path(__file__).with_name("weights.pt")

_STRIDE = 2
_UNSEEN = -8.0
"""First score of every cell against "not visible": all cells together (3,200) start out about as likely."""
HALF_SPAN = (78.0, 79.0)
"""Raw pixels from the middle of the field to the middle of the outermost cell of ``Keypoints``, x and y."""
_LOGIT_SCALE = 1 / 16
"""The head learns sharp differences; scaled down, the rounding of another runtime's kernels stays below 1e-4."""
_MOTION_GAIN = 16.0
"""A step of one decision is a small part of the field: this brings positions and motions to a common scale."""


class Keypoints(nn.Module):
    """Where the ball and the own paddle are.

    Each point spreads its attention over the picture and one cell "not visible". The result is the attention's
    mean position, which comes within a fraction of a raw pixel, and is then put on the pixel it must be: ball and
    paddle stand on whole ones. So noise does not pass on, nor does the rounding of one runtime or another.
    """

    table: Tensor
    pixels: Tensor
    spans: Tensor

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.grid = rows, columns = VIEW.height // _STRIDE, VIEW.width // _STRIDE
        self.filters = nn.Conv2d(1, channels, kernel_size=(6, 4), stride=_STRIDE, padding=(2, 1))
        self.score = nn.Conv2d(channels, len(POINTS), kernel_size=1)
        self.column_prior = nn.Parameter(torch.zeros(len(POINTS), 1, columns))
        self.score.bias = nn.Parameter(torch.full((len(POINTS),), _UNSEEN))
        self.register_buffer("table", _cell_table(rows, columns), persistent=False)
        self.register_buffer("pixels", torch.tensor([*HALF_SPAN, 1.0]), persistent=False)
        self.register_buffer("spans", 1.0 / self.pixels, persistent=False)

    def attention_logits(self, frames: Tensor) -> Tensor:
        """``uint8 [F, height, width]`` frames -> ``float32 [F, points, cells + 1]``; the last cell is "not visible"."""
        picture = frames.unsqueeze(1).to(torch.float32) * (1.0 / 64.0) - 1.4
        score = self.score(functional.relu(self.filters(picture))) + self.column_prior
        return functional.pad(score.flatten(2), (0, 1))

    def forward(self, frames: Tensor) -> Tensor:
        """Find the points in each frame.

        Args:
            frames: ``uint8 [F, height, width]``.

        Returns:
            ``float32 [F, points, 3]``: x and y from -1 (left, top) to 1, and visibility 0 or 1. An invisible
            point is (0, 0, 0).
        """
        found = functional.linear(torch.softmax(self.attention_logits(frames), dim=-1), self.table)
        snapped = torch.floor(found * self.pixels + 0.5)
        visible = snapped[..., 2:]
        return torch.cat([snapped[..., :2] * visible, visible], dim=-1) * self.spans


class Head(nn.Module):
    """Choice of an action from the points of the stacked frames and the executed actions."""

    def __init__(self, width: int = 256, token_width: int = 8) -> None:
        super().__init__()
        frames, features = len(STACK), 3 * len(POINTS)
        self.tokens = nn.Embedding(PADDING_TOKEN + 1, token_width)
        inputs = (2 * frames - 1) * features + HISTORY * token_width
        self.layers = nn.Sequential(
            nn.Linear(inputs, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, width // 2),
            nn.ReLU(),
            nn.Linear(width // 2, len(ACTIONS)),
        )

    def forward(self, points: Tensor, history: Tensor) -> Tensor:
        """Score the actions.

        Args:
            points: ``float32 [B, stack, points, 3]`` as :class:`Keypoints` gives them, newest first.
            history: ``int64 [B, HISTORY]`` tokens, oldest first.

        Returns:
            ``float32 [B, actions]`` logits.
        """
        motion = (points[:, :-1] - points[:, 1:]) * _MOTION_GAIN
        seen = torch.cat([points.flatten(1), motion.flatten(1), self.tokens(history).flatten(1)], dim=1)
        logits: Tensor = self.layers(seen)
        return logits


class PongPolicy(nn.Module):
    """Pictures and executed actions to logits: the graph that is exported."""

    def __init__(self) -> None:
        super().__init__()
        self.keypoints = Keypoints()
        self.head = Head()

    def forward(self, frames: Tensor, history: Tensor) -> Tensor:
        """Score the actions for one decision.

        Args:
            frames: ``uint8 [1, stack, height, width]`` in :data:`VIEW`, newest first; scaled inside the graph.
            history: ``int64 [1, HISTORY]`` tokens of executed actions, oldest first, :data:`PADDING_TOKEN` where
                there is none.

        Returns:
            ``float32 [1, actions]`` logits in the order of ``daemon.simulate.pong.ACTIONS``.
        """
        logits: Tensor = self.head(self.keypoints(frames[0]).unsqueeze(0), history)
        return logits * _LOGIT_SCALE


def load(weights: Path = WEIGHTS) -> PongPolicy:
    """The trained policy in eval mode."""
    policy = PongPolicy()
    policy.load_state_dict(torch.load(weights, weights_only=True))
    return policy.eval()


def _cell_table(rows: int, columns: int) -> Tensor:
    """``float32 [3, cells + 1]``: x, y and 1 of each cell, cells in row order, then zeros for "not visible"."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, rows), torch.linspace(-1, 1, columns), indexing="ij")
    return functional.pad(torch.stack([x.flatten(), y.flatten(), torch.ones(rows * columns)]), (0, 1))
