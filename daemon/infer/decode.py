"""From a model's output to an action, refusing everything that is not plainly one. Pure."""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

from daemon.messages import Drop, InlineTensor
from daemon.package import LogitsOutput, Manifest


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


class Decoder:
    """Reads actions out of a model's outputs.

    Args:
        manifest: the model's contract.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._spec, self._actions = manifest.output, manifest.actions
        self._discrete = isinstance(manifest.output, LogitsOutput)
        self._floats = struct.Struct(f"<{math.prod(manifest.output.shape)}f")

    def decode(self, outputs: list[InlineTensor]) -> Decision:
        """The action in the outputs of one inference.

        Raises:
            Undecidable: ``malformed`` when dtype, shape or number differ from the manifest, ``nonfinite`` for NaN
                or infinity (arg-max of NaN would be the first action).
        """
        values = list(self._floats.unpack(self._checked(outputs)))
        if not all(map(math.isfinite, values)):
            wrong = sum(not math.isfinite(value) for value in values)
            raise Undecidable("nonfinite", f"{self._spec.name}: {wrong} of {len(values)} values")
        if not self._discrete:
            return Decision(None, values, None)
        top = max(values)
        confidence = 1.0 / sum([math.exp(value - top) for value in values])
        return Decision(self._actions[values.index(top)], [], confidence)

    def _checked(self, outputs: list[InlineTensor]) -> bytes:
        """The bytes of the one output, of the size :attr:`_floats` takes."""
        spec = self._spec
        if len(outputs) != 1:
            raise Undecidable("malformed", f"expected 1 output, got {len(outputs)}")
        found = outputs[0]
        if found.dtype != spec.dtype or found.shape != spec.shape:
            raise Undecidable(
                "malformed", f"{spec.name}: expected {spec.dtype} {spec.shape}, got {found.dtype} {found.shape}"
            )
        if len(found.data) != self._floats.size:
            raise Undecidable("malformed", f"{spec.name}: {len(found.data)} bytes do not fit {spec.shape}")
        return found.data
