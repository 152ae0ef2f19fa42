"""Cameras, the header and its buses: there or not, and for this user or not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.doctor.cameras import cameras
from daemon.doctor.finding import Finding
from daemon.doctor.header import buses, pins, pwm
from daemon.doctor.setup import Setup, read_setup
from tests.doctor.trees import PI_5, Files, label_by_content, machine, only

NONE = Setup()
ROOT = Path(__file__).parents[2]
NOBODY = 65534

WEBCAM: Files = {"/sys/class/video4linux/video8/name": "HD Webcam\n", "/dev/video8": ""}


def setup(folder: Path, source: str = 'kind = "synthetic"', actuator: str = 'driver = "log"') -> Setup:
    """A configuration with this source and this actuator; its package is not there."""
    file = folder / "robot.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        f'[daemon]\nname = "d"\n[sources.eye]\n{source}\n'
        '[agents.a]\npackage = "nowhere"\nsource = "eye"\nactuator = "arm"\n'
        f'[actuators.arm]\nactions = ["ON", "OFF"]\nneutral = "OFF"\ndeadman_ms = 250.0\n{actuator}\n'
    )
    found = read_setup(file)
    assert found.plan is not None, found.complaint
    return found


SERVO = 'driver = "gpio"\n[[actuators.arm.outputs]]\nkind = "servo"\npin = 18\nactions = { ON = 10.0, OFF = 0.0 }'
RELAY = 'driver = "gpio"\n[[actuators.arm.outputs]]\nkind = "digital"\npin = 17\nactions = { ON = true, OFF = false }'
PWM = ("pwmchip0", "1f0009c000.pwm"), ("pwmchip2", "1f00098000.pwm")


# --- cameras -----------------------------------------------------------------------------------------------


def test_cameras_are_named_and_parts_of_the_pi_are_left_out(tmp_path: Path) -> None:
    found = list(cameras(machine(tmp_path, PI_5, WEBCAM), NONE))
    assert [(finding.status, finding.found) for finding in found] == [
        ("ok", "video8 (HD Webcam)"),
        ("ok", "on the board's connector: imx708_wide"),
    ]


def test_no_camera_is_no_failure_unless_one_is_configured(tmp_path: Path) -> None:
    assert [finding.status for finding in cameras(machine(tmp_path), NONE)] == ["skip", "skip"]
    missing = setup(tmp_path / "usb", 'kind = "v4l2"\ndevice = "/dev/v4l/by-id/usb-cam"')
    assert [finding.status for finding in cameras(machine(tmp_path), missing)] == ["skip", "skip", "fail"]
    missing = setup(tmp_path / "pi", 'kind = "picamera2"')
    found = list(cameras(machine(tmp_path), missing))[1]
    assert (found.status, found.found) == ("fail", "sources.eye: the kernel has found no sensor on the connector")
    assert "seat the cable" in found.fix


def test_a_configured_camera_that_is_there(tmp_path: Path) -> None:
    there = setup(tmp_path, 'kind = "v4l2"\ndevice = "/dev/video8"')
    assert [finding.status for finding in cameras(machine(tmp_path, PI_5, WEBCAM), there)] == ["ok", "ok"]


# --- pins --------------------------------------------------------------------------------------------------


def test_the_chip_is_found_by_its_label_whatever_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers have changed with kernels; Raspberry Pi OS keeps an old name alive as a link."""
    label_by_content(monkeypatch)
    header = machine(tmp_path, PI_5)
    (tmp_path / "dev/gpiochip4").symlink_to("gpiochip11")
    assert only(pins(header, NONE)).found.startswith("gpiochip11 is the header")
    (tmp_path / "dev/gpiochip11").rename(tmp_path / "dev/gpiochip2")
    finding = only(pins(header, setup(tmp_path, actuator=RELAY)))
    assert finding.status == "ok"
    assert finding.found.startswith("gpiochip2 is the header")


@pytest.mark.parametrize(("actuator", "status"), [('driver = "log"', "warn"), (RELAY, "fail")])
def test_a_header_with_another_label_names_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, actuator: str, status: str
) -> None:
    label_by_content(monkeypatch)
    finding = only(pins(machine(tmp_path, {"/dev/gpiochip0": "INT34C5:00"}), setup(tmp_path, actuator=actuator)))
    assert finding.status == status
    assert "found gpiochip0 is INT34C5:00" in finding.found


def test_no_chip_fails_only_who_needs_one(tmp_path: Path) -> None:
    assert only(pins(machine(tmp_path), NONE)).status == "skip"
    finding = only(pins(machine(tmp_path), setup(tmp_path, actuator=RELAY)))
    assert finding.status == "fail"
    assert "actuators.arm needs one" in finding.found


def pwm_chips(folder: Path, *chips: tuple[str, str]) -> None:
    """Chips of ``/sys/class/pwm``, whose ``device`` leads to the block."""
    for chip, device in chips:
        block = folder / "sys/devices/platform/axi" / device
        block.mkdir(parents=True)
        (folder / "sys/class/pwm" / chip).mkdir(parents=True)
        (folder / "sys/class/pwm" / chip / "device").symlink_to(block)
        (folder / "sys/class/pwm" / chip / "export").write_text("")


def test_the_pwm_block_of_the_header_is_found_by_its_device(tmp_path: Path) -> None:
    pwm_chips(tmp_path, *PWM)
    assert only(pwm(machine(tmp_path), NONE)).found == "pwmchip2 is the header's block"


def test_a_servo_without_its_block_gets_the_overlay(tmp_path: Path) -> None:
    pwm_chips(tmp_path, PWM[0])
    finding = only(pwm(machine(tmp_path), setup(tmp_path, actuator=SERVO)))
    assert finding.status == "fail"
    assert "dtoverlay=pwm,pin=18,func=2 in /boot/firmware/config.txt" in finding.fix
    assert only(pwm(machine(tmp_path), setup(tmp_path, actuator=RELAY))).status == "skip"


@pytest.mark.parametrize(
    ("line", "warned"),
    [("dtparam=audio=on", True), ("dtparam=spi=on,audio=on", True), ("#dtparam=audio=on", False), ("", False)],
)
def test_sound_on_the_same_block_is_a_warning(tmp_path: Path, line: str, warned: bool) -> None:
    pwm_chips(tmp_path, *PWM)
    here = machine(tmp_path, {"/boot/firmware/config.txt": f"arm_64bit=1\n{line}\n"})
    found = list(pwm(here, setup(tmp_path, actuator=SERVO)))
    assert [finding.status for finding in found] == (["ok", "warn"] if warned else ["ok"])


def test_buses(tmp_path: Path) -> None:
    assert only(buses(machine(tmp_path, PI_5), NONE)).found == "i2c-1"
    assert only(buses(machine(tmp_path / "none"), NONE)).status == "skip"


# --- another user ------------------------------------------------------------------------------------------

_AS_NOBODY = """
import os, sys
from pathlib import Path
from daemon.doctor.cameras import cameras
from daemon.doctor.header import buses, pins, pwm
from daemon.doctor.machine import Machine
from daemon.doctor.setup import Setup
import msgspec
os.setgroups([])
os.setuid(int(sys.argv[2]))
there = Machine(Path(sys.argv[1]))
found = [finding for check in (cameras, pins, pwm, buses) for finding in check(there, Setup())]
print(msgspec.json.encode(found).decode())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="becoming another user needs root")
def test_devices_that_are_for_others_name_the_group(run_folder: Path) -> None:
    import msgspec

    machine(run_folder, PI_5, WEBCAM)
    pwm_chips(run_folder, *PWM)
    run_folder.chmod(0o755)
    shut = ["dev/video8", "dev/gpiochip0", "dev/gpiochip11", "dev/i2c-1", "sys/class/pwm/pwmchip2/export"]
    for name in shut:
        (run_folder / name).chmod(0o600)
    command = [sys.executable, "-c", _AS_NOBODY, str(run_folder), str(NOBODY)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=60)
    found = msgspec.json.decode(done.stdout, type=list[Finding])
    warned = [(finding.check, finding.fix.split(" $USER")[0]) for finding in found if finding.status == "warn"]
    assert warned == [
        ("camera", "sudo usermod -aG video"),
        ("pins", "sudo usermod -aG gpio"),
        ("pwm", "sudo usermod -aG gpio"),
        ("i2c", "sudo usermod -aG i2c"),
    ]
