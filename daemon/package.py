"""The model package: a folder with ``model.pte``, ``manifest.json`` and ``goldens.bin``, and how it is checked.

The manifest is the contract between the host that exported a policy and the device that runs it. Reading it
needs neither torch nor ExecuTorch. ``docs/model-package.md`` describes the format field by field.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from daemon.messages import ActionName, Count, DType, Name, Sha256, Shape
from daemon.views import View

if TYPE_CHECKING:  # only who looks at tensors pays for numpy
    import numpy as np
    from numpy.typing import NDArray

MANIFEST_VERSION = 1
MANIFEST_FILE = "manifest.json"
MODEL_FILE = "model.pte"
GOLDENS_FILE = "goldens.bin"
MAX_MANIFEST_BYTES = 256 * 1024
MAX_HISTORY = 256

ITEM_BYTES: dict[DType, int] = {"uint8": 1, "int32": 4, "int64": 8, "float32": 4}
FrameLayout = Literal["NSHW", "NHWC", "NSHWC"]
Token = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Millis = Annotated[float, msgspec.Meta(ge=-60_000.0, le=60_000.0)]
Versions = dict[str, str]


class PackageError(ValueError):
    """A package that must not act; the text names the file, what was expected and what was found."""


class FrameInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="role", tag="frame"):
    """A stack of frames of one source view, newest first.

    ``offsets_ms`` are the frames' times relative to the newest, 0 first, then negative. ``layout`` names the
    axes: S the stack; ``NHWC`` is a stack of one. Values are raw bytes, 0 to 255.
    """

    name: Name
    dtype: Literal["uint8"]
    shape: Shape
    layout: FrameLayout
    view: View
    offsets_ms: Annotated[list[Millis], msgspec.Meta(min_length=1, max_length=64)]


class HistoryInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="role", tag="history"):
    """Tokens of the executed actions, oldest first: the action in force at each past decision's frame.

    A token is the action's index in ``actions``; ``padding_token`` stands where nothing was executed yet or the
    executed action is not in the vocabulary.
    """

    name: Name
    dtype: Literal["int64", "int32"]
    shape: Shape
    padding_token: Token


class LogitsOutput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="role", tag="action_logits"):
    """One logit per action of the vocabulary; the largest finite one wins."""

    name: Name
    dtype: Literal["float32"]
    shape: Shape


class ContinuousOutput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="role", tag="continuous"):
    """One value per channel, in the units named; limits are the actuator's business."""

    name: Name
    dtype: Literal["float32"]
    shape: Shape
    units: Annotated[list[str], msgspec.Meta(min_length=1, max_length=32)]


Input = FrameInput | HistoryInput
Output = LogitsOutput | ContinuousOutput


class FileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the package, pinned by its hash."""

    sha256: Sha256
    bytes: Annotated[int, msgspec.Meta(ge=1, le=2**33)]


class Goldens(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Recorded inputs and the outputs the exporter's runtime gave; ``tolerance`` is absolute, per output value."""

    sha256: Sha256
    bytes: Annotated[int, msgspec.Meta(ge=1, le=2**28)]
    count: Annotated[int, msgspec.Meta(ge=1, le=4096)]
    tolerance: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]


class Parity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the exported program compared with the eager PyTorch policy on recorded observations."""

    samples: Count
    action_agreement: float
    max_abs_error: float


class Latency(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Forward time measured by the exporter; the device measures its own before it admits an agent."""

    p50_ms: float
    p99_ms: float
    threads: Annotated[int, msgspec.Meta(ge=1, le=1024)]
    machine: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``manifest.json``, version :data:`MANIFEST_VERSION`."""

    manifest_version: Count
    name: Name
    model: FileEntry
    goldens: Goldens
    inputs: Annotated[list[Input], msgspec.Meta(min_length=1, max_length=16)]
    outputs: Annotated[list[Output], msgspec.Meta(min_length=1, max_length=1)]
    actions: Annotated[list[ActionName], msgspec.Meta(max_length=4096)]
    operators: list[str]
    backends: list[str]
    quantisation: Literal["none"]
    built_with: Versions
    parity: Parity
    latency: Latency

    @property
    def frame(self) -> FrameInput:
        """The input that is a stack of frames."""
        return next(spec for spec in self.inputs if isinstance(spec, FrameInput))

    @property
    def history(self) -> HistoryInput | None:
        """The input that holds executed actions, if the policy has one."""
        return next((spec for spec in self.inputs if isinstance(spec, HistoryInput)), None)

    @property
    def output(self) -> Output:
        """The one output."""
        return self.outputs[0]


def read_manifest(folder: Path) -> Manifest:
    """Read and check the manifest of a package, not yet its other files.

    Raises:
        PackageError: missing, too large, not JSON, another version, an unknown role, or parts that disagree.
    """
    path = folder / MANIFEST_FILE
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PackageError(f"{path}: expected a package manifest: {error.strerror}") from None
    if len(data) > MAX_MANIFEST_BYTES:
        raise PackageError(f"{path}: {len(data)} bytes; a manifest has {MAX_MANIFEST_BYTES} at most")
    try:
        version = msgspec.json.decode(data, type=_Versioned).manifest_version
        if version != MANIFEST_VERSION:
            raise PackageError(f"{path}: manifest_version = {version}; this build reads {MANIFEST_VERSION}")
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PackageError(f"{path}: {error}") from None
    for complaint in _complaints(manifest):
        raise PackageError(f"{path}: {complaint}")
    return manifest


def verify_files(folder: Path, manifest: Manifest) -> None:
    """Compare the hashes of the package's files with the manifest.

    Raises:
        PackageError: a file is missing, has another size or another hash.
    """
    for name, entry in ((MODEL_FILE, manifest.model), (GOLDENS_FILE, manifest.goldens)):
        path = folder / name
        try:
            size = path.stat().st_size
            if size != entry.bytes:
                raise PackageError(f"{path}: expected {entry.bytes} bytes, found {size}: a truncated or foreign file")
            found = file_sha256(path)
        except OSError as error:
            raise PackageError(f"{path}: {error.strerror}") from None
        if found != entry.sha256:
            raise PackageError(f"{path}: sha256 is {found[:16]}…, the manifest pins {entry.sha256[:16]}…")


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's content, hexadecimal."""
    import hashlib  # the manifest alone needs no OpenSSL

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_goldens(folder: Path, manifest: Manifest) -> Iterator[tuple[list[NDArray[np.generic]], NDArray[np.generic]]]:
    """Yield (inputs in manifest order, expected output) for each golden.

    ``goldens.bin`` is the tensors one after another, case by case, little-endian and C-contiguous.

    Raises:
        PackageError: the file's size does not fit the manifest's shapes and count.
    """
    import numpy as np

    data = (folder / GOLDENS_FILE).read_bytes()
    specs = [*manifest.inputs, *manifest.outputs]
    per_case = sum(tensor_bytes(spec.dtype, spec.shape) for spec in specs)
    if len(data) != per_case * manifest.goldens.count:
        raise PackageError(
            f"{folder / GOLDENS_FILE}: {len(data)} bytes; {manifest.goldens.count} goldens need {per_case} each"
        )
    at = 0
    for _ in range(manifest.goldens.count):
        tensors = []
        for spec in specs:
            size = math.prod(spec.shape)
            tensors.append(np.frombuffer(data, spec.dtype, size, at).reshape(spec.shape))
            at += tensor_bytes(spec.dtype, spec.shape)
        yield tensors[:-1], tensors[-1]


def tensor_bytes(dtype: DType, shape: Shape) -> int:
    """Bytes of a dense tensor."""
    return math.prod(shape) * ITEM_BYTES[dtype]


class _Versioned(msgspec.Struct):
    manifest_version: int


def _complaints(manifest: Manifest) -> Iterator[str]:
    """What a schema cannot say: parts of the manifest that must agree with one another."""
    frames = [spec for spec in manifest.inputs if isinstance(spec, FrameInput)]
    if len(frames) != 1:
        yield f"inputs: expected exactly one of role frame, found {len(frames)}"
        return
    if len([spec for spec in manifest.inputs if isinstance(spec, HistoryInput)]) > 1:
        yield "inputs: expected one of role history at most"
    yield from _frame_complaints(frames[0])
    yield from _history_complaints(manifest)
    output = manifest.output
    if isinstance(output, LogitsOutput):
        if output.shape != [1, len(manifest.actions)]:
            yield f"outputs.{output.name}.shape = {output.shape}: expected [1, {len(manifest.actions)}], one per action"
        if len(set(manifest.actions)) != len(manifest.actions):
            yield "actions: a name stands twice"
    elif output.shape != [1, len(output.units)]:
        yield f"outputs.{output.name}.shape = {output.shape}: expected [1, {len(output.units)}], one per unit"


def _history_complaints(manifest: Manifest) -> Iterator[str]:
    history = manifest.history
    if history is None:
        return
    if len(history.shape) != 2 or history.shape[0] != 1 or history.shape[1] > MAX_HISTORY:
        yield f"inputs.{history.name}.shape = {history.shape}: expected [1, length], length <= {MAX_HISTORY}"
    if history.padding_token < len(manifest.actions):
        yield f"inputs.{history.name}.padding_token = {history.padding_token}: it is the token of an action"
    if not isinstance(manifest.output, LogitsOutput):
        yield f"inputs.{history.name}: role history needs role action_logits: continuous actions have no tokens"


def _frame_complaints(frame: FrameInput) -> Iterator[str]:
    view, stack = frame.view, len(frame.offsets_ms)
    shapes: dict[FrameLayout, list[int]] = {
        "NSHW": [1, stack, view.height, view.width],
        "NHWC": [1, view.height, view.width, 3],
        "NSHWC": [1, stack, view.height, view.width, 3],
    }
    if (frame.layout == "NSHW") != (view.format == "gray8"):
        yield f"inputs.{frame.name}.layout = {frame.layout}: does not fit format {view.format}"
    if frame.layout == "NHWC" and stack != 1:
        yield f"inputs.{frame.name}.layout = NHWC: takes one frame, offsets_ms has {stack}"
    if frame.shape != shapes[frame.layout]:
        yield f"inputs.{frame.name}.shape = {frame.shape}: view, offsets and layout give {shapes[frame.layout]}"
    if frame.offsets_ms[0] != 0.0 or any(b >= a for a, b in zip(frame.offsets_ms, frame.offsets_ms[1:], strict=False)):
        yield f"inputs.{frame.name}.offsets_ms = {frame.offsets_ms}: expected 0 first, then falling"
