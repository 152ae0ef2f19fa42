"""Programs a daemon may come across that are not the package's own, and what must be said of each.

They lie beside the repository (``shared/fixtures``); a test of one skips where they do not.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packages import pin_hashes

FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures"

FOREIGN: dict[str, list[str]] = {
    "add.pte": ["input frames: the manifest says uint8 [1, 1, 16, 16], the program float32 [1]"],
    "addmodel.pte": ["has 1 inputs, the manifest declares 2"],
    "kws.pte": ["operator missing in this runtime", "cortex_m::quantized_conv2d.out", "cortex_m::pad.out"],
    "deprecated.pte": ["of an old format", "constant_buffer"],
    "bundled.bpte": ["bytes 4-8 are b'BP08', expected b'ET12'"],
    "qnn.pte": ["expected a method forward, found ['kv_forward', 'prefill_forward'"],
}
"""File to what a refusal names."""


def foreign(name: str) -> bytes:
    """The file's content."""
    path = FIXTURES / name
    if not path.is_file():
        pytest.skip(f"{name} is not beside the repository (shared/fixtures)")
    return path.read_bytes()


def with_program(package: Path, program: bytes) -> Path:
    """Put ``program`` into the package, as if it had been exported so."""
    (package / "model.pte").write_bytes(program)
    pin_hashes(package)
    return package
