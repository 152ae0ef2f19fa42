"""Second stage of training: the policy's choice. Play, ask the expert what each move was worth, learn that.

DAgger (Ross et al. 2011): after the first round mostly the policy itself drives, so it learns in the situations its own
mistakes lead to. It learns the *worth* of the moves instead of the expert's pick: where moves are equally good, either
will do, and where one loses the ball, that decision weighs most.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from models.pong import expert
from models.pong.perceive import Progress
from models.pong.play import Disturbance, Episode, FrameStack
from models.pong.policy import HISTORY, PADDING_TOKEN, Head, PongPolicy

DISTURBANCES = [Disturbance(random, sticky) for random, sticky in product((0.0, 0.02, 0.1), (0.0, 0.25))]
DRIVER_DECISIONS = 200
"""Expert or policy drives a game for this many decisions at a time."""
BATCH = 512
LEARNING_RATE, FINAL_LEARNING_RATE = 2e-3, 1e-5
TEMPERATURE = 0.05
"""Worths this far apart count as clearly different; one tap costs 0.02, a sure winner gains 3."""
BLANKED = 0.1
"""Share of decisions learned with a shortened history, as after a restart."""
AVERAGING = 0.998
"""Decay per step of the moving average of the weights, which is what is kept."""


@dataclass
class Decisions:
    """Recorded decisions: what was seen, and what each of ``expert.MOVES`` was worth."""

    points: list[Tensor] = field(default_factory=list)
    history: list[Tensor] = field(default_factory=list)
    worth: list[Tensor] = field(default_factory=list)
    fields: list[expert.Field] = field(default_factory=list)

    def add(self, points: Tensor, history: Tensor, worth: Tensor, fields: list[expert.Field]) -> None:
        """N decisions: float32 [N, stack, points, 3], int64 [N, HISTORY], float32 [N, moves] and N fields."""
        self.points.append(points)
        self.history.append(history)
        self.worth.append(worth)
        self.fields += fields

    def extend(self, other: Decisions) -> None:
        """All decisions of another recording."""
        self.points += other.points
        self.history += other.history
        self.worth += other.worth
        self.fields += other.fields

    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """All decisions, games mixed: float32 points, int64 history, float32 worth."""
        return torch.cat(self.points), torch.cat(self.history), torch.cat(self.worth)

    def __len__(self) -> int:
        return len(self.fields)


class Game:
    """A game that starts again when it is over, and whose driver changes."""

    def __init__(self, seeds: range, disturbance: Disturbance) -> None:
        self._seeds, self._disturbance = iter(seeds), disturbance
        self._ended = (0, 0)
        self._begin()

    def _begin(self) -> None:
        self.episode = Episode(next(self._seeds), self._disturbance)
        self.stack: FrameStack[Tensor] = FrameStack()

    @property
    def points(self) -> tuple[int, int]:
        """Points won and lost so far, over all games."""
        won, lost = self.episode.points
        return self._ended[0] + won, self._ended[1] + lost

    def step(self, action: int) -> None:
        """Carry out ``action``; the next game begins where this one ends."""
        self.episode.step(action)
        if self.episode.over:
            self._ended = self.points
            self._begin()


@torch.no_grad()
def collect(
    policy: PongPolicy, games: list[Game], turns: int, expert_share: float, rng: np.random.Generator, progress: Progress
) -> Decisions:
    """Play ``turns`` decisions of each of ``games``, the expert driving ``expert_share`` of the time."""
    policy.eval()
    recorded = Decisions()
    for turn in range(turns):
        if turn % DRIVER_DECISIONS == 0:
            expert_drives = rng.random(len(games)) < expert_share
        points, history = _observe(policy, games)
        fields = [game.episode.field() for game in games]
        worth = np.stack([expert.values(field) for field in fields])
        recorded.add(points, history, torch.from_numpy(worth.astype(np.float32)), fields)
        own = policy.head(points, history).argmax(1).tolist()
        for game, own_choice, value, by_expert in zip(games, own, worth, expert_drives, strict=True):
            game.step(expert.choose(value) if by_expert else own_choice)
        progress(1)
    return recorded


def begin(count: int, seeds: range) -> list[Game]:
    """``count`` games to play side by side, so that the network works on batches; disturbances taken in turn."""
    return [Game(seeds[i::count], DISTURBANCES[i % len(DISTURBANCES)]) for i in range(count)]


def _observe(policy: PongPolicy, games: list[Game]) -> tuple[Tensor, Tensor]:
    """Points [G, stack, points, 3] and history [G, HISTORY] of the decision each game is at."""
    frames = torch.from_numpy(np.stack([game.episode.frame() for game in games]))
    for game, points in zip(games, policy.keypoints(frames), strict=True):
        game.stack.push(points)
    stacked = torch.stack([torch.stack(game.stack.stacked()) for game in games])
    return stacked, torch.from_numpy(np.stack([game.episode.history() for game in games]))


def learn(head: Head, decisions: Decisions, steps: int, progress: Progress) -> dict[str, float]:
    """Train ``head`` in place and leave the averaged weights in it; the last steps' loss and regret."""
    points, history, worth = decisions.tensors()
    optimizer = torch.optim.AdamW(head.parameters(), lr=LEARNING_RATE, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(steps, 1), FINAL_LEARNING_RATE)
    average = copy.deepcopy(head)
    losses, regrets = [], []
    for step in range(steps):
        chosen = torch.randint(len(worth), (BATCH,))
        logits = head(points[chosen], blank(history[chosen]))
        loss = distillation_loss(logits, worth[chosen])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        _blend(average, head, min(AVERAGING, (step + 1) / (step + 10)))
        losses.append(loss.item())
        regrets.append(regret(logits.detach(), worth[chosen]))
        progress(1)
    head.load_state_dict(average.state_dict())
    tail = max(1, steps // 10)
    return {"loss": float(np.mean(losses[-tail:])), "regret": float(np.mean(regrets[-tail:]))}


def distillation_loss(logits: Tensor, worth: Tensor) -> Tensor:
    """Cross-entropy against softmax(worth / TEMPERATURE), weighted by what is at stake.

    Args:
        logits: ``float32 [B, actions]``; actions the expert never uses get probability 0.
        worth: ``float32 [B, moves]``.
    """
    target = torch.zeros_like(logits)
    target[:, list(expert.MOVES)] = torch.softmax(worth / TEMPERATURE, 1)
    stake = worth.amax(1) - worth.amin(1)
    weight = 0.3 + stake.clamp(max=3.0)
    loss = functional.cross_entropy(logits, target, reduction="none")
    return (loss * weight).sum() / weight.sum()


def regret(logits: Tensor, worth: Tensor) -> float:
    """Mean worth given away by the argmax against the best move."""
    picked = logits[:, list(expert.MOVES)].argmax(1, keepdim=True)
    return float((worth.amax(1) - worth.gather(1, picked)[:, 0]).mean())


def blank(history: Tensor) -> Tensor:
    """Replace the older part of some histories (at least one token, up to all) by padding."""
    kept = torch.randint(HISTORY, (len(history), 1))
    old = torch.arange(HISTORY) < HISTORY - kept
    return history.masked_fill(old & (torch.rand(len(history), 1) < BLANKED), PADDING_TOKEN)


def _blend(average: nn.Module, current: nn.Module, decay: float) -> None:
    with torch.no_grad():
        for kept, new in zip(average.parameters(), current.parameters(), strict=True):
            kept.lerp_(new, 1.0 - decay)
