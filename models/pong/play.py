"""Lock-step Pong: what a policy sees at each decision and what its choice becomes. Shared by training and evaluation.

Decision *k* sees the frames of decisions k, k-1, ... (:data:`~models.pong.policy.STACK`; the oldest there is stands
in for missing ones) and the last :data:`~models.pong.policy.HISTORY` tokens of the actions that were in force: the
neutral one at the first frame, then what was *executed* after each decision, so a random replacement shows and the
emulator's own sticky repeats do not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from daemon.pixels import Pixels, fit
from daemon.simulate.pong import ACTIONS, FRAMES_PER_DECISION, NEUTRAL, PongGame
from models.pong import expert
from models.pong.policy import HISTORY, PADDING_TOKEN, STACK, VIEW

MAX_DECISIONS = 13_500
"""A game that is not over after this many decisions (7.5 minutes) is scored as it stands."""

Tokens = NDArray[np.int64]
Frame = TypeVar("Frame")
Choice = Callable[["Episode"], int]


@dataclass(frozen=True)
class Disturbance:
    """What stands between the choice of an action and its effect."""

    random_actions: float = 0.0
    """Probability per decision that a random action is executed instead of the chosen one."""
    sticky: float = 0.0
    """Probability per emulator frame that the emulator repeats its previous action."""


UNDISTURBED = Disturbance()


class FrameStack(Generic[Frame]):
    """The latest frames (or what was computed from each), for the offsets of ``STACK``."""

    def __init__(self) -> None:
        self._kept: deque[Frame] = deque(maxlen=STACK[-1] + 1)

    def push(self, frame: Frame) -> None:
        """Add the frame of a new decision."""
        self._kept.appendleft(frame)

    def stacked(self) -> list[Frame]:
        """Newest first; the oldest one kept stands in where the game is too young."""
        return [self._kept[min(offset, len(self._kept) - 1)] for offset in STACK]


class Episode:
    """One game, decision by decision."""

    def __init__(self, seed: int, disturbance: Disturbance = UNDISTURBED) -> None:
        self._game = PongGame(seed, disturbance.sticky, disturbance.random_actions)
        self._history = deque([PADDING_TOKEN] * (HISTORY - 1) + [ACTIONS.index(NEUTRAL)], maxlen=HISTORY)
        self._memory = self._previous_memory = self._game.memory()
        self.decisions = 0

    @property
    def score(self) -> int:
        """Own points minus the opponent's."""
        return self._game.score

    @property
    def points(self) -> tuple[int, int]:
        """Own points and the opponent's."""
        own, other = self._game.points
        return own, other

    @property
    def over(self) -> bool:
        """One side has won, or the game has taken :data:`MAX_DECISIONS`."""
        return self._game.over or self.decisions >= MAX_DECISIONS

    def picture(self) -> Pixels:
        """The raw screen, ``uint8 [210, 160, 3]``."""
        return self._game.picture()

    def frame(self) -> Pixels:
        """The screen in the policy's view, ``uint8 [height, width]``."""
        return fit(self.picture(), VIEW)

    def history(self) -> Tokens:
        """Tokens of the executed actions, ``int64 [HISTORY]``, oldest first."""
        return np.array(self._history, dtype=np.int64)

    def field(self) -> expert.Field:
        """Ball and paddle, from the console's memory."""
        return expert.read(self._memory, self._previous_memory, self._history[-1])

    def step(self, action: int) -> int:
        """Carry out the token ``action`` for one decision, or what the disturbance makes of it; returns that token."""
        executed = self._game.disturb(ACTIONS[action])
        for _ in range(FRAMES_PER_DECISION):
            self._game.tick(executed)
        token = ACTIONS.index(executed)
        self._history.append(token)
        self._previous_memory, self._memory = self._memory, self._game.memory()
        self.decisions += 1
        return token


def play(seed: int, disturbance: Disturbance, choose: Choice) -> Episode:
    """Play one game to its end with ``choose`` deciding."""
    episode = Episode(seed, disturbance)
    while not episode.over:
        episode.step(choose(episode))
    return episode


def expert_choice(episode: Episode) -> int:
    """The expert's move."""
    return expert.choose(expert.values(episode.field()))


def policy_choice(logits: Callable[[Pixels, Tokens], NDArray[np.float32]]) -> Choice:
    """The argmax of ``logits(frames uint8 [1, S, H, W], history int64 [1, HISTORY])``; for one game only."""
    stack: FrameStack[Pixels] = FrameStack()

    def choose(episode: Episode) -> int:
        stack.push(episode.frame())
        return int(np.argmax(logits(np.stack(stack.stacked())[None], episode.history()[None])))

    return choose
