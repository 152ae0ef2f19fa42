"""Behaviour cloning: the policy learns the person's steering from the picture, and not from what it did just now.

At 20 records a second the last action is nearly always the next one as well, and a policy that has found that out
repeats itself for ever (de Haan et al. 2019, "Causal Confusion in Imitation Learning"). So most lessons come without
a history, and the rest with one that is a bin off here and there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from models.drive.policy import BINS, PADDING_TOKEN, DrivePolicy
from models.drive.tub import Drive

BATCH = 64
LEARNING_RATE, WEIGHT_DECAY = 2e-3, 1e-2
BLANKED = 0.8
"""Share of lessons without a history."""
NOISE_BINS = 0.3
"""Standard deviation of what is added to each token of a history before it is rounded: every tenth is one bin off."""
NEIGHBOUR_BINS = 0.8
"""Width of the bell over the bins that is learned: the bin beside the person's is nearly right as well."""
SHIFT = (3, 4)
"""A picture is moved by up to so many pixels, down and sideways. Without it the policy learns the room by heart."""
CONTRAST, BRIGHTNESS = 0.2, 20.0
"""A picture is made so much weaker or stronger, and by so many of 255 steps darker or brighter, at most."""


class Lessons(NamedTuple):
    """Decisions to learn: frames ``uint8 [N, H, W, 3]``, tokens ``int64 [N]``, history ``int64 [N, HISTORY]``."""

    frames: Tensor
    tokens: Tensor
    history: Tensor

    @staticmethod
    def of(drive: Drive) -> Lessons:
        """All records of a drive."""
        return Lessons(*(torch.from_numpy(np.ascontiguousarray(array)) for array in drive))

    def draw(self, count: int) -> Lessons:
        """Some of them, at random."""
        chosen = torch.randint(len(self.tokens), (count,))
        return Lessons(*(tensor[chosen] for tensor in self))


def learn(policy: DrivePolicy, drive: Drive, steps: int, progress: Callable[[int], None]) -> float:
    """Train ``policy`` in place and leave it in eval mode; the mean loss of the last tenth of the steps."""
    lessons = Lessons.of(drive)
    optimizer = torch.optim.AdamW(policy.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(steps, 1))
    losses = []
    policy.train()
    for _ in range(steps):
        frames, tokens, history = vary(lessons.draw(BATCH))
        loss = functional.cross_entropy(policy(frames, history), bell(tokens))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        progress(1)
    policy.eval()
    return float(np.mean(losses[-max(1, steps // 10) :]))


def bell(tokens: Tensor) -> Tensor:
    """Probabilities to learn, ``float32 [B, BINS]``: most for the token itself, the rest for those beside it."""
    away = (torch.arange(BINS) - tokens[:, None]) / NEIGHBOUR_BINS
    return torch.softmax(-0.5 * away**2, dim=1)


def vary(lessons: Lessons) -> Lessons:
    """The same decisions in other light, from a little further left or right, some of them mirrored; less history."""
    varied = mirror(lessons, torch.rand(len(lessons.tokens)) < 0.5)
    frames = relight(shift(varied.frames))
    return Lessons(frames, varied.tokens, forget(varied.history))


def mirror(lessons: Lessons, which: Tensor) -> Lessons:
    """Left for right in those decisions where ``which`` (``bool [B]``) is true: picture, token and history."""
    frames = torch.where(which[:, None, None, None], lessons.frames.flip(2), lessons.frames)
    tokens = torch.where(which, BINS - 1 - lessons.tokens, lessons.tokens)
    known = lessons.history != PADDING_TOKEN
    return Lessons(frames, tokens, torch.where(which[:, None] & known, BINS - 1 - lessons.history, lessons.history))


def shift(frames: Tensor) -> Tensor:
    """Each picture moved by up to :data:`SHIFT` pixels; what comes in at an edge repeats it."""
    count, height, width, _ = frames.shape
    down, aside = (torch.randint(-most, most + 1, (count, 1)) for most in SHIFT)
    rows = (torch.arange(height) + down).clamp(0, height - 1)
    columns = (torch.arange(width) + aside).clamp(0, width - 1)
    return frames[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]


def relight(frames: Tensor) -> Tensor:
    """Each picture with another contrast and brightness, ``uint8`` again."""
    contrast, brightness = torch.rand(2, len(frames), 1, 1, 1) * 2.0 - 1.0
    changed: Tensor = frames * (1.0 + CONTRAST * contrast) + BRIGHTNESS * brightness
    return changed.clamp(0.0, 255.0).to(torch.uint8)


def forget(history: Tensor) -> Tensor:
    """Histories as :data:`NOISE_BINS` and :data:`BLANKED` say; padding stays padding."""
    noisy = (history + NOISE_BINS * torch.randn(history.shape)).round().clamp(0, BINS - 1).to(torch.int64)
    blank = (history == PADDING_TOKEN) | (torch.rand(len(history), 1) < BLANKED)
    return noisy.masked_fill(blank, PADDING_TOKEN)
