"""The driving policy: one frame and the last eight executed actions in, one logit per steering bin out.

This file is also a part of every model folder that :mod:`models.drive.train` makes, so it needs nothing but torch.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

BINS = 15
"""Steering actions, from full left to full right."""
HISTORY = 8
"""Executed actions the policy sees, oldest first."""
PADDING_TOKEN = BINS
"""Token for "nothing was executed yet"."""
HEIGHT, WIDTH = 40, 80
"""Of the picture, pixels."""
WEIGHTS = Path(__file__).with_name("weights.pt")

_FEATURES = 64
_TOKEN_WIDTH = 8


class DrivePolicy(nn.Module):
    """Picture and executed actions to logits: the graph that is exported."""

    def __init__(self) -> None:
        super().__init__()
        self.eyes = nn.Sequential(
            nn.Conv2d(3, 16, kernel_size=5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(16, 32, kernel_size=3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 32, kernel_size=3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(32 * (HEIGHT // 8) * (WIDTH // 8), _FEATURES),
            nn.ReLU(),
        )
        self.tokens = nn.Embedding(PADDING_TOKEN + 1, _TOKEN_WIDTH)
        self.head = nn.Sequential(
            nn.Linear(_FEATURES + HISTORY * _TOKEN_WIDTH, 64),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(64, BINS),
        )

    def forward(self, frames: Tensor, history: Tensor) -> Tensor:
        """Score the steering bins.

        Args:
            frames: ``uint8 [B, HEIGHT, WIDTH, 3]`` RGB; scaled inside the graph.
            history: ``int64 [B, HISTORY]`` tokens of executed actions, oldest first, :data:`PADDING_TOKEN` where
                there is none.

        Returns:
            ``float32 [B, BINS]`` logits, full left first.
        """
        picture = frames.permute(0, 3, 1, 2).to(torch.float32) * (1.0 / 64.0) - 2.0
        seen = torch.cat([self.eyes(picture), self.tokens(history).flatten(1)], dim=1)
        logits: Tensor = self.head(seen)
        return logits


def load(weights: Path = WEIGHTS) -> DrivePolicy:
    """The trained policy in eval mode."""
    policy = DrivePolicy()
    policy.load_state_dict(torch.load(weights, weights_only=True))
    return policy.eval()
