"""Pins through the real gpiozero and the real lgpio module, on a chip that only remembers what it was told."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.actuate.drivers import DriverError
from daemon.actuate.drivers.gpio import _import_lgpio
from daemon.actuate.drivers.gpio_chip import find_chip
from tests.actuate.running import ROOT

PI_5 = 0xD04170
OUTPUT = 1 << 1


class FakeChip:
    """The lines of a chip as lgpio's C code treats them: a claim sets a level, pulses end at whatever level it was."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.modes: dict[int, int] = {}
        self.error: Exception | None = None

    def patch(self, patch: pytest.MonkeyPatch, lgpio: Any) -> None:
        patch.setattr(lgpio, "gpiochip_open", lambda number: self._call("chip", number) or 7)
        patch.setattr(lgpio, "gpiochip_close", lambda _: self._call("chip closed"))
        patch.setattr(lgpio, "gpio_claim_input", lambda _, pin, __=0: self._claim("input", pin, 0))
        patch.setattr(lgpio, "gpio_claim_output", lambda _, pin, level=0: self._claim("output", pin, OUTPUT, level))
        patch.setattr(lgpio, "gpio_get_mode", lambda _, pin: self.modes[pin])
        patch.setattr(lgpio, "gpio_write", lambda _, pin, level: self._call("write", pin, int(level)))
        patch.setattr(lgpio, "tx_pwm", lambda _, pin, hertz, duty: self._call("pulse", pin, hertz, duty))

    def _claim(self, kind: str, pin: int, mode: int, *level: int) -> int:
        self.modes[pin] = mode
        return self._call(kind, pin, *level)

    def _call(self, *call: Any) -> int:
        if self.error is not None:
            raise self.error
        self.calls.append(call)
        return 0


@pytest.fixture
def lines(tmp_path: Path) -> Any:
    """The file that needs the libraries."""
    _import_lgpio(tmp_path)
    from daemon.actuate.drivers import gpio_lines

    return gpio_lines


@pytest.fixture
def chip(lines: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeChip]:
    from gpiozero.pins import local

    monkeypatch.delenv("GPIOZERO_PIN_FACTORY", raising=False)
    monkeypatch.setattr(local, "get_pi_revision", lambda: PI_5)
    monkeypatch.setattr(lines, "find_chip", lambda _: 3)
    fake = FakeChip()
    fake.patch(monkeypatch, lines.lgpio)
    yield fake
    local.LocalPiFactory.pins.clear()
    local.LocalPiFactory._reservations.clear()


def test_a_level_is_there_from_the_claim_on_and_stays_when_it_is_let_go(lines: Any, chip: FakeChip) -> None:
    pins = lines.Pins(["pinctrl-rp1"])
    line = lines.Line(pins, 17, active_low=True)
    line.open(0.0)
    assert chip.calls[:3] == [("chip", 3), ("input", 17), ("output", 17, 1)], "off, which is high, in one step"
    line.write(1.0)
    line.write(0.0)
    assert chip.calls[-2:] == [("write", 17, 0), ("write", 17, 1)]
    before = len(chip.calls)
    line.close()
    pins.close()
    assert chip.calls[before:] == [("chip closed",)], "the pin is not made an input"


def test_a_neutral_that_is_on_is_on_from_the_claim_on(lines: Any, chip: FakeChip) -> None:
    lines.Line(lines.Pins(["pinctrl-rp1"]), 17).open(1.0)
    assert chip.calls[1:3] == [("input", 17), ("output", 17, 1)]


def test_a_duty_is_not_cut_to_percents(lines: Any, chip: FakeChip) -> None:
    line = lines.Line(lines.Pins(["pinctrl-rp1"]), 17, 50.0, 50.0 / 1e6)
    line.open(1543.0)
    pulses = [call for call in chip.calls if call[0] == "pulse"]
    assert [call[:3] for call in pulses] == [("pulse", 17, 50.0)] * 2
    assert pulses[-1][3] == pytest.approx(7.715), "1543 of 20000 microseconds"


def test_no_pulses_at_the_ends_and_the_level_after_the_last_pulse(lines: Any, chip: FakeChip) -> None:
    line = lines.Line(lines.Pins(["pinctrl-rp1"]), 17, 200.0)
    line.open(0.0)
    assert not [call for call in chip.calls if call[0] == "pulse"], "neutral needs no thread"
    line.write(0.25)
    before = len(chip.calls)
    line.write(1.0)
    line.write(0.25)
    line.write(0.0)
    assert chip.calls[before:] == [
        ("pulse", 17, 0, 0),
        ("write", 17, 1),
        ("pulse", 17, 200.0, 0),
        ("pulse", 17, 200.0, 25.0),
        ("pulse", 17, 0, 0),
        ("write", 17, 0),
    ]


def test_closed_while_it_pulses_it_is_low(lines: Any, chip: FakeChip) -> None:
    line = lines.Line(lines.Pins(["pinctrl-rp1"]), 17, 50.0, 50.0 / 1e6)
    line.open(1500.0)
    line.close()
    assert chip.calls[-2:] == [("pulse", 17, 0, 0), ("write", 17, 0)]


@pytest.mark.parametrize("moment", ["open", "write"])
def test_an_error_of_lgpio_names_the_pin(lines: Any, chip: FakeChip, moment: str) -> None:
    pins = lines.Pins(["pinctrl-rp1"])
    line = lines.Line(pins, 17)
    if moment == "write":
        line.open(0.0)
    pins.factory()
    chip.error = lines.lgpio.error("GPIO busy")
    with pytest.raises(DriverError, match=r"pin 17: error: 'GPIO busy': another program has it: `gpioinfo` names"):
        line.open(0.0) if moment == "open" else line.write(1.0)
    chip.error = None
    line.write(1.0)
    assert chip.calls[-1] == ("write", 17, 1)
    line.close()


def test_a_pin_library_that_is_not_there_is_not_replaced_by_another(
    lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines.gpiozero.Device, "pin_factory", None)
    monkeypatch.setenv("GPIOZERO_PIN_FACTORY", "wiringpi")
    pins = lines.Pins(["pinctrl-rp1"])
    assert pins.foreign == "wiringpi"
    with pytest.raises(DriverError, match="pins: BadPinFactory: Unable to find pin factory 'wiringpi'"):
        lines.Line(pins, 17).open(0.0)


def test_lgpio_leaves_the_working_directory_alone(tmp_path: Path) -> None:
    code = (
        "import os; from pathlib import Path; from daemon.actuate.drivers.gpio import _import_lgpio;"
        f"_import_lgpio(Path({str(tmp_path / 'pipes')!r})); print(os.getcwd(), 'LG_WD' in os.environ)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd="/proc", env={"PYTHONPATH": str(ROOT)}, check=True, capture_output=True, text=True
    )
    assert done.stdout == "/proc False\n"
    assert [path.name for path in (tmp_path / "pipes").iterdir()] == [".lgd-nfy0"]


# --- the chip ----------------------------------------------------------------------------------------------


@pytest.fixture
def dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of gpiochips, whose files hold their labels."""

    def chip_info(fd: int, request: int, data: bytes) -> bytes:
        assert request == 0x8044B401
        assert len(data) == 68
        return b"gpiochip".ljust(32, b"\0") + os.read(fd, 32).ljust(32, b"\0") + b"\x36\0\0\0"

    monkeypatch.setattr(fcntl, "ioctl", chip_info)
    return tmp_path


def test_the_chip_is_found_by_its_label_whatever_its_number(dev: Path) -> None:
    for number, label in ((0, "gpio-brcmstb@107d508500"), (4, "raspberrypi-exp-gpio"), (11, "pinctrl-rp1")):
        (dev / f"gpiochip{number}").write_text(label)
    (dev / "gpiochip2").symlink_to(dev / "gpiochip11")
    assert find_chip(["pinctrl-bcm2711", "pinctrl-rp1"], dev) == 11


def test_no_such_chip_says_which_there_are(dev: Path) -> None:
    (dev / "gpiochip0").write_text("INT34C5:00")
    with pytest.raises(DriverError) as lost:
        find_chip(["pinctrl-rp1"], dev)
    assert f"{dev}: expected a GPIO chip with the label pinctrl-rp1, found gpiochip0 is INT34C5:00" in str(lost.value)


def test_a_chip_that_may_not_be_opened_names_the_group(dev: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (dev / "gpiochip0").write_text("pinctrl-rp1")

    def refuse(*_: Any) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(DriverError, match=rf"{dev}/gpiochip0: Permission denied: expected user \d+ to be in the group"):
        find_chip(["pinctrl-rp1"], dev)
