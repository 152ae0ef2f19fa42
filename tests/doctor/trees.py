"""Recorded machines for the doctor: files below a folder, and what commands have printed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from daemon.doctor.finding import Finding
from daemon.doctor.machine import Machine
from daemon.oneshot import Outcome

Files = Mapping[str, str | bytes]

PI_5: Files = {
    "/proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0\0",
    "/proc/device-tree/chosen/power/max_current": (5000).to_bytes(4, "big"),
    "/proc/cpuinfo": "".join(
        f"processor\t: {core}\nBogoMIPS\t: 108.00\n"
        "Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc asimddp\n"
        "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x4\nCPU part\t: 0xd0b\nCPU revision\t: 1\n\n"
        for core in range(4)
    ),
    "/sys/class/rtc/rtc0/name": "rpi-rtc rpi_rtc\n",
    "/sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
    "/sys/class/thermal/thermal_zone0/temp": "51750\n",
    "/sys/class/thermal/cooling_device0/type": "pwm-fan\n",
    "/sys/class/thermal/cooling_device0/cur_state": "1\n",
    "/sys/class/thermal/cooling_device0/max_state": "4\n",
    "/sys/class/hwmon/hwmon1/name": "rp1_adc\n",
    "/sys/class/hwmon/hwmon2/name": "rpi_volt\n",
    "/sys/class/hwmon/hwmon2/in0_lcrit_alarm": "0\n",
    "/proc/meminfo": "MemTotal: 8245840 kB\nMemAvailable: 7600000 kB\nCmaTotal: 65536 kB\nCmaFree: 58000 kB\n",
    "/proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/zram0 partition 2097136 0 100\n",
    "/dev/gpiochip0": "gpio-brcmstb@107d508500",
    "/dev/gpiochip11": "pinctrl-rp1",
    "/dev/i2c-1": "",
    "/sys/class/video4linux/video0/name": "rp1-cfe-csi2_ch0\n",
    "/sys/class/video4linux/v4l-subdev2/name": "imx708_wide 10-001a\n",
}
"""As a Pi 5 with a camera on its connector has them; written down from the kernel's documentation, not on one."""


def machine(folder: Path, *files: Files, says: Mapping[str, str] | None = None, now_s: float | None = None) -> Machine:
    """A machine with these files, later ones over earlier, whose commands print what ``says`` has for their program.

    A program that ``says`` does not have is not installed.
    """
    for path, content in {path: content for some in files for path, content in some.items()}.items():
        file = folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)

    def ask(command: list[str]) -> Outcome | None:
        text = (says or {}).get(command[0])
        return None if text is None else Outcome("", 0, text.encode(), "")

    return Machine(folder, ask, now_s)


def label_by_content(patch: pytest.MonkeyPatch) -> None:
    """A chip's file holds its label, which on a machine with pins the kernel tells by an ioctl."""

    def chip_info(fd: int, request: int, data: bytes) -> bytes:
        assert (request, len(data)) == (0x8044B401, 68)
        return b"gpiochip".ljust(32, b"\0") + os.read(fd, 32).ljust(32, b"\0") + b"\x36\0\0\0"

    patch.setattr(fcntl, "ioctl", chip_info)


def only(findings: Iterable[Finding]) -> Finding:
    """The one finding."""
    (finding,) = findings
    return finding


def statuses(findings: Iterable[Finding]) -> list[str]:
    """Their statuses."""
    return [finding.status for finding in findings]
