"""Programs of 64-bit Arm run on this machine: the kernel hands them to an emulator, in roots of the lab too."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.debian import cached_root

FORMATS = Path("/proc/sys/fs/binfmt_misc")
NAME = "reflexd-lab-aarch64"
MAGIC = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
"""The header of a 64-bit little-endian ELF program for aarch64, of any system's flavour, static or not."""


@contextmanager
def emulated() -> Iterator[None]:
    """Emulate as long as this lasts. The kernel opens the emulator now (F): no root needs one of its own."""
    emulator = cached_root("qemu", Path(__file__).with_name("make_emulator.sh")) / "bin/qemu-aarch64"
    if not (FORMATS / "register").exists():
        subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", str(FORMATS)], check=True)
    if (FORMATS / NAME).exists():  # of a run that was killed
        (FORMATS / NAME).write_text("-1")
    (FORMATS / "register").write_text(f":{NAME}:M::{MAGIC}:{MASK}:{emulator}:OF")
    try:
        yield
    finally:
        (FORMATS / NAME).write_text("-1")
