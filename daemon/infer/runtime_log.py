"""The C++ runtime's own log: it goes straight to the error stream, and most of it is said whatever happens."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from daemon.oneshot import read_log

_NOISE = re.compile(r"^\[(cpuinfo_utils|threadpool|operator_registry)\.cpp|^\s*$")
"""Lines the runtime writes whatever happens, and the layouts of every kernel it compared with a missing one."""


def worth_telling(log: str) -> list[str]:
    """The lines of a log that say something, each once, in order."""
    return list(dict.fromkeys(line for line in log.splitlines() if not _NOISE.search(line)))


@contextmanager
def captured(lines: list[str]) -> Iterator[None]:
    """Add to ``lines`` what is worth telling of all that this process writes to its error stream in this block."""
    sys.stderr.flush()
    log, kept = os.memfd_create("runtime-log"), os.dup(2)
    os.dup2(log, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        lines += worth_telling(read_log(log))
        os.close(kept)
        os.close(log)
