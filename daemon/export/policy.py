"""Importing a policy and its recorded observations, and refusing what the device would choke on."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from daemon.export.recipe import ExportError, Recipe
from daemon.package import FrameInput, HistoryInput, Input

Observation = tuple[Tensor, ...]
"""One recorded observation: the inputs in the contract's order, each with a batch axis of one."""


def load_policy(model_folder: Path, recipe: Recipe) -> nn.Module:
    """Import the policy's file and call its ``load()``.

    A folder below the current one is imported by its package name, so that ``models/pong/policy.py`` is
    ``models.pong.policy`` and may import its siblings; a folder elsewhere holds a policy that is one file.

    Raises:
        ExportError: not importable, no ``load``, not a module, or in training mode.
    """
    path = model_folder / recipe.policy
    if not path.is_file():
        raise ExportError(f"{path}: expected the policy that {recipe.name} names")
    try:
        policy = _import(path).load()
    except Exception as error:
        raise ExportError(f"{path}: load() did not give a policy: {type(error).__name__}: {error}") from error
    if not isinstance(policy, nn.Module):
        raise ExportError(f"{path}: load() returned {type(policy).__name__}, expected torch.nn.Module")
    if policy.training:
        raise ExportError(f"{path}: load() returned a policy in training mode; return policy.eval()")
    return policy


def read_examples(path: Path, recipe: Recipe) -> list[Observation]:
    """Read the recorded observations.

    Raises:
        ExportError: missing, other arrays than the inputs, or one that the device could not be given.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays: dict[str, NDArray[np.generic]] = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise ExportError(f"{path}: expected recorded observations (numpy .npz): {error}") from None
    expected = [spec.name for spec in recipe.inputs]
    if set(arrays) != set(expected):
        raise ExportError(f"{path}: expected the arrays {sorted(expected)}, found {sorted(arrays)}")
    for spec in recipe.inputs:
        for complaint in _complaints(spec, arrays[spec.name], len(recipe.actions)):
            raise ExportError(f"{path}: {spec.name}: {complaint}")
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) != 1 or not counts[expected[0]]:
        raise ExportError(f"{path}: expected one number of samples, at least 1, found {counts}")
    tensors = [torch.from_numpy(arrays[name]) for name in expected]
    return [tuple(tensor[index : index + 1] for tensor in tensors) for index in range(counts[expected[0]])]


def run_eager(policy: nn.Module, observation: Observation, recipe: Recipe) -> Tensor:
    """The policy's own output for one observation, checked against the contract.

    Raises:
        ExportError: it fails, or its output has another shape or dtype, or is not finite.
    """
    spec = recipe.output
    try:
        with torch.no_grad():
            output = policy(*observation)
    except Exception as error:
        raise ExportError(f"{recipe.policy}: forward fails on a recorded observation: {error}") from error
    if not isinstance(output, Tensor):
        raise ExportError(f"{recipe.policy}: forward returned {type(output).__name__}, expected one tensor")
    dtype = str(output.dtype).removeprefix("torch.")
    if (dtype, list(output.shape)) != (spec.dtype, spec.shape):
        found = f"{dtype} {list(output.shape)}"
        raise ExportError(f"{recipe.policy}: output {spec.name}: expected {spec.dtype} {spec.shape}, got {found}")
    if not bool(torch.isfinite(output).all()):
        raise ExportError(f"{recipe.policy}: output {spec.name}: not finite on a recorded observation: {output}")
    return output


def check_layout(observation: Observation, recipe: Recipe) -> None:
    """Refuse a tensor that is not C-contiguous: the program would be planned for that layout and fail on the device.

    Raises:
        ExportError: names the input and its strides.
    """
    for spec, tensor in zip(recipe.inputs, observation, strict=True):
        if not tensor.is_contiguous():
            raise ExportError(
                f"{recipe.examples}: {spec.name}: strides {tuple(tensor.stride())} are not C-contiguous for shape "
                f"{list(tensor.shape)}, a permuted or channels-last picture; store numpy.ascontiguousarray(array)"
            )


def _import(path: Path) -> ModuleType:
    """The policy's module; see :func:`load_policy` for its name."""
    here = Path.cwd()
    if path.resolve().is_relative_to(here):
        parts = path.resolve().relative_to(here).with_suffix("").parts
        if all(part.isidentifier() for part in parts):
            if str(here) not in sys.path:
                sys.path.insert(0, str(here))
            return importlib.import_module(".".join(parts))
    spec = importlib.util.spec_from_file_location(f"policy_{path.parent.name}", path)
    if spec is None or spec.loader is None:
        raise ExportError(f"{path}: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _complaints(spec: Input, array: NDArray[np.generic], actions: int) -> Iterator[str]:
    """What is wrong with the recorded array of one input."""
    if array.dtype != spec.dtype:
        why = ": scaling belongs into the policy's forward" if isinstance(spec, FrameInput) else ""
        yield f"expected {spec.dtype}, found {array.dtype}{why}"
    if list(array.shape[1:]) != spec.shape[1:]:
        yield f"expected the shape [samples, {str(spec.shape[1:])[1:]}, found {list(array.shape)}"
    if not array.flags.c_contiguous:
        yield "expected C order, found Fortran order: a permuted picture; store numpy.ascontiguousarray(array)"
    if isinstance(spec, HistoryInput):
        known = {*range(actions), spec.padding_token}
        if strange := sorted(set(np.unique(array).tolist()) - known):
            yield f"tokens {strange[:8]} are neither an action (0 to {actions - 1}) nor padding ({spec.padding_token})"
