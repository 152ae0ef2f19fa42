"""The world process: runs a game on its own clock, shows its pictures and obeys the newest output."""

from __future__ import annotations

import time

import zmq

from daemon.bus import Bus
from daemon.messages import Output, WorldState
from daemon.plan import Plan
from daemon.process import Ready, Report
from daemon.publish import FramePublisher
from daemon.runtime import RuntimeFolder
from daemon.simulate.clock import ActionInForce, LockStep, RealTime
from daemon.simulate.pong import ACTIONS, EMULATOR_HZ, FRAMES_PER_DECISION, NEUTRAL, PongGame

IDLE_NS = 1_000_000_000
KEPT_SCORES = 64


class Simulate:
    """One world.

    In real time the emulator ticks at 60 Hz and shows every second picture; whatever action is in force at a tick
    counts, so a slow daemon loses points. In lock step the next picture follows the action on the last one.
    """

    def __init__(self, plan: Plan, runtime: RuntimeFolder, world: str, bus: Bus, poller: zmq.Poller) -> None:
        self._world, self._config = world, plan.config.worlds[world]
        now = time.monotonic_ns()
        self._force = ActionInForce(NEUTRAL, ACTIONS, round(self._config.failsafe_ms * 1e6))
        self._clock = LockStep() if self._config.clock == "lockstep" else RealTime(EMULATOR_HZ, now)
        self._games = 0
        self._finished: list[int] = []
        self._ticks = self._clock_ticks = self._progress = 0
        self._begun = self._config.start == "at_once"
        self._game = self._next_game()
        self._done = False
        self._frames = FramePublisher(plan, runtime, bus, world)
        self._outputs = bus.subscriber("output", world)
        self._state = bus.publisher("world", world)
        poller.register(self._outputs.socket, zmq.POLLIN)

    def turn(self, ready: Ready, now_ns: int) -> int:
        """Move the world on if it is time."""
        self._force.take([message for message in self._outputs.receive() if isinstance(message, Output)])
        if self._done:
            self._progress += 1
            return now_ns + IDLE_NS
        if isinstance(self._clock, LockStep):
            self._turn_in_lock_step(self._clock, now_ns)
        elif self._clock.due(now_ns):
            self._turn_in_real_time(now_ns)
        return self._clock.due_ns

    def _turn_in_real_time(self, now_ns: int) -> None:
        # A game begins right after a picture, so that its first action holds as long as every other.
        self._begun = self._begun or (self._force.decided and self._clock_ticks % FRAMES_PER_DECISION == 0)
        self._clock_ticks += 1
        if self._begun:
            self._tick(self._force.at(now_ns))
        if self._clock_ticks % FRAMES_PER_DECISION == 0:
            self._show(now_ns)

    def _turn_in_lock_step(self, clock: LockStep, now_ns: int) -> None:
        newest = self._force.newest
        if newest is not None and clock.answered(newest):
            for _ in range(FRAMES_PER_DECISION):
                self._tick(self._force.named(newest))
            clock.shown(self._show(now_ns, newest.seq), now_ns)
        elif clock.repeat(now_ns):
            clock.shown(self._show(now_ns), now_ns)

    def _tick(self, action: str) -> None:
        self._ticks += 1
        self._game.tick(action)
        if not self._game.over:
            return
        self._finished = [*self._finished, self._game.score][-KEPT_SCORES:]
        self._done = self._games == self._config.games
        if not self._done:
            self._game = self._next_game()

    def _next_game(self) -> PongGame:
        game = PongGame(self._config.seed + self._games, self._config.sticky)
        self._games += 1
        return game

    def _show(self, now_ns: int, after: int | None = None) -> int:
        self._progress += 1
        seq = self._frames.publish(self._game.picture(), now_ns, after)
        self._state.send(
            WorldState(
                tick=self._ticks,
                at_ns=now_ns,
                points=self._game.points,
                finished=self._finished,
                over=self._done,
                in_force=self._force.at(now_ns),
                late=self._clock.late,
            )
        )
        return seq

    def report(self) -> Report:
        """The score; pictures shown are the progress."""
        own, opponent = self._game.points
        counts = {self._world: {"ticks": self._ticks, "late": self._clock.late}}
        return Report(
            state="done" if self._done else "running",
            progress=self._progress,
            detail=f"{own}:{opponent}",
            counts=counts,
        )

    def shutdown(self) -> None:
        """Remove the rings."""
        self._frames.close()
