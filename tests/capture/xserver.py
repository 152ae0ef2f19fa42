"""An X server without a screen, whose picture a test writes straight into its frame buffer."""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from daemon.pixels import Pixels

WIDTH, HEIGHT = 160, 120


class Framebuffer:
    """The server's pixels: an XWD file in memory, big-endian header, four bytes a pixel, blue first."""

    def __init__(self, display: str, path: Path) -> None:
        self.display = display
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        header = struct.unpack(">25I", self._memory[:100])
        begin, self._stride = header[0] + 12 * header[19], header[12]
        self._rows = np.frombuffer(self._memory, np.uint8, self._stride * HEIGHT, begin).reshape(HEIGHT, -1)

    def show(self, picture: Pixels) -> None:
        """Fill the screen: uint8 RGB (HEIGHT, WIDTH, 3)."""
        self._rows.reshape(HEIGHT, -1, 4)[:, :WIDTH, :3] = picture[..., ::-1]


@contextmanager
def x_server(folder: Path) -> Iterator[Framebuffer]:
    """Run Xvfb until the block ends."""
    program = shutil.which("Xvfb")
    if program is None:
        pytest.fail("Xvfb is missing and this test needs it: apt install xvfb")
    reading, writing = os.pipe()
    command = [program, "-displayfd", str(writing), "-screen", "0", f"{WIDTH}x{HEIGHT}x24", "-fbdir", str(folder)]
    server = subprocess.Popen(
        [*command, "-nolisten", "tcp"], pass_fds=[writing], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(writing)
    try:
        with os.fdopen(reading) as file:
            number = file.readline().strip()
        yield Framebuffer(f":{number}", folder / "Xvfb_screen0")
    finally:
        server.terminate()
        server.wait()
