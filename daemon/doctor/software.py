"""Versions, the processor and the inference worker: whether the programs fit one another and this machine."""

from __future__ import annotations

import os
import platform
import re
import struct
from collections.abc import Iterator

from daemon.config import ConfigError
from daemon.doctor.finding import Finding, fail, ok, skip, warn
from daemon.doctor.machine import Machine, number_of
from daemon.doctor.setup import Setup, pairing
from daemon.versions import NOT_INSTALLED, versions
from daemon.workers import Worker, choose_worker

NEEDED = ("numpy", "pyzmq", "msgpack")
CORES = {
    "0xd03": "Cortex-A53",
    "0xd07": "Cortex-A57",
    "0xd08": "Cortex-A72",
    "0xd0b": "Cortex-A76",
}
"""``CPU part`` of /proc/cpuinfo, of the boards of Raspberry Pi and a few beside."""
KERNELS = {
    "asimddp": "int8 dot product",
    "asimdhp": "fp16",
    "i8mm": "int8 matrices",
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx512_vnni": "int8 dot product",
}
"""Features of a processor for which ExecuTorch's XNNPACK has faster kernels; it chooses by itself at run time."""


def system(machine: Machine, _: Setup) -> Iterator[Finding]:
    """What machine this is, and as whom a doctor looks at it."""
    release = dict(re.findall(r'^(\w+)="?(.*?)"?$', machine.text("/etc/os-release") or "", re.MULTILINE))
    name = release.get("PRETTY_NAME", "an unnamed system")
    page_kib = os.sysconf("SC_PAGE_SIZE") // 1024
    parts = [machine.board(), name, f"Linux {platform.release()} {platform.machine()}, {page_kib} KiB pages"]
    user = "root, who may do more than the services" if os.getuid() == 0 else f"user {os.getuid()}"
    yield ok("system", ", ".join(filter(None, [*parts, f"seen by {user}"])))


def software(_: Machine, __: Setup) -> Iterator[Finding]:
    """The versions, and whether Python is one of 64 bits."""
    found = versions()
    missing = [name for name in NEEDED if found[name] == NOT_INSTALLED]
    text = ", ".join(f"{name} {version}" for name, version in found.items() if version != NOT_INSTALLED)
    if missing:
        wanted = " ".join(f"python3-{name.removeprefix('py')}" for name in missing)
        yield fail("versions", f"{text}; not installed: {', '.join(missing)}", f"sudo apt install {wanted}")
    else:
        yield ok("versions", text)
    yield from bits(struct.calcsize("P") * 8, platform.machine())


def bits(python_bits: int, kernel: str) -> Iterator[Finding]:
    """A 32-bit system under a 64-bit kernel calls itself aarch64, and runs no 64-bit program."""
    if python_bits != 64:
        found = f"this Python is a {python_bits}-bit program on a kernel for {kernel}; the native worker is for 64 bits"
        yield fail("versions", found, "install the 64-bit Raspberry Pi OS: a 32-bit one cannot be converted")


def processor(machine: Machine, _: Setup) -> Iterator[Finding]:
    """The cores, and for which of their features the runtime has kernels."""
    text = machine.text("/proc/cpuinfo")
    if text is None:
        yield skip("cpu", "/proc/cpuinfo cannot be read")
        return
    cores = len(re.findall(r"^processor\s*:", text, re.MULTILINE))
    features = set(" ".join(re.findall(r"^(?:Features|flags)\s*:(.*)$", text, re.MULTILINE)).split())
    parts = dict.fromkeys(re.findall(r"^CPU part\s*:\s*(\w+)", text, re.MULTILINE))
    names = [CORES.get(part, f"Arm part {part}") for part in parts]
    names += list(dict.fromkeys(re.findall(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)))
    faster = list(dict.fromkeys(kernel for feature, kernel in KERNELS.items() if feature in features))
    kernels = (
        ", ".join(faster) if faster else "none for int8 dot products or fp16: measure whether int8 is faster at all"
    )
    yield ok("cpu", f"{cores} x {' and '.join(names) or 'unnamed core'}; kernels beside the common ones: {kernels}")


def realtime(machine: Machine, setup: Setup) -> Iterator[Finding]:
    """Whether the kernel leaves real-time processes a share of the processor, and others the rest."""
    asking = [name for name, table in setup.actuators.items() if table.realtime]
    period, runtime = (
        number_of(machine.path(f"/proc/sys/kernel/sched_rt_{what}_us")) for what in ("period", "runtime")
    )
    if not asking:
        yield skip("real time", "no actuator asks for it")
    elif not period or runtime is None:
        yield skip("real time", "this kernel does not say what it leaves real-time processes")
    elif runtime == 0:
        fix = "sudo sysctl kernel.sched_rt_runtime_us=950000; reflexd goes on at ordinary priority"
        yield warn("real time", f"{', '.join(asking)}: this kernel gives real-time processes no time", fix)
    else:
        share = "all the time" if runtime < 0 else f"{100 * runtime / period:.0f} % of the time"
        yield ok("real time", f"{', '.join(asking)}: asked for; the kernel lets it have {share} at most")


def worker(_: Machine, setup: Setup) -> Iterator[Finding]:
    """Whether an inference worker starts here and was built from this daemon's declarations."""
    wanted = setup.plan.config.infer.worker if setup.plan else "auto"
    try:
        chosen = choose_worker(wanted)
    except ConfigError as error:
        yield fail(
            "worker", str(error), "install or build one of the two workers: README, Without PyTorch on the device"
        )
        return
    yield _worker_line(chosen, wanted == "python")
    yield from pairing(setup, chosen.versions if chosen.kind == "native" else {})


def _worker_line(chosen: Worker, asked_for: bool) -> Finding:
    if chosen.kind == "native":
        return ok("worker", f"{chosen.line.removeprefix('worker: ')}: starts, built from this daemon's declarations")
    if asked_for:
        return ok("worker", "python, as the configuration asks")
    fix = "make worker, or install the Debian package: the native worker starts at once and takes a tenth of the memory"
    return warn("worker", f"python: {chosen.why}", fix)
