"""Pong through ale-py: the Atari emulator as a world to act in. No sockets and no clock here.

The emulator runs 60 frames a second; a decision holds for :data:`FRAMES_PER_DECISION` of them. The same class
serves the real-time world process, the training recipe and the evaluation.
"""

from __future__ import annotations

from pathlib import Path

import ale_py
import numpy as np
from numpy.typing import NDArray

from daemon.worlds import PONG

ACTIONS = PONG.actions
"""Pong's minimal action set in the emulator's order."""
NEUTRAL = PONG.neutral
EMULATOR_HZ = 60
FRAMES_PER_DECISION = 2
MAX_NOOP_START = 30
"""A game opens with 1 to this many idle emulator frames, drawn from the seed: the usual Atari test protocol."""

ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)


class PongGame:
    """One game of Pong against the built-in opponent (left); the player is the right, green paddle.

    Args:
        seed: draws the opening and every disturbance; equal seeds and actions give equal games.
        sticky: probability per emulator frame that the emulator repeats its previous action (0 to 1).
        random_actions: probability per decision that :meth:`disturb` replaces the chosen action (0 to 1).
    """

    def __init__(self, seed: int, sticky: float = 0.0, random_actions: float = 0.0) -> None:
        self._ale = ale_py.ALEInterface()
        self._ale.setInt("random_seed", seed)
        self._ale.setFloat("repeat_action_probability", sticky)
        self._ale.loadROM(Path(ale_py.__file__).parent / "roms" / "pong.bin")
        self._codes = self._ale.getMinimalActionSet()
        self._rng = np.random.default_rng(seed)
        self._random_actions = random_actions
        self.points = [0, 0]
        # numpy's old generator: published results name their openings by its seeds.
        for _ in range(np.random.RandomState(seed).randint(1, MAX_NOOP_START + 1)):
            self.tick(NEUTRAL)

    @property
    def score(self) -> int:
        """Own points minus the opponent's, -21 to 21."""
        return self.points[0] - self.points[1]

    @property
    def over(self) -> bool:
        """One side has won."""
        return bool(self._ale.game_over())

    def tick(self, action: str) -> None:
        """Advance the emulator by one of its frames, 1/60 s, with ``action`` (one of :data:`ACTIONS`) in force."""
        reward = int(self._ale.act(self._codes[ACTIONS.index(action)]))
        if reward:
            self.points[0 if reward > 0 else 1] += abs(reward)

    def disturb(self, action: str) -> str:
        """The action really carried out: ``action``, or now and then a random one of the vocabulary."""
        if self._random_actions and self._rng.random() < self._random_actions:
            return ACTIONS[int(self._rng.integers(len(ACTIONS)))]
        return action

    def picture(self) -> NDArray[np.uint8]:
        """The screen as a camera would see it: ``uint8`` RGB, shape (210, 160, 3)."""
        return self._ale.getScreenRGB()

    def memory(self) -> NDArray[np.uint8]:
        """The console's 128 bytes of RAM (copy), which the scripted expert reads and the policy never sees."""
        return np.array(self._ale.getRAM())
