"""How well the policy steers on records it has not learned from, beside what needs no policy at all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from models.drive.learn import Lessons
from models.drive.policy import BINS, HISTORY, PADDING_TOKEN, DrivePolicy
from models.drive.steering import STRAIGHT, Tokens
from models.drive.tub import Drive


class Score(NamedTuple):
    """Against the person's steering: share of equal bins, share at most one bin off, mean distance in bins."""

    exact: float
    within_one: float
    mean_bins: float


def score(steered: Tokens, person: Tokens) -> Score:
    """Compare tokens, one for each record."""
    away = np.abs(steered - person)
    return Score(float((away == 0).mean()), float((away <= 1).mean()), float(away.mean()))


def compare(policy: DrivePolicy, learned: Drive, held_out: Drive) -> dict[str, Score]:
    """All scores on ``held_out``.

    The first two need no policy. ``repeat the last`` is told each time what the person did 50 ms ago, which nobody
    will tell it on the road, where it would stand still for ever; so is the policy with the person's history. What
    it does by itself is ``policy, its own history``. ``policy, others' frames`` has the histories as they were, but
    the frames of other moments: the worse, the more the policy looks at the frame.
    """
    person = held_out.tokens
    last = np.where(held_out.history[:, -1] == PADDING_TOKEN, STRAIGHT, held_out.history[:, -1])
    nothing = np.full_like(held_out.history, PADDING_TOKEN)
    elsewhere = np.roll(held_out.frames, len(person) // 2, axis=0)
    steered = {
        "most frequent": np.full_like(person, np.bincount(learned.tokens, minlength=BINS).argmax()),
        "repeat the last": last,
        "policy, the person's history": choose(policy, held_out),
        "policy, no history": choose(policy, held_out._replace(history=nothing)),
        "policy, its own history": drive_alone(policy, held_out),
        "policy, others' frames": choose(policy, held_out._replace(frames=elsewhere)),
    }
    return {name: score(tokens, person) for name, tokens in steered.items()}


@torch.no_grad()
def choose(policy: DrivePolicy, drive: Drive) -> Tokens:
    """The policy's choice at each record, with the history recorded there."""
    lessons = Lessons.of(drive)
    chosen: Tokens = policy(lessons.frames, lessons.history).argmax(1).numpy()
    return chosen


@torch.no_grad()
def drive_alone(policy: DrivePolicy, drive: Drive) -> Tokens:
    """The policy's choices when the history is its own, beginning with none; only the frames are the person's."""
    frames = Lessons.of(drive).frames
    history, chosen = [PADDING_TOKEN] * HISTORY, []
    for index in range(len(frames)):
        token = int(policy(frames[index : index + 1], torch.tensor([history])).argmax())
        chosen.append(token)
        history = [*history[1:], token]
    return np.array(chosen, np.int64)
