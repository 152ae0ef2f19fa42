"""A servo on the board's PWM block, through the kernel's files in ``/sys/class/pwm``.

The block pulses by itself: without jitter, and on and on when the process is gone. A channel is therefore never
given back (``unexport`` would stop the pulses of a servo that holds something up), and its next owner begins with the
pulse, not with a reset.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path

from daemon.actuate.drivers import DriverError
from daemon.actuate.drivers.gpio_chip import GROUP_ADVICE
from daemon.pins import OVERLAYS, Board

SYSFS = Path("/sys/class/pwm")
GRANTED_WITHIN_S = 1.0
"""udev gives a new channel's files to the group gpio a moment after they appear."""
_LOOK_EVERY_S = 0.01
UDEV_RULE = """SUBSYSTEM=="pwm", ACTION!="remove", RUN+="/bin/sh -c 'chgrp -R gpio /sys%p && chmod -R g=u /sys%p'\""""


class HardwarePwm:
    """One pin of the PWM block.

    Args:
        pin: GPIO number.
        frequency_hz: pulses per second.
        boards: the boards it may be.
        sysfs: the kernel's folder.
    """

    def __init__(self, pin: int, frequency_hz: float, boards: list[Board], sysfs: Path = SYSFS) -> None:
        self._pin, self._boards, self._sysfs = pin, boards, sysfs
        self._period_ns = round(1e9 / frequency_hz)
        self._folder: Path | None = None
        self._claim = -1

    def open(self, level: float) -> None:
        """Find the block and start pulsing ``level`` microseconds. Waits for udev, :data:`GRANTED_WITHIN_S` at most.

        Raises:
            DriverError: no such block, or not allowed; says what to do.
        """
        self._open(level, GRANTED_WITHIN_S)

    def write(self, level: float) -> None:
        """Pulse ``level`` microseconds from the next period on.

        After a failure everything is set up anew: the block may have gone and come back.

        Raises:
            DriverError: not written.
        """
        if self._folder is None:
            self._open(level, 0.0)
            return
        try:
            _put(self._folder / "duty_cycle", round(level * 1e3))
        except DriverError:
            self._folder = None
            raise

    def close(self) -> None:
        """Give up the claim; the last pulse, neutral, goes on."""
        if self._claim >= 0:
            os.close(self._claim)
        self._folder, self._claim = None, -1

    def _open(self, level: float, wait_s: float) -> None:
        chip, channel = self._find()
        folder = chip / f"pwm{channel}"
        if not folder.exists():
            _put(chip / "export", channel)
        _await_permission(folder / "duty_cycle", wait_s)
        self.close()
        self._claim = _claim(folder / "duty_cycle")
        self._pulse(folder, round(level * 1e3))
        self._folder = folder

    def _pulse(self, folder: Path, duty_ns: int) -> None:
        """Set the channel up and start it; one that pulses already as it should gets its duty alone.

        The kernel refuses a duty above the period at every step, a duty or a polarity while the period is 0, and
        another polarity while enabled.
        """
        if _get(folder / "period") != self._period_ns:
            if _get(folder / "duty_cycle") > self._period_ns:
                _put(folder / "duty_cycle", 0)
            _put(folder / "period", self._period_ns)
        if _text(folder / "polarity") != "normal":
            _put(folder / "enable", 0)
            _put(folder / "polarity", "normal")
        _put(folder / "duty_cycle", duty_ns)
        if not _get(folder / "enable"):
            _put(folder / "enable", 1)

    def _find(self) -> tuple[Path, int]:
        """The block's folder and the pin's channel in it."""
        found = []
        for chip in sorted(self._sysfs.glob("pwmchip*")):
            device = (chip / "device").resolve().name
            for board in self._boards:
                if device in board.pwm_devices:
                    return chip, board.channels[self._pin]
            found.append(f"{chip.name} is {device}")
        wanted = " or ".join(device for board in self._boards for device in board.pwm_devices)
        raise DriverError(
            f"pin {self._pin}: expected the PWM block {wanted} in {self._sysfs}, found {', '.join(found) or 'none'}: "
            f"add dtoverlay={OVERLAYS[self._pin]} to /boot/firmware/config.txt (for two pins: pwm-2chan) and reboot",
        )


def _await_permission(file: Path, wait_s: float) -> None:
    until = time.monotonic() + wait_s
    while not os.access(file, os.W_OK) and time.monotonic() < until:
        time.sleep(_LOOK_EVERY_S)


def _claim(file: Path) -> int:
    """Lock the channel against other processes of this program: the kernel lets everybody write its files."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise DriverError(f"{file}: {error.strerror}{_advice(error)}") from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise DriverError(f"{file}: another process drives this servo: `fuser {file}` names it; stop it") from None
    return fd


def _put(file: Path, value: int | str) -> None:
    try:
        _write(file, str(value).encode())
    except OSError as error:
        raise DriverError(f"{file}: writing {value}: {error.strerror}{_advice(error)}") from None


def _write(file: Path, data: bytes) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def _get(file: Path) -> int:
    text = _text(file)
    try:
        return int(text)
    except ValueError:
        raise DriverError(f"{file}: expected a number, found {text!r:.40}") from None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise DriverError(f"{file}: {error.strerror}{_advice(error)}") from None


def _advice(error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM):
        return f": {GROUP_ADVICE}; where Raspberry Pi OS has not brought it, also the udev rule {UDEV_RULE}"
    if error.errno == errno.EBUSY:
        return ": something else has this channel, such as the analogue sound (dtparam=audio=off)"
    return ""
