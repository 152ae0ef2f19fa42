"""The frame ring: newest whole frame wins, torn frames are noticed, nobody can hurt the writer."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.frames import RingError, RingReader, RingWriter, slot_bytes
from daemon.views import View

GRAY = View(16, 8, "gray8")
RGB = View(12, 10, "rgb24")


def filled(view: View, value: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.full(view.shape, value % 256, np.uint8)


@pytest.mark.parametrize("view", [GRAY, RGB])
def test_reader_sees_the_newest_frame_in_place(tmp_path: Path, view: View) -> None:
    writer = RingWriter(tmp_path / "ring", view, 3, epoch=7)
    reader = RingReader(tmp_path / "ring")
    assert reader.view == view
    assert reader.epoch == 7
    assert reader.newest() is None
    for n in range(1, 8):
        assert writer.write(filled(view, n), sensor_ns=100 * n) == n
        frame = reader.newest()
        assert frame is not None
        assert (frame.seq, frame.sensor_ns) == (n, 100 * n)
        assert np.array_equal(reader.pixels(frame), filled(view, n))
        assert not reader.pixels(frame).flags.writeable
    assert reader.find(4) is None
    assert reader.find(5) is not None


def test_an_overwritten_frame_is_torn(tmp_path: Path) -> None:
    writer = RingWriter(tmp_path / "ring", GRAY, 2, epoch=1)
    reader = RingReader(tmp_path / "ring")
    writer.write(filled(GRAY, 1), 1)
    held = reader.newest()
    assert held is not None
    writer.write(filled(GRAY, 2), 2)
    assert reader.intact(held)
    writer.write(filled(GRAY, 3), 3)
    assert not reader.intact(held)


@given(st.lists(st.integers(0, 255), min_size=1, max_size=40), st.integers(2, 6))
@settings(max_examples=50)
def test_every_frame_still_in_the_ring_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, values: list[int], slots: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "property-ring"
    writer = RingWriter(path, GRAY, slots, epoch=1)
    try:
        reader = RingReader(path)
        for n, value in enumerate(values, start=1):
            writer.write(filled(GRAY, value), n)
            for seq in range(1, n + 1):
                frame = reader.find(seq)
                assert (frame is not None) == (seq > n - slots)
                if frame is not None:
                    assert np.array_equal(reader.pixels(frame), filled(GRAY, values[seq - 1]))
    finally:
        writer.close()


def test_wrong_frames_are_refused_by_name(tmp_path: Path) -> None:
    writer = RingWriter(tmp_path / "ring", GRAY, 2, epoch=1)
    with pytest.raises(ValueError, match=r"expected uint8 \(8, 16\), got uint8 \(16, 8\)"):
        writer.write(np.zeros((16, 8), np.uint8), 1)
    with pytest.raises(ValueError, match="got float32"):
        writer.write(np.zeros((8, 16), np.float32), 1)


@pytest.mark.parametrize(
    "content",
    [b"", b"short", b"\0" * 8192, b"RFXRING\0" + b"\xff" * 8184, b"RFXRING\0\1\0\0\0\xff\xff\xff\x7f" + b"\0" * 8176],
)
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ring"
    path.write_bytes(content)
    with pytest.raises((RingError, ValueError)):
        RingReader(path)


def test_a_missing_ring_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RingError, match="expected a ring file"):
        RingReader(tmp_path / "none")


def test_a_full_file_system_is_an_error_at_start_with_the_numbers(small_tmpfs: Path) -> None:
    big = View(640, 480, "rgb24")
    size = 4096 * (2 + 8 * slot_bytes(big) // 4096)
    with pytest.raises(RingError, match=rf"needs {size} bytes, \d+ bytes are free"):
        RingWriter(small_tmpfs / "ring", big, 8, epoch=1)
    assert list(small_tmpfs.iterdir()) == []


def test_readers_of_a_replaced_ring_keep_their_frames(tmp_path: Path) -> None:
    first = RingWriter(tmp_path / "ring", GRAY, 2, epoch=1)
    first.write(filled(GRAY, 9), 1)
    old = RingReader(tmp_path / "ring")
    held = old.newest()
    assert held is not None
    second = RingWriter(tmp_path / "ring", RGB, 2, epoch=2)
    second.write(filled(RGB, 5), 2)
    assert np.array_equal(old.pixels(held), filled(GRAY, 9))
    assert RingReader(tmp_path / "ring").epoch == 2


READER = """
import sys, time
from pathlib import Path
import numpy as np
from daemon.frames import RingReader
reader = RingReader(Path(sys.argv[1]))
whole = torn = last = 0
print("up", flush=True)
until = time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    frame = reader.newest()
    assert frame is not None and frame.seq >= last, (frame, last)
    last = frame.seq
    copy = reader.pixels(frame).copy()
    if reader.intact(frame):
        assert (copy == frame.seq % 251).all(), "a torn frame passed as whole"
        whole += 1
    else:
        torn += 1
print(whole, torn, flush=True)
"""


def test_no_torn_frame_passes_under_full_load_and_dying_readers_do_no_harm(tmp_path: Path) -> None:
    view = View(64, 64, "gray8")
    writer = RingWriter(tmp_path / "ring", view, 2, epoch=1)
    writer.write(filled(view, 1), 1)
    command = [sys.executable, "-c", READER, str(tmp_path / "ring")]
    reader = subprocess.Popen([*command, "1.5"], stdout=subprocess.PIPE, text=True)
    doomed = subprocess.Popen([*command, "60"], stdout=subprocess.PIPE, text=True)
    try:
        assert reader.stdout is not None
        assert doomed.stdout is not None
        reader.stdout.readline()
        doomed.stdout.readline()
        end = time.monotonic() + 1.2
        rng = random.Random(1)
        seq = 1
        while time.monotonic() < end:
            seq = writer.write(filled(view, (seq + 1) % 251), seq)
            if seq == 500:
                doomed.send_signal(signal.SIGKILL)
            if rng.random() < 0.01:
                time.sleep(0.0005)
        whole, _ = map(int, reader.stdout.readline().split())
        assert reader.wait() == 0
        assert whole > 100
    finally:
        for process in (reader, doomed):
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()
