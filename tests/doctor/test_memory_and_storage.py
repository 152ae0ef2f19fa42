"""Room in memory and on storage, and how worn a card is."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.doctor.memory import camera_memory, memory, swap
from daemon.doctor.setup import Setup, read_setup
from daemon.doctor.storage import file_systems, ring_need, room, space, wear
from daemon.frames import RingWriter
from daemon.plan import load
from tests.doctor.trees import PI_5, Files, machine, only, statuses

NONE = Setup()
PONG = Path(__file__).parents[2] / "models" / "pong" / "demo.toml"
CAMERA = """
[daemon]
name = "cam"
[sources.eye]
kind = "picamera2"
width = 640
height = 480
full_width = 4608
full_height = 2592
[agents.a]
package = "nowhere"
source = "eye"
actuator = "arm"
[actuators.arm]
driver = "log"
actions = ["A"]
neutral = "A"
deadman_ms = 250.0
"""


# --- memory ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("meminfo", "status", "text"),
    [
        (PI_5["/proc/meminfo"], "ok", "7.2 GiB of 7.9 GiB available"),
        ("MemTotal: 437000 kB\nMemAvailable: 81920 kB\n", "warn", "80 MiB of 427 MiB available"),
        ("", "skip", "cannot be read"),
    ],
)
def test_memory_for_processes(tmp_path: Path, meminfo: str, status: str, text: str) -> None:
    finding = only(memory(machine(tmp_path, {"/proc/meminfo": meminfo}), NONE))
    assert finding.status == status
    assert text in finding.found


def test_camera_memory_is_judged_by_the_cameras_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "camera.toml").write_text(CAMERA)
    setup = read_setup(tmp_path / "camera.toml")
    assert setup.complaint, "the package is not there, and the sources are known all the same"
    assert only(camera_memory(machine(tmp_path, PI_5), NONE)).status == "ok"
    finding = only(camera_memory(machine(tmp_path, PI_5), setup))
    assert finding.status == "warn"
    assert finding.found == "57 MiB of 64 MiB contiguous memory (CMA) free; the configured cameras take about 68 MiB"
    assert "cma=256M" in finding.fix


def test_a_kernel_without_camera_memory(tmp_path: Path) -> None:
    assert (
        only(camera_memory(machine(tmp_path, {"/proc/meminfo": "MemTotal: 1 kB\nCmaTotal: 0 kB"}), NONE)).status
        == "skip"
    )


def test_swap_on_a_card_is_a_warning_and_in_memory_it_is_not(tmp_path: Path) -> None:
    assert only(swap(machine(tmp_path, PI_5), NONE)).status == "ok"
    both = PI_5["/proc/swaps"]
    assert isinstance(both, str)
    findings = list(swap(machine(tmp_path, {"/proc/swaps": f"{both}/var/swap file 524272 10240 -2\n"}), NONE))
    assert statuses(findings) == ["ok", "warn"]
    assert findings[1].found.startswith("/var/swap: 10 MiB of 512 MiB used, on storage")
    assert "swapoff /var/swap" in findings[1].fix


def test_no_swap_and_no_word_of_it(tmp_path: Path) -> None:
    assert only(swap(machine(tmp_path, {"/proc/swaps": "Filename Type Size Used Priority\n"}), NONE)).found == "none"
    assert only(swap(machine(tmp_path / "other"), NONE)).status == "skip"


# --- room --------------------------------------------------------------------------------------------------


def test_the_room_wanted_is_what_the_rings_take(run_folder: Path) -> None:
    plan = load(PONG)
    (view,) = plan.views("table")
    ring = RingWriter(run_folder / "ring", view, plan.slots("table"), 1)
    try:
        assert ring_need(Setup(PONG, plan)) == (run_folder / "ring").stat().st_size
    finally:
        ring.close()
    assert ring_need(NONE) == 0


def test_a_full_file_system_is_a_failure(small_tmpfs: Path) -> None:
    assert only(room(small_tmpfs, "/run", 100 * 1024, "fix")).status == "ok"
    assert only(room(small_tmpfs, "/run", 300 * 1024, "fix")).found == "/run: 256 KiB of 256 KiB free, 300 KiB wanted"
    (small_tmpfs / "log").write_bytes(b"x" * 200 * 1024)
    finding = only(room(small_tmpfs, "/run", 100 * 1024, "fix"))
    assert (finding.status, finding.fix) == ("fail", "fix")


def test_a_folder_that_is_not_there_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    findings = list(space(machine(tmp_path), NONE))
    assert [(finding.status, finding.found.split(":")[0]) for finding in findings] == [
        ("ok", "/run"),
        ("skip", "/dev/shm"),
        ("ok", "/"),
    ]


@pytest.mark.parametrize(
    ("mounts", "status", "text"),
    [
        ("/dev/mmcblk0p2 / ext4 rw,noatime 0 0", "ok", "/ is ext4, writable"),
        ("/dev/mmcblk0p2 / ext4 ro,noatime 0 0", "warn", "/ is read-only"),
        ("overlayroot / overlay rw,relatime,lowerdir=/media/root-ro 0 0", "warn", "a latched emergency stop is gone"),
        (
            "overlayroot / overlay rw 0 0\n/dev/sda3 /var/lib/reflexd ext4 rw 0 0",
            "ok",
            "/var/lib/reflexd is ext4, writable",
        ),
        ("tmpfs /var tmpfs rw 0 0\n/dev/mmcblk0p2 / ext4 rw 0 0", "warn", "/var is tmpfs"),
        ("rootfs / rootfs rw 0 0\n/dev/mmcblk0p2 / ext4 rw 0 0", "ok", "ext4"),
        ("", "skip", "cannot be read"),
    ],
)
def test_a_root_that_forgets_or_is_read_only(tmp_path: Path, mounts: str, status: str, text: str) -> None:
    finding = only(file_systems(machine(tmp_path, {"/proc/mounts": mounts}), NONE))
    assert finding.status == status
    assert text in finding.found


def test_errors_the_kernel_has_found_are_a_failure(tmp_path: Path) -> None:
    files = {
        "/proc/mounts": "/dev/mmcblk0p2 / ext4 rw 0 0",
        "/sys/fs/ext4/mmcblk0p2/errors_count": "3\n",
        "/sys/fs/ext4/sda1/errors_count": "0\n",
        "/sys/fs/ext4/features/metadata_csum_seed": "supported\n",
    }
    ok, bad = file_systems(machine(tmp_path, files), NONE)
    assert (ok.status, bad.status) == ("ok", "fail")
    assert bad.found == "mmcblk0p2: the kernel has found 3 errors in it"


# --- the card ----------------------------------------------------------------------------------------------


def card(kind: str = "SD", sectors: int = 0, **attributes: str) -> Files:
    stat = f"  12000  100 900000 5000  4000  100 {sectors} 9000 0 5000 14000 0 0 0 0 0 0\n"
    files = {f"/sys/block/mmcblk0/device/{name}": f"{text}\n" for name, text in attributes.items()}
    return {
        "/sys/block/mmcblk0/device/type": kind,
        "/sys/block/mmcblk0/device/name": "SD32G",
        "/sys/block/mmcblk0/stat": stat,
        "/sys/block/mmcblk0boot0/stat": stat,
        "/sys/block/zram0/stat": stat,
        "/proc/uptime": "86400.50 300000.00\n",
        "/sys/fs/ext4/mmcblk0p2/lifetime_write_kbytes": "120000000\n",
        **files,
    }


def test_an_sd_card_tells_what_is_written_and_not_its_wear(tmp_path: Path) -> None:
    finding = only(wear(machine(tmp_path, card(sectors=2_000_000)), NONE))
    assert finding.status == "ok"
    assert finding.found == (
        "mmcblk0 (SD SD32G), 1.0 GB a day written since the boot, "
        "123 GB written to its file systems in their life (an SD card does not tell its wear)"
    )


def test_a_card_that_is_written_all_day_is_a_warning(tmp_path: Path) -> None:
    finding = only(wear(machine(tmp_path, card(sectors=60_000_000)), NONE))
    assert finding.status == "warn"
    assert "30.7 GB a day" in finding.found
    assert "iotop" in finding.fix


def test_a_machine_that_has_just_started_says_nothing_per_day(tmp_path: Path) -> None:
    finding = only(wear(machine(tmp_path, {**card(sectors=60_000_000), "/proc/uptime": "60.0 1.0"}), NONE))
    assert finding.status == "ok"
    assert "a day" not in finding.found


@pytest.mark.parametrize(
    ("life", "end", "status", "text"),
    [
        ("0x01 0x02", "0x01", "ok", "up to 10 % of its life used, 20 % of its life used at most"),
        ("0x0a 0x01", "0x01", "ok", "90 to 100 % of its life used"),
        ("0x0b 0x01", "0x01", "fail", "beyond its life"),
        ("0x03 0x03", "0x02", "fail", "spare blocks"),
        ("0x03 0x03", "0x03", "fail", "spare blocks"),
        ("0x00 0x00", "0x00", "ok", "mmcblk0 (MMC SD32G)"),
    ],
)
def test_an_emmc_tells_its_wear(tmp_path: Path, life: str, end: str, status: str, text: str) -> None:
    finding = only(wear(machine(tmp_path, card("MMC", life_time=life, pre_eol_info=end)), NONE))
    assert finding.status == status
    assert text in finding.found


def test_no_card(tmp_path: Path) -> None:
    assert only(wear(machine(tmp_path, {"/sys/block/vda/stat": "1"}), NONE)).status == "skip"
