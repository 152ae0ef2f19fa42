"""Does the program act as the policy does? Both run on every recorded observation."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path

import executorch.extension.pybindings.portable_lib as runtime_library
import msgspec
import numpy as np
import torch
from executorch.runtime import Runtime
from numpy.typing import NDArray
from torch import Tensor

from daemon.export.policy import Observation
from daemon.export.recipe import ExportError, Recipe
from daemon.package import Latency, LogitsOutput, Parity

THREADS = 1
WARM_UP_RUNS = 10
MIN_RUNS, MAX_RUNS = 50, 500
MEASURE_S = 2.0
"""Time spent measuring latency, once MIN_RUNS are done."""

Output = NDArray[np.float32]
Forward = Callable[[Observation], Output]


class Comparison(msgspec.Struct, frozen=True):
    """What the program gave on the recorded observations; ``outputs`` are the runtime's, one per observation."""

    parity: Parity
    latency: Latency
    outputs: list[Output]


def compare(pte: Path, observations: list[Observation], expected: list[Tensor], recipe: Recipe) -> Comparison:
    """Run the program in the real runtime on every observation and hold it against the policy's own outputs.

    Raises:
        ExportError: the runtime refuses the program, an output is not finite, or a gate of the recipe is missed.
    """
    forward = _load(pte)
    outputs = [_checked(forward, observation, index, recipe) for index, observation in enumerate(observations)]
    parity = _parity(outputs, [output.numpy() for output in expected], recipe)
    gates = recipe.gates
    if not (parity.action_agreement >= gates.min_action_agreement and parity.max_abs_error <= gates.max_abs_error):
        raise ExportError(
            f"{recipe.name}: the program does not act as the policy on {parity.samples} recorded observations: action "
            f"agreement {parity.action_agreement:.4f} (at least {gates.min_action_agreement:g}), largest error "
            f"{parity.max_abs_error:.3g} (at most {gates.max_abs_error:g}); nothing was written"
        )
    return Comparison(parity, _latency(forward, observations), outputs)


def _load(pte: Path) -> Forward:
    """The program's ``forward`` in the runtime, on :data:`THREADS` threads."""
    runtime_library._unsafe_reset_threadpool(THREADS)
    try:
        program = Runtime.get().load_program(pte)
        method = program.load_method("forward")
    except RuntimeError as error:
        raise ExportError(f"{pte.name}: the runtime of this machine refuses the program just made: {error}") from error

    def forward(observation: Observation) -> Output:
        assert program is not None  # noqa: S101 - keeps the program alive as long as its method
        output: Output = method.execute(observation)[0].numpy()
        return output

    return forward


def _checked(forward: Forward, observation: Observation, index: int, recipe: Recipe) -> Output:
    """One output of the program, of the contract's shape and finite."""
    try:
        output = forward(observation)
    except RuntimeError as error:
        raise ExportError(f"{recipe.examples}: the program fails on observation {index}: {error}") from error
    if list(output.shape) != recipe.output.shape or not np.isfinite(output).all():
        raise ExportError(
            f"{recipe.examples}: on observation {index} the program gives {output.tolist()}, expected finite values of "
            f"shape {recipe.output.shape}"
        )
    return output


def _parity(found: list[Output], expected: list[Output], recipe: Recipe) -> Parity:
    """Largest error, and the share of observations with the same action (continuous: within the error gate)."""
    errors = [float(np.abs(a - b).max()) for a, b in zip(found, expected, strict=True)]
    if isinstance(recipe.output, LogitsOutput):
        agree = [int(a.argmax()) == int(b.argmax()) for a, b in zip(found, expected, strict=True)]
    else:
        agree = [error <= recipe.gates.max_abs_error for error in errors]
    return Parity(samples=len(found), action_agreement=sum(agree) / len(agree), max_abs_error=max(errors))


def _latency(forward: Forward, observations: list[Observation]) -> Latency:
    """Forward time on this machine, going round the observations."""
    for index in range(WARM_UP_RUNS):
        forward(observations[index % len(observations)])
    times_ms: list[float] = []
    end = time.perf_counter() + MEASURE_S
    while len(times_ms) < MIN_RUNS or (len(times_ms) < MAX_RUNS and time.perf_counter() < end):
        observation = observations[len(times_ms) % len(observations)]
        began = time.perf_counter()
        forward(observation)
        times_ms.append((time.perf_counter() - began) * 1e3)
    p50_ms, p99_ms = (round(float(np.percentile(times_ms, q)), 4) for q in (50, 99))
    return Latency(p50_ms=p50_ms, p99_ms=p99_ms, threads=THREADS, machine=platform.machine())


torch.set_num_threads(THREADS)
