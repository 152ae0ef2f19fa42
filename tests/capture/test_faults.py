"""Cameras that fail in every way they do: noticed, kept out of the ring, and recovered from, while the others go on.

Nothing here depends on how fast the machine is; what was measured is printed (``pytest -s``).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capture.faulty import PERIOD_NS
from tests.capture.rig import Rig, rig

pytestmark = pytest.mark.slow


def recover(run: Rig, fault: str) -> None:
    """Let the fault strike, wait until pictures flow again, and say how long what took."""
    run.strike()
    run.until(lambda: run.back(run.struck() + 2 * PERIOD_NS), "pictures after the fault")
    run.until(lambda: run.healths[-1].state == "running", "the process to run again")
    noticed = run.noticed("degraded", "waiting", "starting")
    detected = f"{(noticed - run.struck()) / 1e9:.2f} s" if noticed else "picture by picture"
    back = (run.back(max(noticed, run.struck() + 2 * PERIOD_NS)) - run.struck()) / 1e9
    print(f"{fault}: noticed after {detected}, pictures again after {back:.2f} s, restarts {run.restarts}")


PROCESS_GOES = {
    "blocks": "no picture for",
    "wedges": "has not got on for 3 s: killed",
    "crashes": "died by SIGKILL",
    "ends_the_thread": "ZeroDivisionError: a mistake in a source",
    "repeats_the_buffer": "identical: the same picture to the last bit",
    "repeats_the_stamp": "repeated: its sensor time is that of the picture before",
    "goes_back": "backward: its sensor time is 40",
    "reads_the_wall_clock": "future: stamped",
    "is_empty": "empty: rgb24 32x24, plane 0: expected 2304 bytes, got 0",
    "is_half_written": "short: rgb24 32x24, plane 0: expected 2304 bytes, got 1152",
}
REFUSED = {
    "repeats_the_buffer": "identical",
    "repeats_the_stamp": "repeated",
    "goes_back": "backward",
    "reads_the_wall_clock": "future",
    "is_empty": "empty",
    "is_half_written": "short",
}


@pytest.mark.parametrize("fault", PROCESS_GOES)
def test_a_source_that_stays_at_fault_gets_a_new_process(run_folder: Path, fault: str) -> None:
    with rig(run_folder, fault) as run:
        recover(run, fault)
        run.until(lambda: run.says(PROCESS_GOES[fault]), "the reason in the log")
        assert run.restarts == 1
        assert run.others_lives == 1
        assert run.total("stalls") == (fault not in ("wedges", "crashes", "ends_the_thread"))
        if fault in REFUSED:
            assert run.total(REFUSED[fault]) >= 5
        assert run.bad <= (8 if fault == "repeats_the_buffer" else 0)


def test_a_short_block_costs_no_process(run_folder: Path) -> None:
    with rig(run_folder, "blocks_briefly") as run:
        recover(run, "blocks_briefly")
        run.until(lambda: run.total("stalls") == 1, "the stall to be counted")
        assert run.noticed("degraded")
        assert run.restarts == 0
        assert run.total("settling") >= 4, "at the start, and after the stall"


def test_an_error_is_answered_by_opening_anew(run_folder: Path) -> None:
    with rig(run_folder, "io_error") as run:
        recover(run, "io_error")
        run.until(lambda: run.total("opened") == 2, "a second opening")
        assert run.total("failed") == 1
        assert run.restarts == 0
        assert run.says("WARNING capture@cam: source cam: [Errno 5]")


def test_errors_without_end_are_left_to_new_processes_ever_less_often(run_folder: Path) -> None:
    with rig(run_folder, "always_io_error") as run:
        run.strike()
        run.until(lambda: run.total("failed") >= 3, "errors")
        assert run.restarts == 0, "each time there were good pictures in between"
    (run_folder / "again").mkdir()
    (run_folder / "again" / "busy").touch()
    with rig(run_folder / "again", "busy") as run:
        run.until(lambda: run.says("restarting in 0.25 s"), "a second restart")
        assert run.says("5 attempts without a good picture: /dev/camera is busy")
        (run_folder / "again" / "busy").unlink()
        run.until(lambda: run.stamps, "pictures once the camera is free")
        assert run.others_lives == 1


def test_a_camera_that_was_unplugged_is_found_at_its_new_number(run_folder: Path) -> None:
    link = run_folder / "by-id"
    (run_folder / "video0").touch()
    link.symlink_to("video0")
    with rig(run_folder, "unplugged") as run:
        run.until(lambda: run.healths and "opened video0" in run.healths[-1].detail, "the first device")
        run.strike()
        link.unlink()
        run.until(lambda: run.noticed("waiting"), "the process to wait for the camera")
        assert run.says(f"{link} is not there: unplugged")
        seen = len(run.stamps)
        (run_folder / "video4").touch()
        link.symlink_to("video4")
        run.until(lambda: len(run.stamps) > seen + 5, "pictures of the new device")
        run.until(lambda: "opened video4" in run.healths[-1].detail, "the new device")
        assert run.restarts == 0
        assert run.total("settling") >= 6, "some good pictures first, each time"
        back = (run.stamps[seen] - run.struck()) / 1e9
        print(
            f"unplugged: noticed after {(run.noticed('waiting') - run.struck()) / 1e9:.2f} s, back after {back:.2f} s"
        )


MEMINFO = "MemTotal: 8000000 kB\nCmaTotal:         65536 kB\nCmaFree:           2048 kB\n"


def test_short_memory_leads_to_fewer_buffers_and_says_so(run_folder: Path) -> None:
    (run_folder / "meminfo").write_text(MEMINFO)
    with rig(run_folder, "memory_for_two") as run:
        run.until(
            lambda: len(run.stamps) > 5 and "instead of" in run.healths[-1].detail,
            "pictures, and the word about memory",
        )
        assert run.healths[-1].state == "degraded"
        assert "2 buffers of 32x24 instead of 4 buffers of 32x24; its pool has 64 MiB, 2 free" in run.healths[-1].detail
        assert run.restarts == 0


def test_no_memory_at_all_is_said_with_the_numbers_and_tried_ever_less_often(run_folder: Path) -> None:
    (run_folder / "meminfo").write_text(MEMINFO)
    with rig(run_folder, "no_memory") as run:
        run.until(lambda: run.says("restarting in 0.5 s"), "a third restart")
        assert run.says("no camera memory, neither for 4 buffers of 32x24 nor for 2 buffers")
        assert run.others_lives == 1
