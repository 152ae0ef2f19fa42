"""A lock-step run of the whole daemon decides exactly as the recipe's own loop does, every time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from daemon.infer.runtime import LoadedModel
from daemon.package import read_manifest
from daemon.simulate.pong import ACTIONS
from models.pong.play import UNDISTURBED, Episode, policy_choice
from tests.system.game import PACKAGE, Game, game

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

DECISIONS = 400
SEED = 17


def decided(running: Game) -> list[str | None]:
    """Actions in the order of the frames they answer.

    An answer to the opening picture may come before the world listens; the dead-man follows it, and the picture is
    shown again. Only the answer that moved the world counts.
    """
    applied = running.applied("table")
    missed = max((m.seq for m in applied if m.cause == "deadman"), default=0)
    answers = {m.frame_seq: m.action for m in applied if m.cause == "proposal" and m.seq > missed}
    return [answers[seq] for seq in sorted(answers)]


def play(folder: Path) -> list[str | None]:
    with game(folder, {"table": {"games": 1, "seed": SEED, "clock": "lockstep"}}) as running:
        running.wait_for_decisions("table", DECISIONS + 10)
        assert running.states("table")[-1].late == 0
    return decided(running)[:DECISIONS]


def recipe() -> list[str]:
    """The same game in one process, with the same program."""
    model = LoadedModel(PACKAGE, read_manifest(PACKAGE))
    choose = policy_choice(lambda frames, history: np.asarray(model.forward([frames, history])[0], np.float32))
    episode = Episode(SEED, UNDISTURBED)
    return [ACTIONS[episode.step(choose(episode))] for _ in range(DECISIONS)]


def test_daemon_and_recipe_decide_alike(run_folder: Path) -> None:
    (run_folder / "first").mkdir()
    (run_folder / "second").mkdir()
    first = play(run_folder / "first")
    assert play(run_folder / "second") == first
    assert first == recipe()
    assert len(set(first)) > 2
