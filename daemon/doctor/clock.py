"""Clocks: reflexd's own times are monotonic, but logs and recordings are stamped by a clock a Pi may not have yet."""

from __future__ import annotations

import re
from collections.abc import Iterator

from daemon.doctor.finding import Finding, ok, skip, warn
from daemon.doctor.machine import Machine
from daemon.doctor.setup import Setup

JUMP_S = 60.0
"""A clock that was set by less than that since the boot is not worth a line."""


def clock(machine: Machine, _: Setup) -> Iterator[Finding]:
    """Battery-backed clock, synchronisation, and whether the time has jumped since the boot."""
    names = [
        machine.text(f"/sys/class/rtc/{rtc.name}/name") or rtc.name for rtc in machine.glob("/sys/class/rtc", "rtc*")
    ]
    synchronised = _synchronised(machine)
    rtc = (
        f"clock chip {', '.join(names)}"
        if names
        else "no clock chip: at a start without a network the time is an old one"
    )
    if synchronised is None:
        yield skip("clock", f"{rtc}; whether it is synchronised is not known: no timedatectl, no systemd-timesyncd")
    elif synchronised:
        yield ok("clock", f"synchronised by NTP; {rtc}")
    else:
        fix = "sudo timedatectl set-ntp true, and let it reach a time server; control does not need it, logs do"
        yield warn("clock", f"not synchronised; {rtc}", fix)
    yield from _jump(machine)


def _synchronised(machine: Machine) -> bool | None:
    told = machine.answer("timedatectl", "show", "--property=NTPSynchronized", "--value")
    if told in ("yes", "no"):
        return told == "yes"
    if machine.path("/run/systemd/timesync").is_dir():
        return machine.path("/run/systemd/timesync/synchronized").exists()
    return None


def _jump(machine: Machine) -> Iterator[Finding]:
    """Compare the kernel's boot time, by the clock as it is now, with when the first of systemd's files was made."""
    boot = re.search(r"^btime (\d+)", machine.text("/proc/stat") or "", re.MULTILINE)
    if boot is None or not re.search(r"^\S+ /run tmpfs ", machine.text("/proc/mounts") or "", re.MULTILINE):
        yield skip("time jumps", "no boot time, or /run is not made at boot")
        return
    changed = [path.lstat().st_ctime for path in machine.glob("/run/systemd", "*")]
    forward_s = float(boot[1]) - min(changed, default=machine.now_s)
    backward_s = max(changed, default=machine.now_s) - machine.now_s
    for jumped_s, way in ((forward_s, "forwards"), (backward_s, "backwards")):
        if jumped_s > JUMP_S:
            found = f"the clock was set {way} by {jumped_s:.0f} s since the boot, or more"
            yield warn("time jumps", found, "order log lines of this boot by `journalctl -b -o short-monotonic`")
    if max(forward_s, backward_s) <= JUMP_S:
        yield ok("time jumps", f"none of more than {JUMP_S:.0f} s since the boot")
