"""When a world moves on: in real time, or in lock step with the decisions. Pure: time is passed in."""

from __future__ import annotations

from collections.abc import Collection

from daemon.messages import Output

REPEAT_NS = 500_000_000
"""In lock step, a frame nobody has answered for this long is shown again with a fresh time stamp."""


class ActionInForce:
    """The newest output, as the hardware would hold it: neutral once outputs have been missing for too long.

    Args:
        neutral: the safe action.
        actions: the world's vocabulary; whatever else an output names is neutral.
        failsafe_ns: how long an output holds.
    """

    def __init__(self, neutral: str, actions: Collection[str], failsafe_ns: int) -> None:
        self.neutral, self._actions, self._failsafe_ns = neutral, actions, failsafe_ns
        self.newest: Output | None = None

    def take(self, outputs: list[Output]) -> None:
        """Remember the newest of the outputs that have arrived."""
        if outputs:
            self.newest = outputs[-1]

    @property
    def decided(self) -> bool:
        """The newest output answers a frame, so somebody plays."""
        return self.newest is not None and self.newest.frame_seq > 0

    def at(self, now_ns: int) -> str:
        """The action in force."""
        if self.newest is None or abs(now_ns - self.newest.sent_ns) > self._failsafe_ns:
            return self.neutral
        return self.named(self.newest)

    def named(self, output: Output) -> str:
        """The action an output names, neutral if the world does not know it."""
        return output.action if output.action is not None and output.action in self._actions else self.neutral


class RealTime:
    """Ticks at a fixed rate whatever anybody does; after a pause it goes on from now, without a burst."""

    def __init__(self, rate_hz: float, now_ns: int) -> None:
        self._period_ns = round(1e9 / rate_hz)
        self.due_ns = now_ns
        self.late = 0

    def due(self, now_ns: int) -> bool:
        """A tick is due; the next one is then a period later."""
        if now_ns < self.due_ns:
            return False
        self.due_ns += self._period_ns
        if now_ns > self.due_ns + self._period_ns:
            self.late += 1
            self.due_ns = now_ns + self._period_ns
        return True


class LockStep:
    """Waits for the action decided on the frame shown last."""

    def __init__(self) -> None:
        self._shown_seq = -1
        self.due_ns = 0
        self.late = 0
        self._answered = False

    def shown(self, seq: int, now_ns: int) -> None:
        """Frame ``seq`` has been published."""
        self._shown_seq, self.due_ns = seq, now_ns + REPEAT_NS

    def answered(self, newest: Output | None) -> bool:
        """``newest`` is the output decided on the frame shown last."""
        done = self._shown_seq >= 0 and newest is not None and newest.frame_seq == self._shown_seq
        self._answered = self._answered or done
        return done

    def repeat(self, now_ns: int) -> bool:
        """The frame must be shown again; counted as late once the run is under way."""
        if now_ns < self.due_ns:
            return False
        self.late += self._answered
        return True
