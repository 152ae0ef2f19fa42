"""The scripted Pong expert the policy learns from: it reads the console's memory, never the picture.

It predicts where the ball will cross the paddle's line, tries every plan "wait some decisions, then tap some times
in one direction", and values the height at which each plan would meet the ball. Positions are in the console's
units: one is one picture row or column. The paddle's rule of motion and the contact heights that beat the built-in
opponent were measured on the emulator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from daemon.simulate.pong import ACTIONS

Values = NDArray[np.float64]

NOOP, UP, DOWN = ACTIONS.index("NOOP"), ACTIONS.index("RIGHT"), ACTIONS.index("LEFT")
MOVES = (NOOP, UP, DOWN)
"""The actions the expert uses: the fire button does nothing during play."""

BALL_X, BALL_Y, PADDLE_Y = 49, 54, 51
"""Addresses in the console's RAM; ball y is 0 while no ball is in play."""
WALLS = (44.5, 206.5)
"""Ball y at which it bounces."""
PADDLE_RANGE = (38.0, 203.0)
CONTACT_X = 188.0
"""Ball x at the own paddle."""
REST_Y = 112.0
"""Paddle y to wait at: the middle of the field."""
TAP = 12.0
"""UP or DOWN for one decision moves the paddle's resting place by this; per decision it covers half the way there."""
HORIZON = 14
"""Plans look this many decisions ahead; a ball further away is only followed roughly."""
SERVE_JUMP = 40.0
"""A larger change of ball x within a decision is a new serve, not motion."""
CENTRE_OFFSET = 7.0
"""Paddle y (its top) plus this is its centre."""

_FOLLOW_SCALE, _FOLLOW_EFFORT = 0.02, 6.0
_TAP_COST = 0.02
_SHIFT = {NOOP: 0.0, UP: -TAP, DOWN: TAP}
_TOKEN_SHIFT = {**dict.fromkeys(range(len(ACTIONS)), 0.0), UP: -TAP, ACTIONS.index("RIGHTFIRE"): -TAP}
_TOKEN_SHIFT |= {DOWN: TAP, ACTIONS.index("LEFTFIRE"): TAP}

_PLANS = [(0, 0)] + [
    (wait, taps)
    for wait in range(HORIZON)
    for taps in range(-HORIZON, HORIZON + 1)
    if taps and wait + abs(taps) <= HORIZON
]
_WAIT = np.array([wait for wait, _ in _PLANS])
_TAPS = np.array([taps for _, taps in _PLANS])
_STEPS = np.arange(HORIZON)
_PUSH = TAP * np.sign(_TAPS) * ((_STEPS[:, None] >= _WAIT) & (_STEPS[:, None] < _WAIT + np.abs(_TAPS)))
_FIRST = {
    NOOP: (_TAPS == 0) | (_WAIT > 0),
    UP: (_TAPS < 0) & (_WAIT == 0),
    DOWN: (_TAPS > 0) & (_WAIT == 0),
}


@dataclass(frozen=True)
class Field:
    """Ball and own paddle at one decision, console units, velocities per decision."""

    x: float
    y: float
    vx: float
    vy: float
    paddle: float
    target: float
    """Where the paddle comes to rest if nothing more is done."""
    approaching: bool
    """A ball is in play and on its way to the own paddle."""

    @property
    def decisions_left(self) -> float:
        """Decisions until an approaching ball is at the paddle."""
        return (CONTACT_X - self.x) / self.vx

    @property
    def near(self) -> bool:
        """The ball arrives within the horizon: each of these decisions can win or lose it."""
        return self.approaching and self.decisions_left <= HORIZON - 1


def read(memory: NDArray[np.uint8], previous: NDArray[np.uint8], last_action: int) -> Field:
    """The field from the console's RAM now and one decision ago.

    ``last_action`` is the token executed since then: its effect on the paddle does not show in RAM yet.
    """
    x, y, paddle = (float(memory[address]) for address in (BALL_X, BALL_Y, PADDLE_Y))
    vx, vy, paddle_before = x - float(previous[BALL_X]), y - float(previous[BALL_Y]), float(previous[PADDLE_Y])
    target = paddle_before + 2.0 * (paddle - paddle_before) + _TOKEN_SHIFT.get(last_action, 0.0)
    in_play = y != 0 and previous[BALL_Y] != 0 and abs(vx) <= SERVE_JUMP
    return Field(x, y, vx, vy, paddle, float(np.clip(target, *PADDLE_RANGE)), in_play and vx > 0 and x <= CONTACT_X)


def values(field: Field) -> Values:
    """Worth of NOOP, UP and DOWN as the next action, ``float64 [3]``; the best plan that starts with it counts."""
    if not field.approaching:
        return _follow(field.target - REST_Y)
    landing = _fold(field.y + field.vy * field.decisions_left)
    if not field.near:
        return _follow(field.target + CENTRE_OFFSET - landing)
    contact = landing - _paddle_at_contact(field)
    worth = sum(_contact_worth(contact + error, landing) for error in (-1.0, 0.0, 1.0)) - _TAP_COST * np.abs(_TAPS)
    return np.array([worth[_FIRST[move]].max() for move in MOVES])


def choose(action_values: Values) -> int:
    """The token of the best move; equal values go to the earlier one of :data:`MOVES`."""
    return MOVES[int(np.argmax(action_values))]


def _follow(distance: float) -> Values:
    """Worth of bringing the paddle ``distance`` closer: moving pays above three quarters of a tap."""
    effort = {NOOP: 0.0, UP: _FOLLOW_EFFORT, DOWN: _FOLLOW_EFFORT}
    return -_FOLLOW_SCALE * np.array([abs(distance + _SHIFT[move]) + effort[move] for move in MOVES])


def _fold(y: float) -> float:
    """Height after the bounces between the walls of a straight flight to ``y``."""
    top, bottom = WALLS
    span = bottom - top
    offset = (y - top) % (2 * span)
    return top + min(offset, 2 * span - offset)


def _paddle_at_contact(field: Field) -> Values:
    """Paddle y of each plan when the ball arrives."""
    paddle = before = np.full(len(_PLANS), field.paddle)
    target = np.full(len(_PLANS), field.target)
    for step in range(int(field.decisions_left) + 1):
        before, paddle = paddle, paddle + 0.5 * (target - paddle)
        target = np.clip(target + _PUSH[step], *PADDLE_RANGE)
    contact: Values = before + (field.decisions_left % 1.0) * (paddle - before)
    return contact


def _contact_worth(contact: Values, landing: float) -> Values:
    """Worth of meeting the ball at ``contact`` = ball y - paddle y, by where on the paddle it is hit.

    13 to 16 sends it steeply down, which the opponent cannot return from the upper half; -2 to 0 steeply up, which
    it cannot return from the upper part of the lower half. Outside -3 to 17 the ball is missed.
    """
    missed, edge = (contact < -3) | (contact > 17), (contact < -1.6) | (contact > 15.6)
    worth = np.where(missed, -3.0, np.where(edge, 0.0, 0.2 - 0.01 * np.abs(contact - CENTRE_OFFSET)))
    if landing < 122:
        return worth + ((contact >= 12.6) & (contact <= 16.4))
    if landing < 165:
        return worth + ((contact >= -2.4) & (contact <= 0.4))
    return worth
