"""Record real observations for calibration, golden outputs and parity tests: ``python -m models.pong.examples``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

from daemon.pixels import Pixels
from models.pong.evaluate import eager_logits
from models.pong.play import Disturbance, Episode, Tokens, policy_choice

EXAMPLES = Path(__file__).with_name("examples.npz")
COUNT = 256
FIRST_SEED = 20_000
"""Held out: ``models.pong.evaluate.HELD_OUT_SEEDS``."""
PER_GAME = 16
DISTURBANCES = [Disturbance(random, sticky) for random, sticky in product((0.0, 0.02, 0.1, 0.3), (0.0, 0.25))]
GAP = 41
"""Decisions from one example to the next: unrelated pictures, at all phases of a rally."""


def observe(seed: int, disturbance: Disturbance, count: int) -> Iterator[tuple[Pixels, Tokens]]:
    """What the policy sees in a game it plays: its first decision and every :data:`GAP`-th later one.

    Yields:
        ``uint8 [S, height, width]`` frames and ``int64 [HISTORY]`` tokens, ``count`` times.
    """
    seen: list[tuple[Pixels, Tokens]] = []
    eager = eager_logits()

    def watched(frames: Pixels, history: Tokens) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        seen.append((frames[0], history[0]))
        return eager(frames, history)

    choose = policy_choice(watched)
    episode = Episode(seed, disturbance)
    for _ in range(count):
        episode.step(choose(episode))
        yield seen[-1]
        for _ in range(GAP - 1):
            episode.step(choose(episode))


def record(count: int = COUNT) -> dict[str, Pixels | Tokens]:
    """The arrays of ``examples.npz``: ``frames`` uint8 [N, S, height, width] and ``history`` int64 [N, HISTORY]."""
    frames: list[Pixels] = []
    histories: list[Tokens] = []
    for game in range(-(-count // PER_GAME)):
        disturbance = DISTURBANCES[game % len(DISTURBANCES)]
        for stack, history in observe(FIRST_SEED + game, disturbance, min(PER_GAME, count - len(frames))):
            frames.append(stack)
            histories.append(history)
    return {"frames": np.stack(frames), "history": np.stack(histories)}


def main() -> None:
    """Write :data:`EXAMPLES`."""
    arrays = record()
    np.savez_compressed(EXAMPLES, frames=arrays["frames"], history=arrays["history"])


if __name__ == "__main__":
    main()
