"""Fixtures every test may use."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # begun in the background: what tests start would not hear Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("reflexd", deadline=None)  # a busy machine is slow, which is not a failure
settings.load_profile("reflexd")


@pytest.fixture
def run_folder() -> Iterator[Path]:
    """A folder on tmpfs whose path is short enough for sockets; pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="rfx-", dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture
def small_tmpfs() -> Iterator[Path]:
    """A tmpfs of 256 KiB, mounted for this test alone."""
    folder = Path(tempfile.mkdtemp(prefix="rfx-"))
    if (
        os.getuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], check=False, capture_output=True
        ).returncode
    ):
        folder.rmdir()
        pytest.skip("mounting a small tmpfs needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()
