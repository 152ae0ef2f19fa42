"""The bare C++ loop over a program: what an inference costs the native worker with no daemon around it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from daemon.workers import CHECKOUT

RATE_HZ = 30
BARE_LOOP = CHECKOUT / "cross" / "build" / "host" / "bare-loop"


def run_bare_loop(package: Path, seconds: float) -> list[float]:
    """Forward times, ms, of plain ExecuTorch in C++ at the same rate."""
    command = [str(BARE_LOOP), str(package), str(round(seconds * RATE_HZ)), str(RATE_HZ)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds + 60)
    times: list[float] = json.loads(done.stdout)["forward_ms"]
    return times[RATE_HZ // 2 :]
