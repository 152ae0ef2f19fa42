"""What is known of the simulated worlds without starting one: what they show and which actions they take."""

from __future__ import annotations

from typing import Literal

import msgspec

Game = Literal["pong"]


class WorldFacts(msgspec.Struct, frozen=True):
    """One kind of world.

    Attributes:
        actions: its vocabulary, in the order of a policy's tokens.
        neutral: the action that does nothing.
        width, height: its picture, pixels.
        fps: pictures per second.
    """

    actions: tuple[str, ...]
    neutral: str
    width: int
    height: int
    fps: float


PONG = WorldFacts(("NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE"), "NOOP", 160, 210, 30.0)
"""Atari Pong: RIGHT moves the paddle up, LEFT down. The emulator runs 60 frames a second, two per decision."""
WORLDS: dict[Game, WorldFacts] = {"pong": PONG}
