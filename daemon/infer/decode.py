"""From a model's output to an action, refusing everything that is not plainly one. Pure."""

from __future__ import annotations

import array
import math
from typing import NamedTuple

from daemon.messages import Drop, InlineTensor
from daemon.package import LogitsOutput, Manifest, tensor_bytes


class Decision(NamedTuple):
    """An action of the vocabulary with its softmax probability, or continuous values."""

    action: str | None
    values: list[float]
    confidence: float | None


class Undecidable(ValueError):
    """An output no action may be taken from; ``reason`` is the counters' word."""

    def __init__(self, reason: Drop, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def decode(manifest: Manifest, outputs: list[InlineTensor]) -> Decision:
    """Read the action out of a model's outputs.

    Raises:
        Undecidable: ``malformed`` when dtype, shape or number differ from the manifest, ``nonfinite`` for NaN or
            infinity (arg-max of NaN would be the first action).
    """
    spec = manifest.output
    if len(outputs) != 1:
        raise Undecidable("malformed", f"expected 1 output, got {len(outputs)}")
    found = outputs[0]
    if (found.dtype, found.shape) != (spec.dtype, spec.shape):
        raise Undecidable(
            "malformed", f"{spec.name}: expected {spec.dtype} {spec.shape}, got {found.dtype} {found.shape}"
        )
    if len(found.data) != tensor_bytes(spec.dtype, spec.shape):
        raise Undecidable("malformed", f"{spec.name}: {len(found.data)} bytes do not fit {spec.shape}")
    # A handful of numbers: plain floats are ready before numpy has looked at its arguments.
    values = array.array("f", found.data).tolist()
    if not all(map(math.isfinite, values)):
        wrong = sum(not math.isfinite(value) for value in values)
        raise Undecidable("nonfinite", f"{spec.name}: {wrong} of {len(values)} values")
    if not isinstance(spec, LogitsOutput):
        return Decision(None, values, None)
    top = max(values)
    confidence = 1.0 / sum(math.exp(value - top) for value in values)
    return Decision(manifest.actions[values.index(top)], [], confidence)
