"""Servos on the kernel's PWM files: the order of writes, their contents, and every way in which they can fail."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from daemon.actuate.drivers import DriverError
from daemon.actuate.drivers.gpio_pwm import HardwarePwm
from daemon.pins import boards
from tests.actuate.pins import FakeSysfs

FAN, HEADER = "1f0009c000.pwm", "1f00098000.pwm"
PERIOD = "20000000"


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSysfs:
    """A Raspberry Pi 5's, whose fan has the lower number."""
    fake = FakeSysfs(tmp_path, pwmchip0=FAN, pwmchip2=HEADER)
    fake.rule(monkeypatch)
    return fake


def pwm(sysfs: FakeSysfs, pin: int = 18, frequency_hz: float = 50.0) -> HardwarePwm:
    return HardwarePwm(pin, frequency_hz, boards("auto"), sysfs.path)


def contents(folder: Path) -> dict[str, str]:
    return {name: (folder / name).read_text().strip() for name in ("period", "duty_cycle", "polarity", "enable")}


def test_a_fresh_channel_is_exported_set_up_and_enabled_last(sysfs: FakeSysfs) -> None:
    pwm(sysfs).open(1500.0)
    channel = "pwmchip2/pwm2"
    assert sysfs.writes == [
        ("pwmchip2/export", "2"),
        (f"{channel}/period", PERIOD),
        (f"{channel}/duty_cycle", "1500000"),
        (f"{channel}/enable", "1"),
    ]
    assert contents(sysfs.path / channel) == {
        "period": PERIOD,
        "duty_cycle": "1500000",
        "polarity": "normal",
        "enable": "1",
    }


def test_a_channel_that_a_killed_process_left_pulsing_gets_its_pulse_first(sysfs: FakeSysfs) -> None:
    sysfs.export("pwmchip2", 2, period=PERIOD, duty_cycle=1_900_000, enable=1)
    pwm(sysfs).open(1500.0)
    assert sysfs.writes == [("pwmchip2/pwm2/duty_cycle", "1500000")]


def test_a_duty_beyond_the_new_period_is_taken_back_before_it(sysfs: FakeSysfs) -> None:
    sysfs.export("pwmchip2", 2, period=50_000_000, duty_cycle=40_000_000, enable=1)
    pwm(sysfs).open(1500.0)
    names = [name.rpartition("/")[2] for name, _ in sysfs.writes]
    assert names == ["duty_cycle", "period", "duty_cycle"]
    assert sysfs.writes[0][1] == "0"


def test_an_inverted_channel_is_stopped_before_it_is_turned(sysfs: FakeSysfs) -> None:
    folder = sysfs.export("pwmchip2", 2, period=PERIOD, duty_cycle=1_000_000, polarity="inversed", enable=1)
    pwm(sysfs).open(1500.0)
    assert [name.rpartition("/")[2] for name, _ in sysfs.writes] == ["enable", "polarity", "duty_cycle", "enable"]
    assert contents(folder)["polarity"] == "normal"
    assert contents(folder)["enable"] == "1"


def test_a_write_is_one_write_and_closing_leaves_the_pulse(sysfs: FakeSysfs) -> None:
    servo = pwm(sysfs)
    servo.open(1500.0)
    sysfs.writes.clear()
    servo.write(1723.456)
    servo.close()
    assert sysfs.writes == [("pwmchip2/pwm2/duty_cycle", "1723456")]
    assert contents(sysfs.path / "pwmchip2/pwm2")["enable"] == "1", "unexport and disable would drop what it holds up"


@pytest.mark.parametrize(
    ("device", "pin", "channel"),
    [
        (HEADER, 12, 0),
        (HEADER, 13, 1),
        (HEADER, 18, 2),
        (HEADER, 19, 3),
        ("fe20c000.pwm", 12, 0),
        ("fe20c000.pwm", 18, 0),
        ("fe20c000.pwm", 19, 1),
        ("3f20c000.pwm", 13, 1),
        ("2020c000.pwm", 18, 0),
    ],
)
def test_the_block_is_found_by_its_device_and_the_channel_by_the_pin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, pin: int, channel: int
) -> None:
    fake = FakeSysfs(tmp_path, pwmchip0="backlight", pwmchip7=device)
    fake.rule(monkeypatch)
    pwm(fake, pin).open(1000.0)
    assert fake.writes[0] == ("pwmchip7/export", str(channel))


def test_no_block_says_what_was_found_and_which_overlay_is_missing(tmp_path: Path) -> None:
    fake = FakeSysfs(tmp_path, pwmchip0=FAN)
    with pytest.raises(DriverError) as lost:
        pwm(fake, 13).open(1500.0)
    text = str(lost.value)
    assert "pin 13: expected the PWM block 1f00098000.pwm or fe20c000.pwm" in text
    assert f"{fake.path}, found pwmchip0 is {FAN}: add dtoverlay=pwm,pin=13,func=4 to /boot/firmware/config.txt" in text


def test_the_chip_of_the_configuration_leaves_other_boards_out(tmp_path: Path) -> None:
    fake = FakeSysfs(tmp_path, pwmchip0=HEADER)
    with pytest.raises(DriverError, match=r"expected the PWM block fe20c000.pwm in .*, found pwmchip0 is 1f00098000"):
        HardwarePwm(18, 50.0, boards("pinctrl-bcm2711"), fake.path).open(1500.0)


def test_a_refusal_for_want_of_rights_names_group_and_rule(sysfs: FakeSysfs) -> None:
    sysfs.failing["export"] = errno.EACCES
    with pytest.raises(DriverError) as lost:
        pwm(sysfs).open(1500.0)
    text = str(lost.value)
    assert text.startswith(
        f"{sysfs.path}/pwmchip2/export: writing 2: Permission denied: expected user {os.getuid()} to"
    )
    assert "in the group gpio" in text
    assert 'SUBSYSTEM=="pwm"' in text


def test_a_channel_somebody_else_has_is_named(sysfs: FakeSysfs) -> None:
    sysfs.failing["export"] = errno.EBUSY
    with pytest.raises(DriverError, match="something else has this channel"):
        pwm(sysfs).open(1500.0)


def test_it_waits_for_udev_to_give_the_files_away(sysfs: FakeSysfs, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [False, False, True]
    monkeypatch.setattr(os, "access", lambda *_: answers.pop(0))
    pwm(sysfs).open(1500.0)
    assert answers == []


def test_in_the_control_loop_it_does_not_wait(sysfs: FakeSysfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("the control loop stands still"))
    monkeypatch.setattr(os, "access", lambda *_: False)
    pwm(sysfs).write(1500.0)
    assert contents(sysfs.path / "pwmchip2/pwm2")["duty_cycle"] == "1500000"


def test_after_a_failure_everything_is_set_up_anew(sysfs: FakeSysfs) -> None:
    servo = pwm(sysfs)
    servo.open(1500.0)
    folder = sysfs.path / "pwmchip2" / "pwm2"
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    with pytest.raises(DriverError, match="duty_cycle: writing 1600000: No such file or directory"):
        servo.write(1600.0)
    servo.write(1500.0)
    assert contents(folder) == {"period": PERIOD, "duty_cycle": "1500000", "polarity": "normal", "enable": "1"}


def test_a_servo_has_one_driver_at_a_time(sysfs: FakeSysfs) -> None:
    first, second = pwm(sysfs), pwm(sysfs)
    first.open(1500.0)
    with pytest.raises(DriverError, match=r"pwm2/duty_cycle: another process drives this servo: `fuser .*; stop it"):
        second.open(1000.0)
    assert contents(sysfs.path / "pwmchip2/pwm2")["duty_cycle"] == "1500000"
    first.close()
    second.open(1000.0)
    second.close()


def test_nonsense_in_the_kernels_file_is_an_error_with_its_path(sysfs: FakeSysfs) -> None:
    sysfs.export("pwmchip2", 2, period="much")
    with pytest.raises(DriverError, match=r"pwm2/period: expected a number, found 'much'"):
        pwm(sysfs).open(1500.0)
