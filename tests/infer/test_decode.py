"""Only a plain answer becomes an action: no arg-max over NaN, no wrong shape, no guess."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.infer.decode import Decoder, Undecidable
from daemon.messages import InlineTensor
from tests.infer.manifests import manifest

MANIFEST = manifest()
MODEL = Decoder(MANIFEST)
CONTINUOUS = Decoder(
    manifest(
        inputs=[MANIFEST.inputs[0]],
        outputs=[{"role": "continuous", "name": "steer", "dtype": "float32", "shape": [1, 2], "units": ["rad", "m/s"]}],
        actions=[],
    )
)


def logits(*values: float) -> list[InlineTensor]:
    return [InlineTensor("float32", [1, len(values)], np.array(values, np.float32).tobytes())]


def test_the_largest_logit_wins_with_its_softmax_probability() -> None:
    decision = MODEL.decode(logits(0.0, 0.0, math.log(2.0)))
    assert decision.action == "RIGHT"
    assert decision.confidence == pytest.approx(0.5)


def test_equal_logits_are_an_even_split() -> None:
    assert MODEL.decode(logits(1.0, 1.0, 1.0)).confidence == pytest.approx(1 / 3)


def test_continuous_values_pass_as_they_are() -> None:
    assert CONTINUOUS.decode(logits(0.25, -3.0)).values == [0.25, -3.0]
    with pytest.raises(Undecidable, match="steer: 1 of 2"):
        CONTINUOUS.decode(logits(0.25, math.nan))


NOT_FINITE = [
    (math.nan, 0.0, 0.0),
    (0.0, math.nan, 1.0),
    (math.nan,) * 3,
    (math.inf, 0.0, 0.0),
    (0.0, 0.0, -math.inf),
]


@pytest.mark.parametrize("values", NOT_FINITE)
def test_not_a_number_is_never_an_action(values: tuple[float, ...]) -> None:
    with pytest.raises(Undecidable) as caught:
        MODEL.decode(logits(*values))
    assert caught.value.reason == "nonfinite"


MALFORMED = {
    "no output": ([], "expected 1 output, got 0"),
    "two outputs": (logits(1, 2, 3) * 2, "expected 1 output, got 2"),
    "too few": (logits(1, 2), r"expected float32 \[1, 3\], got float32 \[1, 2\]"),
    "another dtype": ([InlineTensor("int64", [1, 3], b"\0" * 24)], r"got int64 \[1, 3\]"),
    "another rank": ([InlineTensor("float32", [3], b"\0" * 12)], r"got float32 \[3\]"),
    "short bytes": ([InlineTensor("float32", [1, 3], b"\0" * 8)], "8 bytes do not fit"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_wrong_shape_is_refused_with_both_shapes(name: str) -> None:
    outputs, words = MALFORMED[name]
    with pytest.raises(Undecidable, match=words) as caught:
        MODEL.decode(outputs)
    assert caught.value.reason == "malformed"


@given(st.lists(st.floats(width=32), min_size=3, max_size=3))
def test_every_result_is_a_known_action_with_a_probability(values: list[float]) -> None:
    try:
        decision = MODEL.decode(logits(*values))
    except Undecidable:
        assert not all(math.isfinite(value) for value in values)
        return
    assert decision.action in MANIFEST.actions
    assert decision.confidence is not None
    assert 1 / 3 - 1e-9 <= decision.confidence <= 1.0
