"""Heat, power and clocks of a board, from what its kernel and firmware say."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.doctor.board import FLAGS, power, temperature, throttling
from daemon.doctor.clock import clock
from daemon.doctor.setup import Setup
from tests.doctor.trees import PI_5, Files, machine, only, statuses

NONE = Setup()


# --- the firmware's flags ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "status", "now", "earlier"),
    [
        (0x0, "ok", "nothing", "nothing"),
        (0x1, "fail", "under-voltage", "nothing"),
        (0x2, "warn", "clock capped", "nothing"),
        (0x4, "warn", "throttled", "nothing"),
        (0x8, "warn", "soft temperature limit", "nothing"),
        (0x10000, "warn", "nothing", "under-voltage"),
        (0x20000, "warn", "nothing", "clock capped"),
        (0x40000, "warn", "nothing", "throttled"),
        (0x80000, "warn", "nothing", "soft temperature limit"),
        (0x50005, "fail", "under-voltage, throttled", "nothing"),
        (0xE0008, "warn", "soft temperature limit", "clock capped, throttled"),
        (0xF0000, "warn", "nothing", "under-voltage, clock capped, throttled, soft temperature limit"),
    ],
)
def test_every_bit_is_read_as_now_or_since_the_boot(
    tmp_path: Path, flags: int, status: str, now: str, earlier: str
) -> None:
    from_kernel = only(throttling(machine(tmp_path, PI_5, {FLAGS: f"{flags:x}\n"}), NONE))
    assert from_kernel.status == status
    assert from_kernel.found == f"0x{flags:x}: now: {now}; earlier since the boot: {earlier}"
    says = {"vcgencmd": f"throttled=0x{flags:x}"}
    assert only(throttling(machine(tmp_path / "other", PI_5, says=says), NONE)) == from_kernel


def test_the_fix_is_for_what_is_wrong(tmp_path: Path) -> None:
    def fix(flags: int) -> str:
        return only(throttling(machine(tmp_path / str(flags), {FLAGS: f"{flags:x}"}), NONE)).fix

    assert "supply" in fix(1)
    assert "heat sink" not in fix(1)
    assert "supply" not in fix(1 << 18)
    assert "heat sink" in fix(1 << 18)


@pytest.mark.parametrize(
    ("files", "says", "why"),
    [
        (PI_5, {}, "group video"),
        (PI_5, {"vcgencmd": "VCHI initialization failed"}, "group video"),
        ({}, {}, "not a Raspberry Pi"),
    ],
)
def test_without_flags_it_says_why(tmp_path: Path, files: Files, says: dict[str, str], why: str) -> None:
    finding = only(throttling(machine(tmp_path, files, says=says), NONE))
    assert finding.status == "skip"
    assert why in finding.found


# --- temperature -------------------------------------------------------------------------------------------


def test_the_hottest_zone_counts(tmp_path: Path) -> None:
    finding = only(temperature(machine(tmp_path, PI_5), NONE))
    assert (finding.status, finding.found) == ("ok", "cpu-thermal 52 °C, fan at step 1 of 4")
    hot = {
        "/sys/class/thermal/thermal_zone1/type": "rp1_adc\n",
        "/sys/class/thermal/thermal_zone1/temp": "82100\n",
        "/sys/class/thermal/thermal_zone2/temp": "unreadable",
    }
    finding = only(temperature(machine(tmp_path, PI_5, hot), NONE))
    assert finding.status == "warn"
    assert finding.found.startswith("rp1_adc 82 °C")


def test_no_zone_is_no_finding(tmp_path: Path) -> None:
    assert only(temperature(machine(tmp_path), NONE)).status == "skip"


# --- power -------------------------------------------------------------------------------------------------


def test_the_kernels_alarm_is_a_failure(tmp_path: Path) -> None:
    assert only(power(machine(tmp_path, PI_5), NONE)).found == "under-voltage alarm off; the supply offers 5000 mA"
    finding = only(power(machine(tmp_path, PI_5, {"/sys/class/hwmon/hwmon2/in0_lcrit_alarm": "1\n"}), NONE))
    assert finding.status == "fail"
    assert "alarm ON" in finding.found


def test_a_small_supply_of_a_pi_5_is_named(tmp_path: Path) -> None:
    small = {"/proc/device-tree/chosen/power/max_current": (3000).to_bytes(4, "big")}
    assert (
        "offers 3000 mA: its USB ports together give 600 mA" in only(power(machine(tmp_path, PI_5, small), NONE)).found
    )


def test_what_the_log_remembers_is_a_warning(tmp_path: Path) -> None:
    log = "2026-03-01T10:00:01+0000 pi kernel: hwmon hwmon2: Undervoltage detected!\n" * 2
    finding = only(power(machine(tmp_path, PI_5, says={"journalctl": log}), NONE))
    assert finding.status == "warn"
    assert "logged 2 times in the last week, last at 2026-03-01T10:00:01+0000" in finding.found


def test_an_ordinary_machine_does_not_measure_its_supply(tmp_path: Path) -> None:
    assert only(power(machine(tmp_path), NONE)).status == "skip"


# --- clocks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "files", "status", "text"),
    [
        ("yes", PI_5, "ok", "synchronised by NTP; clock chip rpi-rtc rpi_rtc"),
        ("no", {}, "warn", "not synchronised; no clock chip"),
        ("", {"/run/systemd/timesync/synchronized": ""}, "ok", "synchronised by NTP"),
        ("", {"/run/systemd/timesync/other": ""}, "warn", "not synchronised"),
        ("", {}, "skip", "no timedatectl, no systemd-timesyncd"),
    ],
)
def test_whether_the_clock_is_right(tmp_path: Path, told: str, files: Files, status: str, text: str) -> None:
    finding = next(clock(machine(tmp_path, files, says={"timedatectl": told}), NONE))
    assert finding.status == status
    assert text in finding.found


@pytest.mark.parametrize(
    ("boot_s", "now_s", "status", "text"),
    [
        (-30, 10, "ok", "none of more than 60 s"),
        (-30, -3610, "warn", "set backwards by 36"),
        (5010, 9000, "warn", "set forwards by 50"),
    ],
)
def test_a_clock_that_was_set_after_the_boot(tmp_path: Path, boot_s: int, now_s: int, status: str, text: str) -> None:
    """The boot, as the kernel's clock has it now, and the present, both relative to when a file in /run was made."""
    machine(tmp_path, {"/run/systemd/notify": ""})
    at = round((tmp_path / "run/systemd/notify").stat().st_ctime)
    files = {
        "/proc/stat": f"cpu 1 2 3\nbtime {at + boot_s}\n",
        "/proc/mounts": "tmpfs /run tmpfs rw 0 0",
    }
    finding = list(clock(machine(tmp_path, files, now_s=at + now_s), NONE))[1]
    assert finding.status == status
    assert text in finding.found


def test_a_run_folder_that_outlives_the_boot_says_nothing_of_the_clock(tmp_path: Path) -> None:
    files = {"/run/systemd/notify": "", "/proc/stat": "btime 5\n", "/proc/mounts": "/dev/sda / ext4 rw 0 0"}
    assert statuses(clock(machine(tmp_path, files), NONE))[1:] == ["skip"]
