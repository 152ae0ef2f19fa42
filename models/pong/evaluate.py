"""Play the policy and the expert on the same held-out games and compare: ``python -m models.pong.evaluate``.

By default the exported model of the package plays, in the runtime that runs on the device; ``--weights`` plays the
PyTorch module instead. The action is the argmax. A score is the game's own points minus the opponent's.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress, TimeRemainingColumn
from rich.table import Table

from daemon.pixels import Pixels
from models.pong.play import Choice, Disturbance, Tokens, expert_choice, play, policy_choice
from models.pong.policy import load

HELD_OUT_SEEDS = range(1_000_000)
"""Games no training run ever plays; ``models.pong.train.TRAINING_SEEDS`` begins where this ends."""
PACKAGE = Path(__file__).with_name("package")
EXPERT, EAGER = "expert", "weights"

Logits = Callable[[Pixels, Tokens], NDArray[np.float32]]


@dataclass(frozen=True)
class Task:
    """One game to play: by the expert, by the PyTorch weights or by the model file ``player`` names."""

    player: str
    seed: int
    disturbance: Disturbance


@dataclass(frozen=True)
class Result:
    """How one game ended."""

    player: str
    seed: int
    points: tuple[int, int]
    decisions: int

    @property
    def score(self) -> int:
        """Own points minus the opponent's."""
        return self.points[0] - self.points[1]


@dataclass(frozen=True)
class Summary:
    """The scores of one player: mean and its standard error."""

    mean: float
    error: float
    wins: int
    scores: list[int]


@cache
def eager_logits() -> Logits:
    """The PyTorch policy as a function of arrays."""
    torch.set_num_threads(1)
    policy = load()

    @torch.no_grad()
    def logits(frames: Pixels, history: Tokens) -> NDArray[np.float32]:
        scores: NDArray[np.float32] = policy(torch.from_numpy(frames), torch.from_numpy(history))[0].numpy()
        return scores

    return logits


@cache
def exported_logits(model: str) -> Logits:
    """An exported model (path of a ``.pte``) as a function of arrays."""
    from executorch.runtime import Runtime

    method = Runtime.get().load_program(model).load_method("forward")
    if method is None:
        raise ValueError(f"{model} has no method forward")

    def logits(frames: Pixels, history: Tokens) -> NDArray[np.float32]:
        output = method.execute([torch.from_numpy(frames), torch.from_numpy(history)])[0]
        scores: NDArray[np.float32] = output[0].numpy()
        return scores

    return logits


def play_task(task: Task) -> Result:
    """Play one game to its end."""
    episode = play(task.seed, task.disturbance, _choice(task.player))
    return Result(task.player, task.seed, episode.points, episode.decisions)


def _choice(player: str) -> Choice:
    if player == EXPERT:
        return expert_choice
    return policy_choice(eager_logits() if player == EAGER else exported_logits(player))


def play_all(tasks: Sequence[Task], jobs: int, progress: Progress) -> list[Result]:
    """Play all games, ``jobs`` at a time; results in the order of ``tasks``."""
    bar = progress.add_task("games", total=len(tasks))
    results = []
    if jobs == 1:
        for task in tasks:
            results.append(play_task(task))
            progress.advance(bar)
        return results
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for result in pool.map(play_task, tasks):
            results.append(result)
            progress.advance(bar)
    return results


def summarise(results: Sequence[Result]) -> Summary:
    """Mean score and its standard error (0 for a single game)."""
    scores = [result.score for result in results]
    error = float(np.std(scores, ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else 0.0
    return Summary(float(np.mean(scores)), error, sum(score > 0 for score in scores), scores)


def ratio(policy: Summary, expert: Summary) -> float:
    """The policy's mean score as a share of the expert's; not a number where the expert's is 0."""
    return policy.mean / expert.mean if expert.mean else float("nan")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m models.pong.evaluate", description=__doc__)
    parser.add_argument("--package", type=Path, default=PACKAGE, help="directory with model.pte")
    parser.add_argument("--weights", action="store_true", help="play the PyTorch weights instead of a package")
    parser.add_argument("--games", type=int, default=30)
    parser.add_argument("--random", type=float, default=0.0, help="probability of a random action per decision")
    parser.add_argument("--sticky", type=float, default=0.0, help="probability of a repeated action per frame")
    parser.add_argument("--seed", type=int, default=9000, help="first game's seed; the others follow it")
    parser.add_argument("--jobs", type=int, default=1, help="games played at the same time")
    parser.add_argument("--json", type=Path, help="also write the result here")
    options = parser.parse_args(arguments)
    if options.games < 1 or options.seed not in HELD_OUT_SEEDS or options.seed + options.games > HELD_OUT_SEEDS.stop:
        parser.error(f"--seed and --games must stay within {HELD_OUT_SEEDS.start}..{HELD_OUT_SEEDS.stop - 1}")
    return options


def show(console: Console, summaries: dict[str, Summary], title: str) -> None:
    """Print the comparison."""
    table = Table("player", "mean score", "standard error", "won", "games", "ratio", title=title)
    for player, summary in summaries.items():
        share = f"{ratio(summary, summaries[EXPERT]):.3f}"
        games = str(len(summary.scores))
        table.add_row(player, f"{summary.mean:.2f}", f"{summary.error:.2f}", str(summary.wins), games, share)
    console.print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    """Play, print the table and write the JSON file."""
    options = parse(arguments)
    console = Console()
    disturbance = Disturbance(options.random, options.sticky)
    player = EAGER if options.weights else str(options.package / "model.pte")
    seeds = range(options.seed, options.seed + options.games)
    tasks = [Task(who, seed, disturbance) for who in (player, EXPERT) for seed in seeds]
    columns = (*Progress.get_default_columns()[:-1], TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        results = play_all(tasks, options.jobs, progress)
    summaries = {who: summarise([r for r in results if r.player == who]) for who in (player, EXPERT)}
    show(console, summaries, f"random {options.random:g}, sticky {options.sticky:g}, seeds {seeds[0]}..{seeds[-1]}")
    if options.json:
        report = {"ratio": ratio(summaries[player], summaries[EXPERT]), "games": [asdict(r) for r in results]}
        report |= {"random": options.random, "sticky": options.sticky, "seeds": list(seeds)}
        report["players"] = {who: asdict(summary) for who, summary in summaries.items()}
        options.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
