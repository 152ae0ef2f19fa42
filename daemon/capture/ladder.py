"""Less when there is not enough: the steps a camera's configuration goes down when its memory runs out.

Camera buffers come from a small pool of contiguous memory that fragments. Whatever step is found at the start is kept:
to reconfigure a running camera is what breaks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from daemon.capture.source import SourceFailed

LEAST_BUFFERS = 2
"""One being filled, one being read."""
LEAST_SIDE = 64
"""Pixels; a picture is halved down to no less than this."""
MEMINFO = Path("/proc/meminfo")


class OutOfMemory(Exception):
    """A configuration for which there is not enough camera memory."""


class Step(NamedTuple):
    """A configuration to try: number of buffers, size of the picture, size of a full stream beside it or 0."""

    buffers: int
    width: int
    height: int
    full_width: int = 0
    full_height: int = 0

    def __str__(self) -> str:
        beside = f" beside {self.full_width}x{self.full_height}" if self.full_width else ""
        return f"{self.buffers} buffers of {self.width}x{self.height}{beside}"


def steps(first: Step, may_shrink: bool) -> Iterator[Step]:
    """The steps down: fewer buffers, then a smaller full stream, then a smaller picture.

    Args:
        first: what is wanted.
        may_shrink: the picture may become smaller: no view is cut out of it by its pixels.
    """
    for buffers in range(first.buffers, LEAST_BUFFERS - 1, -1):
        yield first._replace(buffers=buffers)
    step = first._replace(buffers=min(first.buffers, LEAST_BUFFERS))
    while step.full_width // 2 >= step.width and step.full_height // 2 >= step.height:
        step = step._replace(full_width=_half(step.full_width), full_height=_half(step.full_height))
        yield step
    while may_shrink and min(step.width, step.height) // 2 >= LEAST_SIDE:
        step = step._replace(width=_half(step.width), height=_half(step.height))
        yield step


def go_down(down: Iterator[Step], configure: Callable[[Step], None], meminfo: Path = MEMINFO) -> Step:
    """Configure with the first step for which there is memory; return it.

    Args:
        down: steps to try.
        configure: raises OutOfMemory where there is not enough.
        meminfo: where the pool's size is read.

    Raises:
        SourceFailed: there is none; with the first and last step and the pool's size.
    """
    tried: list[Step] = []
    for step in down:
        try:
            configure(step)
        except OutOfMemory:
            tried.append(step)
        else:
            return step
    raise SourceFailed(f"no camera memory, neither for {tried[0]} nor for {tried[-1]}; {pool_text(meminfo)}")


def pool_text(meminfo: Path = MEMINFO) -> str:
    """The pool of contiguous memory, for people."""
    found = re.findall(r"^Cma(Total|Free):\s*(\d+) kB$", meminfo.read_text(encoding="utf-8"), re.MULTILINE)
    sizes = {name: int(size) / 1024 for name, size in found}
    if not sizes.get("Total"):
        return "this kernel has no pool of contiguous memory"
    return (
        f"its pool has {sizes['Total']:.0f} MiB, {sizes.get('Free', 0):.0f} free: fewer cameras or smaller pictures, "
        "or cma=256M on the kernel's command line"
    )


def _half(side: int) -> int:
    """Half of it, even: chroma is subsampled."""
    return side // 4 * 2
