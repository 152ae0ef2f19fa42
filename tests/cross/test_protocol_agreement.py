"""The C++ decoders and the daemon's take and refuse the same bytes, whoever wrote them, and mean the same by them.

Hypothesis gives the seeds; what is drawn from one is found again by it.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cross.declared import ROOTS
from tests.cross.drawing import Drawing
from tests.cross.formats import Format, Json, Msgpack
from tests.cross.oracle import python_answer
from tests.cross.probe import Probe, What

EXAMPLES = 30
PER_EXAMPLE = 50
FORMS: dict[What, Format] = {"w": Msgpack(), "d": Msgpack(), "m": Json()}
SEEDS = st.integers(0, 2**32 - 1)


def agree(probe: Probe, what: What, data: bytes) -> bool:
    """Whether the bytes are accepted."""
    python, native = python_answer(what, data), probe.ask(what, data)
    assert native.accepted == python.accepted, (data, python.data, native.data)
    if python.accepted:
        assert native.data == python.data
    return python.accepted


@pytest.mark.parametrize("name", [root.cls.__name__ for _, root in ROOTS])
def test_both_sides_agree_on_drawn_bytes(probe: Probe, name: str) -> None:
    what, root = next((what, root) for what, root in ROOTS if root.cls.__name__ == name)
    seen: Counter[bool] = Counter()

    @settings(max_examples=EXAMPLES)
    @given(seed=SEEDS)
    def check(seed: int) -> None:
        drawing = Drawing(Random(seed), FORMS[what])
        seen.update(agree(probe, what, drawing.struct(root)) for _ in range(PER_EXAMPLE))

    check()
    assert min(seen[True], seen[False]) > 0.1 * seen.total(), f"hardly anything was tried: {seen}"


@pytest.mark.parametrize("what", ["w", "d", "m"])
@settings(max_examples=EXAMPLES)
@given(seed=SEEDS)
def test_both_sides_agree_on_anything(probe: Probe, what: What, seed: int) -> None:
    drawing = Drawing(Random(seed), FORMS[what])
    for _ in range(PER_EXAMPLE):
        agree(probe, what, drawing.anything())
