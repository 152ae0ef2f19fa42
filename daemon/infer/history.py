"""The history a policy sees: what was executed, one token per decision. Pure: time is passed in."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from daemon.messages import Applied

REMEMBERED = 256
"""Applied messages kept: they span the time from a frame's exposure to its decision many times over."""


class History:
    """Tokens of the actions in force at the frames of the last decisions.

    Args:
        length: tokens the policy takes.
        padding_token: stands where nothing is known to have been executed, or something outside the vocabulary.
        actions: the vocabulary; an action's index is its token.
    """

    def __init__(self, length: int, padding_token: int, actions: Sequence[str]) -> None:
        self._padding = padding_token
        self._token = {action: token for token, action in enumerate(actions)}
        self._decisions = deque([padding_token] * length, maxlen=length)
        self._applied: deque[tuple[int, int, int]] = deque(maxlen=REMEMBERED)
        self.applied_seq = 0
        """``Applied.seq`` of the newest write known here."""

    def applied(self, message: Applied) -> None:
        """Take in what the actuator was told, whoever wanted it."""
        token = self._padding if message.action is None else self._token.get(message.action, self._padding)
        self._applied.append((message.seq, message.applied_ns, token))
        self.applied_seq = message.seq

    def in_force(self, at_ns: int) -> int:
        """Token of the action in force at ``at_ns``."""
        for _, applied_ns, token in reversed(self._applied):
            if applied_ns <= at_ns:
                return token
        return self._padding

    def decide(self, sensor_ns: int, after: int | None = None) -> list[int]:
        """Tokens for a decision on the frame taken at ``sensor_ns``, oldest first; remembers the decision.

        A lock-step world names the write it acted on, ``after``: no clock can say it as surely, since the world may
        have moved before the writer has looked at its own.
        """
        self._decisions.append(self.in_force(sensor_ns) if after is None else self._written(after))
        return list(self._decisions)

    def _written(self, seq: int) -> int:
        return next((token for number, _, token in reversed(self._applied) if number == seq), self._padding)
