"""First stage of training: the policy's eyes. Learn where ball and paddle are from pictures labelled by their colour.

In the colour picture ball and paddle are the only things of their colour, so their place is known exactly; the policy
must find them in the small grey view. Once this is learned the eyes stay as they are, and the second stage works on
a dozen numbers per frame instead of on pixels: it is why the whole recipe takes minutes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from daemon.pixels import Pixels, fit
from daemon.simulate.pong import ACTIONS
from models.pong.play import Disturbance, Episode, expert_choice
from models.pong.policy import FIELD, HALF_SPAN, POINTS, VIEW, Keypoints

Progress = Callable[[int], None]
Points = NDArray[np.float32]

COLOURS = {"ball": (236, 236, 236), "paddle": (92, 186, 92)}
"""RGB of the things to find, as the emulator paints them."""
DISTURBANCE = Disturbance(random_actions=0.1, sticky=0.25)
"""Strong, so that the paddle and the ball get everywhere."""
FRAMES_PER_GAME = 500
DECISIONS_PER_FRAME = 3
MODE_DECISIONS = 60
"""The paddle is driven by the expert or at random for this many decisions at a time."""
BATCH = 32
LEARNING_RATE = 3e-2

_LEFT_TOP = np.array((79.5, 79.5), np.float32)
_HALF_SPAN = np.array(HALF_SPAN, np.float32)


def label(picture: Pixels) -> Points:
    """Places of :data:`~models.pong.policy.POINTS` in a raw screen as ``Keypoints`` should give them, [points, 3]."""
    field = picture[FIELD.y : FIELD.y + FIELD.height, FIELD.x : FIELD.x + FIELD.width]
    points = np.zeros((len(POINTS), 3), np.float32)
    for index, name in enumerate(POINTS):
        y, x = np.nonzero((field == np.array(COLOURS[name], np.uint8)).all(axis=2))
        if len(x):
            place = (np.array((x.mean(), y.mean()), np.float32) - _LEFT_TOP) / _HALF_SPAN
            points[index] = (*np.clip(place, -1, 1), 1.0)
    return points


def record(frames: int, seeds: range, rng: np.random.Generator, progress: Progress) -> tuple[Pixels, Points]:
    """Play and keep every third decision: views ``uint8 [N, height, width]`` and labels ``float32 [N, points, 3]``."""
    views: list[Pixels] = []
    labels: list[Points] = []
    for seed in seeds:
        episode = Episode(seed, DISTURBANCE)
        while not episode.over and len(views) < frames and episode.decisions < FRAMES_PER_GAME * DECISIONS_PER_FRAME:
            if episode.decisions % MODE_DECISIONS == 0:
                wander = rng.random() < 1 / 3
            episode.step(_wandering(episode, rng) if wander else expert_choice(episode))
            if episode.decisions % DECISIONS_PER_FRAME == 0:
                picture = episode.picture()
                views.append(fit(picture, VIEW))
                labels.append(label(picture))
                progress(1)
        if len(views) == frames:
            break
    return np.stack(views), np.stack(labels)


def learn(keypoints: Keypoints, views: Pixels, labels: Points, steps: int, progress: Progress) -> None:
    """Train ``keypoints`` in place on what :func:`record` gave."""
    frames, truth = torch.from_numpy(views), torch.from_numpy(labels)
    optimizer = torch.optim.Adam(keypoints.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=max(steps, 2), pct_start=0.1)
    for _ in range(steps):
        chosen = torch.randint(len(frames), (BATCH,))
        loss = _loss(keypoints, frames[chosen], truth[chosen])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        progress(1)


@torch.no_grad()
def error(keypoints: Keypoints, views: Pixels, labels: Points) -> dict[str, float]:
    """Median distance in raw pixels between visible points and where ``keypoints`` sees them."""
    batches = torch.split(torch.from_numpy(views), 250)
    found = torch.cat([keypoints(batch) for batch in batches]).numpy()
    distance = np.linalg.norm((found - labels)[:, :, :2] * _HALF_SPAN, axis=2)
    return {name: float(np.median(distance[labels[:, i, 2] > 0, i])) for i, name in enumerate(POINTS)}


def _wandering(episode: Episode, rng: np.random.Generator) -> int:
    """The previous action again, now and then another one."""
    if rng.random() < 0.8:
        return int(episode.history()[-1])
    return int(rng.integers(len(ACTIONS)))


def _loss(keypoints: Keypoints, frames: Tensor, truth: Tensor) -> Tensor:
    """Attention on the right cells (cross-entropy), and the mean position right (pixels, Huber)."""
    logits = keypoints.attention_logits(frames)
    cells, shares = _neighbours(truth, keypoints.grid)
    attention = -(torch.log_softmax(logits, -1).gather(-1, cells) * shares).sum(-1).mean()
    off = functional.linear(torch.softmax(logits, -1), keypoints.table) - truth
    scale = torch.tensor([*_HALF_SPAN.tolist(), 10.0])
    return attention + functional.huber_loss(off * scale, torch.zeros_like(off), delta=2.0)


def _neighbours(truth: Tensor, grid: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """The four cells around each point and their bilinear shares, both [N, points, 4]; or the cell "not visible"."""
    rows, columns = grid
    x, y = (truth[..., 0] + 1) / 2 * (columns - 1), (truth[..., 1] + 1) / 2 * (rows - 1)
    left, top = x.floor().clamp(max=columns - 2), y.floor().clamp(max=rows - 2)
    right_share, low_share = x - left, y - top
    first = (top * columns + left).long()
    cells = torch.stack([first, first + 1, first + columns, first + columns + 1], -1)
    across = torch.stack([1 - right_share, right_share], -1)
    shares = torch.cat([across * (1 - low_share)[..., None], across * low_share[..., None]], -1)
    hidden = (truth[..., 2] == 0)[..., None]
    return cells.masked_fill(hidden, rows * columns), shares.masked_fill(hidden, 0.25)
