"""Learn to steer from a recorded drive: ``python -m models.drive.train TUB --out DIR``.

``TUB`` is an unpacked donkeycar tub (version 2). The last fifth of it, by time, is kept apart and measured on.
``DIR`` becomes a model folder for ``reflexd export DIR``: contract, policy, ``weights.pt``, ``examples.npz`` (recorded
observations of the last fifth) and ``scores.json``. Half a minute on one x86-64 core.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from models.drive.learn import learn
from models.drive.measure import compare
from models.drive.policy import PADDING_TOKEN, DrivePolicy
from models.drive.tub import FOLDER, Drive, TubError, read

STEPS = 800
HELD_OUT = 0.2
"""Share of the drive that is measured on; the last part of it."""
GAP = 20
"""Records left out before it: their pictures are nearly those of the first held-out ones."""
LEAST = 200
"""Records a drive must have, ten seconds: below that nothing can be learned or measured."""
EXAMPLES = 128


def split(drive: Drive) -> tuple[Drive, Drive]:
    """The part to learn from and, after a gap of :data:`GAP` records, the part to measure on.

    Raises:
        TubError: too few records.
    """
    count = len(drive.tokens)
    if count < LEAST:
        raise TubError(f"expected at least {LEAST} records that a person steered, found {count}: record a longer drive")
    begin = round(count * (1.0 - HELD_OUT))
    return drive.part(0, begin - GAP), drive.part(begin, count)


def train(tub: Path, out: Path, seed: int, steps: int, progress: Progress) -> dict[str, Any]:
    """Learn from a tub and write the model folder; what is in its ``scores.json``.

    Raises:
        TubError, ConfigError: see :func:`models.drive.tub.read`.
    """
    began = time.monotonic()
    torch.set_num_threads(1)  # sums in one order: equal seeds give equal weights
    torch.manual_seed(seed)
    drive = read(tub)
    learned, held_out = split(drive)
    policy = DrivePolicy()
    bar = progress.add_task("learn", total=steps)
    loss = learn(policy, learned, steps, lambda done: progress.advance(bar, done))
    scores = compare(policy, learned, held_out)
    report = {
        "records": {"learned": len(learned.tokens), "held_out": len(held_out.tokens)},
        "loss": loss,
        "scores": {name: found._asdict() for name, found in scores.items()},
        "seconds": round(time.monotonic() - began, 1),
    }
    _write(out, policy, held_out, report)
    return report


def examples(held_out: Drive) -> Drive:
    """Up to :data:`EXAMPLES` observations, evenly spread; every fourth as at the start, without a history."""
    count = len(held_out.tokens)
    chosen = np.linspace(0, count - 1, min(EXAMPLES, count)).round().astype(int)
    spread = Drive(*(array[chosen] for array in held_out))
    spread.history[::4] = PADDING_TOKEN
    return spread


def _write(out: Path, policy: DrivePolicy, held_out: Drive, report: dict[str, Any]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name in ("model.toml", "policy.py"):
        shutil.copyfile(FOLDER / name, out / name)
    torch.save(policy.state_dict(), out / "weights.pt")
    recorded = examples(held_out)
    np.savez_compressed(out / "examples.npz", frames=recorded.frames, history=recorded.history)
    (out / "scores.json").write_text(json.dumps(report, indent=2) + "\n")


def show(console: Console, report: dict[str, Any]) -> None:
    """Print the scores."""
    count = report["records"]["held_out"]
    table = Table("who steers", "same bin", "at most one off", "mean bins off", title=f"{count} held-out records")
    for name, found in report["scores"].items():
        cells = (f"{found['exact']:.0%}", f"{found['within_one']:.0%}", f"{found['mean_bins']:.2f}")
        table.add_row(name, *cells)
    console.print(table)
    console.print(f"learned from {report['records']['learned']} records in {report['seconds']:.0f} s")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m models.drive.train", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tub", type=Path, help="unpacked donkeycar tub, or a folder of that form")
    parser.add_argument("--out", type=Path, required=True, help="model folder to make")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train with the command line's options."""
    options = parse(arguments)
    try:
        with Progress(console=Console(stderr=True)) as progress:
            report = train(options.tub, options.out, options.seed, options.steps, progress)
    except ValueError as error:
        raise SystemExit(f"models.drive.train: {error}") from None
    show(Console(), report)


if __name__ == "__main__":
    main()
