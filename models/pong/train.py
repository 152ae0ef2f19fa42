"""Train the Pong policy: ``python -m models.pong.train --seed 0 --out DIR``.

1. *Perceive* (:mod:`models.pong.perceive`): the eyes learn to find ball and paddle.
2. *Distil* (:mod:`models.pong.distil`): rounds of play, each followed by a fit on everything played so far and on
   recombinations of it (:mod:`models.pong.recombine`); the expert drives the first round, mostly the policy itself
   the later ones.
3. A long last fit on all of it.

``DIR`` receives ``weights.pt`` (rewritten after every round) and ``train.jsonl``, one line per finished step.

The defaults are the shipped recipe: 20 minutes on one x86-64 core shared with other work. The shipped weights,
exported in fp32, scored on 30 held-out games (mean and standard error, the expert on the same games in brackets)
18.5 ± 0.5 (18.1 ± 0.5) with 2 % random actions and 14.3 ± 0.6 (13.7 ± 0.6) with sticky actions of 0.25. They were
trained without the rounding to whole pixels in :class:`~models.pong.policy.Keypoints` and with another draw of the
games' idle openings, so a new run gives other weights.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn

from models.pong import distil, perceive
from models.pong.evaluate import HELD_OUT_SEEDS
from models.pong.policy import PongPolicy
from models.pong.recombine import recombine

RUNS = 100
SEEDS_PER_RUN, SEEDS_PER_ROUND = 10_000, 500
TRAINING_SEEDS = range(HELD_OUT_SEEDS.stop, HELD_OUT_SEEDS.stop + RUNS * SEEDS_PER_RUN)
"""Every game of training is drawn from here, :data:`SEEDS_PER_RUN` of them for each ``--seed`` from 0 to 99."""


@dataclass(frozen=True)
class Budget:
    """How much to do; the defaults are the shipped recipe."""

    frames: int = 12_000
    """Labelled pictures for the eyes."""
    keypoint_steps: int = 1_500
    rounds: int = 6
    games: int = 24
    """Games played side by side in a round; a multiple of 6 meets every disturbance equally often."""
    decisions: int = 1_500
    """Decisions of each game in a round."""
    copies: int = 6
    """Recombined decisions for each played one with the ball near."""
    steps: int = 2_500
    """Fit after each round but the last."""
    final_steps: int = 30_000
    policy_share: float = 0.9
    """Share of the time the policy drives itself after the first round."""


class Log:
    """``train.jsonl``: one line per finished step, with the seconds since the start."""

    def __init__(self, path: Path) -> None:
        self._path, self._start = path, time.monotonic()
        path.write_text("")

    def write(self, step: str, **facts: object) -> None:
        """Add a line."""
        line = {"step": step, "seconds": round(time.monotonic() - self._start, 1), **facts}
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")


class Run:
    """One training run: the policy that grows, and where the randomness comes from."""

    def __init__(self, seed: int, budget: Budget, out: Path, progress: Progress) -> None:
        torch.set_num_threads(1)  # sums in one order: equal seeds give equal weights
        torch.manual_seed(seed)
        out.mkdir(parents=True, exist_ok=True)
        self._budget, self._out, self._progress = budget, out, progress
        self._seeds = TRAINING_SEEDS[seed * SEEDS_PER_RUN : (seed + 1) * SEEDS_PER_RUN]
        self._rng = np.random.default_rng(seed)
        self._log = Log(out / "train.jsonl")
        self.policy = PongPolicy()

    def _bar(self, name: str, total: int) -> perceive.Progress:
        task = self._progress.add_task(name, total=total)
        return lambda done: self._progress.advance(task, done)

    def train_keypoints(self) -> None:
        """Stage 1: the eyes."""
        budget, keypoints = self._budget, self.policy.keypoints
        seeds = self._seeds[:SEEDS_PER_ROUND]
        views, labels = perceive.record(budget.frames, seeds, self._rng, self._bar("record frames", budget.frames))
        perceive.learn(keypoints, views, labels, budget.keypoint_steps, self._bar("find points", budget.keypoint_steps))
        self._log.write("perceive", frames=len(views), median_pixels_off=perceive.error(keypoints, views, labels))

    def train_head(self) -> None:
        """Stages 2 and 3: the choice."""
        budget, decisions = self._budget, distil.Decisions()
        for turn in range(1, budget.rounds + 1):
            won, lost = self._play(turn, decisions)
            steps = budget.final_steps if turn == budget.rounds else budget.steps
            fitted = distil.learn(self.policy.head, decisions, steps, self._bar(f"fit {turn}", steps))
            self._log.write(f"round {turn}", decisions=len(decisions), won=won, lost=lost, **fitted)
            torch.save(self.policy.state_dict(), self._out / "weights.pt")

    def _play(self, turn: int, decisions: distil.Decisions) -> tuple[int, int]:
        """Add a round of play and recombinations of it to ``decisions``; points won and lost in it."""
        expert_share = 1.0 if turn == 1 else 1.0 - self._budget.policy_share
        seeds = self._seeds[turn * SEEDS_PER_ROUND : (turn + 1) * SEEDS_PER_ROUND]
        games, bar = distil.begin(self._budget.games, seeds), self._bar(f"play {turn}", self._budget.decisions)
        played = distil.collect(self.policy, games, self._budget.decisions, expert_share, self._rng, bar)
        points, history, _ = played.tensors()
        decisions.extend(played)
        decisions.add(*recombine(points, history, played.fields, self._budget.copies, self._rng))
        return sum(game.points[0] for game in games), sum(game.points[1] for game in games)


def train(seed: int, budget: Budget, out: Path, progress: Progress) -> PongPolicy:
    """Train a policy from scratch; equal seeds and budgets give equal weights on one machine.

    Args:
        seed: 0 to 99.
        budget: how much to do.
        out: directory for ``weights.pt`` and ``train.jsonl``.
        progress: shows what is going on.
    """
    run = Run(seed, budget, out, progress)
    run.train_keypoints()
    run.train_head()
    return run.policy.eval()


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line: the seed, the directory and an option for each field of :class:`Budget`."""
    parser = argparse.ArgumentParser(
        prog="python -m models.pong.train", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0, choices=range(RUNS), metavar=f"0..{RUNS - 1}")
    parser.add_argument("--out", type=Path, required=True)
    for field in fields(Budget):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train with the budget of the command line."""
    options = vars(parse(arguments))
    seed, out = options.pop("seed"), options.pop("out")
    with Progress(*Progress.get_default_columns(), TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        train(seed, Budget(**options), out, progress)


if __name__ == "__main__":
    main()
