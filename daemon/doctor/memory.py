"""Memory: for the processes, for camera buffers, and what is swapped out to where."""

from __future__ import annotations

import re
from collections.abc import Iterator

from daemon.doctor.finding import Finding, ok, skip, warn
from daemon.doctor.machine import Machine, bytes_text
from daemon.doctor.setup import Setup
from daemon.sources import Picamera2

LEAST_AVAILABLE = 128 * 2**20
"""What a run of one camera, one agent and the native worker takes, with some to spare."""
FRAME_BYTES = 1.5
"""Per pixel of the full stream's YUV 4:2:0."""


def memory(machine: Machine, _: Setup) -> Iterator[Finding]:
    """What is there for processes."""
    sizes = _sizes(machine)
    if "MemTotal" not in sizes:
        yield skip("memory", "/proc/meminfo cannot be read")
        return
    available, total = sizes.get("MemAvailable", 0), sizes["MemTotal"]
    found = f"{bytes_text(available)} of {bytes_text(total)} available"
    if available < LEAST_AVAILABLE:
        yield warn("memory", found, "stop what else runs, such as a desktop: sudo systemctl set-default multi-user")
    else:
        yield ok("memory", found)


def camera_memory(machine: Machine, setup: Setup) -> Iterator[Finding]:
    """The pool of contiguous memory from which camera buffers come."""
    sizes = _sizes(machine)
    if not sizes.get("CmaTotal"):
        yield skip("camera memory", "this kernel has no pool of contiguous memory (CMA)")
        return
    free = sizes.get("CmaFree", 0)
    found = f"{bytes_text(free)} of {bytes_text(sizes['CmaTotal'])} contiguous memory (CMA) free"
    wanted = sum(_buffer_bytes(table) for table in setup.sources(Picamera2).values())
    if free < wanted:
        fix = "cma=256M on the kernel's command line, or smaller pictures; a camera that runs now has its own already"
        yield warn("camera memory", f"{found}; the configured cameras take about {bytes_text(wanted)}", fix)
    else:
        yield ok("camera memory", found)


def _buffer_bytes(table: Picamera2) -> float:
    """About what the buffers of a camera take, without those of its own driver."""
    width, height = max(table.full_width, table.width), max(table.full_height, table.height)
    return width * height * FRAME_BYTES * table.buffers


def swap(machine: Machine, _: Setup) -> Iterator[Finding]:
    """Swap in memory is harmless; on a card it wears it out, and a page that must come back from it is late."""
    text = machine.text("/proc/swaps")
    if text is None:
        yield skip("swap", "/proc/swaps cannot be read")
        return
    areas = [line.split() for line in text.splitlines()[1:]]
    if not areas:
        yield ok("swap", "none")
    for name, _kind, size_kib, used_kib, *_rest in areas:
        found = f"{name}: {bytes_text(int(used_kib) * 1024)} of {bytes_text(int(size_kib) * 1024)} used"
        if "zram" in name:
            yield ok("swap", f"{found}, in memory")
        else:
            fix = f"sudo swapoff {name}, and at boot: sudo systemctl disable --now dphys-swapfile"
            yield warn("swap", f"{found}, on storage: what is swapped out answers late, and a card wears", fix)


def _sizes(machine: Machine) -> dict[str, int]:
    """``/proc/meminfo``, bytes."""
    lines = re.findall(r"^(\w+):\s*(\d+) kB$", machine.text("/proc/meminfo") or "", re.MULTILINE)
    return {name: int(size) * 1024 for name, size in lines}
