"""``model.toml``: what a model folder declares about its policy. Reading it needs no torch.

An example, with ``inputs`` and ``outputs`` exactly as in the manifest (``daemon.package``)::

    name = "pong"
    policy = "policy.py"        # has load() -> torch.nn.Module in eval mode, taking raw uint8 frames
    examples = "examples.npz"   # recorded observations: one array per input, the samples along the first axis
    actions = ["NOOP", ...]     # the order of the logits
    [[inputs]]
    ...
    [[outputs]]
    ...
    [gates]                     # optional: what the exported program must reach, else nothing is written
    min_action_agreement = 0.995
    max_abs_error = 1e-3
"""

from __future__ import annotations

import tempfile
import tomllib
from pathlib import Path
from typing import Annotated

import msgspec

from daemon.messages import ActionName, Name
from daemon.package import (
    MANIFEST_FILE,
    MANIFEST_VERSION,
    FileEntry,
    Goldens,
    Input,
    Latency,
    Manifest,
    Output,
    PackageError,
    Parity,
    read_manifest,
)

RECIPE_FILE = "model.toml"

FileName = Annotated[str, msgspec.Meta(pattern=r"^\w[\w.-]*$")]


class ExportError(ValueError):
    """A policy that cannot become a package; the text says where, what was expected and what was found."""


class Gates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the exported program must reach on the recorded observations, against the eager policy."""

    min_action_agreement: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.995
    max_abs_error: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 1e-3


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of ``model.toml``."""

    name: Name
    policy: FileName
    examples: FileName
    inputs: Annotated[list[Input], msgspec.Meta(min_length=1, max_length=16)]
    outputs: Annotated[list[Output], msgspec.Meta(min_length=1, max_length=1)]
    actions: Annotated[list[ActionName], msgspec.Meta(max_length=4096)] = []
    gates: Gates = Gates()

    @property
    def output(self) -> Output:
        """The one output."""
        return self.outputs[0]


def read_recipe(model_folder: Path) -> Recipe:
    """Read and check ``model.toml``.

    Raises:
        ExportError: missing, not TOML, an unknown or wrong key, or parts that do not fit one another.
    """
    path = model_folder / RECIPE_FILE
    try:
        recipe = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), type=Recipe)
    except OSError as error:
        raise ExportError(f"{path}: expected a model's contract: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ExportError(f"{path}: {error}") from None
    _check_contract(recipe, path)
    return recipe


def draft_manifest(recipe: Recipe) -> Manifest:
    """The manifest as far as the recipe decides it; hashes and measurements are placeholders."""
    return Manifest(
        manifest_version=MANIFEST_VERSION,
        name=recipe.name,
        model=FileEntry(sha256="0" * 64, bytes=1),
        goldens=Goldens(sha256="0" * 64, bytes=1, count=1, tolerance=recipe.gates.max_abs_error),
        inputs=recipe.inputs,
        outputs=recipe.outputs,
        actions=recipe.actions,
        operators=[],
        backends=[],
        quantisation="none",
        built_with={},
        parity=Parity(samples=0, action_agreement=0.0, max_abs_error=0.0),
        latency=Latency(p50_ms=0.0, p99_ms=0.0, threads=1, machine=""),
    )


def _check_contract(recipe: Recipe, path: Path) -> None:
    """Let the device's own reader judge the contract before minutes go into lowering: one rule, one place."""
    with tempfile.TemporaryDirectory() as name:
        draft = Path(name)
        (draft / MANIFEST_FILE).write_bytes(msgspec.json.encode(draft_manifest(recipe)))
        try:
            read_manifest(draft)
        except PackageError as error:
            raise ExportError(str(error).replace(str(draft / MANIFEST_FILE), str(path))) from None
