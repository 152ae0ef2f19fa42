"""ExecuTorch in this process: load the program of a model package and run it. Imports torch; only a worker does.

The extension module is imported without ``executorch.runtime``: that wrapper pulls in the whole exporter (four more
seconds and 130 MB at start, measured with 1.5.1) and adds nothing to what is used here.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch  # before the extension, which is linked against its libraries
from executorch.extension.pybindings import _C as native  # noqa: N811
from numpy.typing import NDArray

from daemon.messages import Drop
from daemon.package import MODEL_FILE, Input, Manifest, Output

METHOD = "forward"
PROGRAM_IDENTIFIER = b"ET12"
"""Bytes 4 to 8 of every program this runtime reads; anything else can abort the process before it is refused."""

Array = NDArray[np.generic]

_SCALAR_TYPES = {0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64"}
_ERRORS = {
    0x01: "internal error, often a backend that could not start",
    0x02: "invalid state",
    0x10: "not supported, often an input of another rank or size than exported",
    0x11: "not implemented",
    0x12: "invalid argument, often an input of another dtype or number than exported",
    0x13: "invalid type",
    0x14: "operator missing in this runtime",
    0x20: "not found",
    0x21: "out of memory",
    0x22: "file could not be read",
    0x23: "invalid program: damaged, of an old format, or not a program at all",
    0x24: "invalid external data",
    0x25: "out of resources",
    0x30: "backend refuses the program: made for another version of it",
    0x31: "backend out of memory",
    0x32: "invalid backend handle",
}
_ERROR_NUMBER = re.compile(r"error:? 0x:?([0-9a-fA-F]+)")

torch.set_num_threads(1)  # torch computes nothing here; its own pool would only compete with the runtime's


class RuntimeFailure(RuntimeError):
    """The runtime refused or failed; ``reason`` is the counter's word, ``detail`` the text for a person."""

    def __init__(self, reason: Drop, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class LoadedModel:
    """The ``forward`` method of a package's program, checked against the manifest.

    Not thread-safe: one inference at a time. The file is read whole, so that what was hashed is what runs, also when
    somebody writes over it later.

    Args:
        package: folder of the package.
        manifest: its manifest.

    Raises:
        RuntimeFailure: not a program, damaged, made for another runtime, or not what the manifest says.
        OSError: the file cannot be read.
    """

    def __init__(self, package: Path, manifest: Manifest) -> None:
        self._manifest = manifest
        self._bytes = (package / MODEL_FILE).read_bytes()  # the program points into it
        _check_bytes(self._bytes, manifest)
        with _worded(f"loading {MODEL_FILE}"):
            self._program = native._load_program_from_buffer(
                self._bytes, program_verification=native.Verification.InternalConsistency
            )
            names = [self._program.get_method_name(index) for index in range(self._program.num_methods())]
        if METHOD not in names:
            raise RuntimeFailure("model_error", f"{MODEL_FILE}: expected a method {METHOD}, found {names[:8]}")
        with _worded(f"loading method {METHOD}"):
            self._method = self._program.load_method(METHOD)
            complaints = list(_metadata_complaints(self._method.method_meta(), manifest))
        if complaints:
            raise RuntimeFailure("malformed", f"{MODEL_FILE}: {'; '.join(complaints)}")

    def forward(self, inputs: Sequence[Array | torch.Tensor]) -> list[Array]:
        """Run one inference.

        Args:
            inputs: one per input of the manifest, in its order, dtype and shape, C-contiguous. Arrays are read
                in place, also from read-only memory.

        Returns:
            One array per output, its own memory, C-contiguous.

        Raises:
            RuntimeFailure: ``malformed`` for inputs that do not fit, ``model_error`` when the runtime fails.
        """
        specs = self._manifest.inputs
        if len(inputs) != len(specs):
            raise RuntimeFailure("malformed", f"expected {len(specs)} inputs, got {len(inputs)}")
        tensors = [_tensor(spec, value) for spec, value in zip(specs, inputs, strict=True)]
        with _worded("inference"):
            # The runtime's own output memory is overwritten by the next call: copied below, once.
            outputs = self._method(tensors, clone_outputs=False)
        return [np.array(output.numpy(), order="C") for output in outputs]


def set_threads(count: int) -> None:
    """Make the pool the kernels run on ``count`` threads wide, the calling one included.

    Call it before a model is loaded: a delegate keeps the pool it found.

    Raises:
        RuntimeFailure: the runtime did not take the number.
    """
    native._unsafe_reset_threadpool(count)
    found = native._threadpool_get_thread_count()
    if found != count:
        raise RuntimeFailure("model_error", f"thread pool: asked for {count} threads, the runtime has {found}")


def missing_parts(manifest: Manifest) -> list[str]:
    """What the package needs and this runtime lacks, by name: ``operator aten::…``, ``backend …``."""
    operators = set(native._get_operator_names())
    backends = set(native._get_registered_backend_names())
    missing = [f"operator {name}" for name in manifest.operators if name not in operators]
    unusable = [name for name in manifest.backends if name not in backends or not native._is_available(name)]
    return missing + [f"backend {name}" for name in unusable]


def in_words(error: str) -> str:
    """A runtime's error text with the meaning of its number put behind it."""
    match = _ERROR_NUMBER.search(error)
    words = _ERRORS.get(int(match[1], 16)) if match else None
    return f"{error} ({words})" if words else error


@contextmanager
def _worded(doing: str) -> Iterator[None]:
    """Turn whatever the extension raises in this block into a RuntimeFailure that says what was being done."""
    try:
        yield
    except Exception as error:
        raise RuntimeFailure("model_error", f"{doing}: {in_words(str(error))}") from None


def _silence_read_only_warning() -> None:
    """Use up torch's once-per-process warning about read-only arrays: the runtime never writes to its inputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.from_numpy(np.frombuffer(b"\0", np.uint8))


_silence_read_only_warning()


def _check_bytes(program: bytes, manifest: Manifest) -> None:
    """Refuse what is not a program before native code sees it: a foreign identifier can abort the process."""
    if hashlib.sha256(program).hexdigest() != manifest.model.sha256:
        raise RuntimeFailure("model_error", f"{MODEL_FILE}: has just been changed: its sha256 is not the manifest's")
    found = program[4:8]
    if found != PROGRAM_IDENTIFIER:
        raise RuntimeFailure(
            "model_error", f"{MODEL_FILE}: bytes 4-8 are {found!r}, expected {PROGRAM_IDENTIFIER!r}: not a program"
        )


def _metadata_complaints(meta: Any, manifest: Manifest) -> Iterator[str]:
    """Where the program's own inputs and outputs differ from the manifest's."""
    for kind, count, tensor_meta, specs in (
        ("input", meta.num_inputs(), meta.input_tensor_meta, manifest.inputs),
        ("output", meta.num_outputs(), meta.output_tensor_meta, manifest.outputs),
    ):
        if count != len(specs):
            yield f"has {count} {kind}s, the manifest declares {len(specs)}"
            return
        for index, spec in enumerate(specs):
            found = tensor_meta(index)
            dtype, shape = _SCALAR_TYPES.get(found.dtype(), f"scalar type {found.dtype()}"), list(found.sizes())
            if (dtype, shape) != (spec.dtype, spec.shape):
                yield f"{kind} {spec.name}: the manifest says {spec.dtype} {spec.shape}, the program {dtype} {shape}"


def _tensor(spec: Input | Output, value: Array | torch.Tensor) -> torch.Tensor:
    """``value`` as a tensor over the same memory, or a refusal that says what was expected and what came."""
    array = value.numpy() if isinstance(value, torch.Tensor) else value
    if array.dtype != spec.dtype or list(array.shape) != spec.shape:
        got = f"{array.dtype} {list(array.shape)}"
        raise RuntimeFailure("malformed", f"input {spec.name}: expected {spec.dtype} {spec.shape}, got {got}")
    if not array.flags.c_contiguous:
        raise RuntimeFailure("malformed", f"input {spec.name}: expected C-contiguous memory, strides {array.strides}")
    return value if isinstance(value, torch.Tensor) else torch.from_numpy(array)
