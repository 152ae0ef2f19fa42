"""From a model's output to an action, refusing everything that is not plainly one. Pure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daemon.messages import Drop, InlineTensor
from daemon.package import NUMPY_DTYPE, LogitsOutput, Manifest, tensor_bytes


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
    values = np.frombuffer(found.data, NUMPY_DTYPE[spec.dtype]).astype(np.float64)
    if not np.isfinite(values).all():
        raise Undecidable("nonfinite", f"{spec.name}: {np.count_nonzero(~np.isfinite(values))} of {values.size} values")
    if not isinstance(spec, LogitsOutput):
        return Decision(None, values.tolist(), None)
    token = int(values.argmax())
    confidence = 1.0 / float(np.exp(values - values[token]).sum())
    return Decision(manifest.actions[token], [], confidence)
