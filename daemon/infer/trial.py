"""A model on trial: whether it has been worse than can be tolerated since it was switched to. Pure."""

from __future__ import annotations

from collections.abc import Mapping

FATAL = ("nonfinite", "malformed", "model_error", "worker_lost")
"""Of these one is enough."""
LATE = "deadline"
LATE_SHARE, LATE_LEAST = 0.1, 5
"""Missed deadlines that end a trial: more than this share of the decisions, and at least so many."""
REFUSED_SHARE, REFUSED_LEAST = 0.5, 10
"""The same for proposals that the valve refused for what the model asked for."""
FOR_WHAT_IT_ASKED = ("nonfinite", "malformed", "unknown_action", "range", "confidence", "slew", "transition")
"""Refusals that the model is to blame for; not the operator's, the clock's or another agent's."""


class Trial:
    """What an agent's counters said when the trial began.

    Args:
        decided: decisions so far.
        dropped: observations and requests that went no further, by reason.
        refused: proposals the valve refused, by reason.
    """

    def __init__(self, decided: int, dropped: Mapping[str, int], refused: Mapping[str, int]) -> None:
        self._decided, self._dropped, self._refused = decided, dict(dropped), dict(refused)

    def verdict(self, decided: int, dropped: Mapping[str, int], refused: Mapping[str, int]) -> str:
        """Why the trial is over for the worse, by the counters as they are now; empty if it is not."""
        since = {reason: number - self._dropped.get(reason, 0) for reason, number in dropped.items()}
        for reason in FATAL:
            if since.get(reason, 0) > 0:
                return f"{since[reason]} {reason}"
        decisions = decided - self._decided
        late = since.get(LATE, 0)
        if late >= LATE_LEAST and late > LATE_SHARE * (decisions + late):
            return f"{late} missed deadlines beside {decisions} decisions"
        blamed = sum(refused.get(reason, 0) - self._refused.get(reason, 0) for reason in FOR_WHAT_IT_ASKED)
        if blamed >= REFUSED_LEAST and blamed > REFUSED_SHARE * decisions:
            return f"the valve refused {blamed} of {decisions} proposals"
        return ""
