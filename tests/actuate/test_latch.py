"""The e-stop latch: durable before it is acknowledged, and latched whenever in doubt."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from daemon.actuate.latch import Latch, LatchError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "paddle.estop"


def test_absent_is_not_latched(path: Path) -> None:
    assert Latch(path).read() is None


def test_set_survives_and_clear_removes(path: Path) -> None:
    Latch(path).set("by a test")
    assert Latch(path).read() == "by a test"
    Latch(path).set("by another, longer test")
    assert Latch(path).read() == "by another, longer test"
    Latch(path).clear()
    assert Latch(path).read() is None
    Latch(path).clear()


def test_file_and_folder_are_synced_before_set_returns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(str(Path(f"/proc/self/fd/{fd}").readlink())))
    Latch(path).set("x")
    assert synced == [str(path), str(path.parent)]
    synced.clear()
    Latch(path).clear()
    assert synced == [str(path.parent)]


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"\0" * 4096, b"\xff\xfe\x00garbage", b"\x80" * 10_000, b"a\x1b[2Jb"]
)
def test_garbage_counts_as_latched(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    why = Latch(path).read()
    assert why is not None
    assert why.isprintable()
    Latch(path).clear()
    assert Latch(path).read() is None


def test_a_folder_counts_as_latched_and_must_be_moved_by_hand(path: Path) -> None:
    path.mkdir()
    assert "another kind of file" in str(Latch(path).read())
    with pytest.raises(LatchError, match="Is a directory"):
        Latch(path).set("x")
    with pytest.raises(LatchError, match="remove it by hand"):
        Latch(path).clear()


@pytest.mark.parametrize("target", ["nowhere", "/dev/null"])
def test_a_link_counts_as_latched_wherever_it_leads(path: Path, target: str) -> None:
    path.symlink_to(target)
    assert "another kind of file" in str(Latch(path).read())
    with pytest.raises(LatchError):
        Latch(path).set("x")


def test_a_fifo_counts_as_latched_and_blocks_nobody(path: Path) -> None:
    os.mkfifo(path)
    assert "another kind of file" in str(Latch(path).read())
    with pytest.raises(LatchError):
        Latch(path).set("x")


@pytest.mark.parametrize("call", ["open", "read"])
def test_a_read_error_counts_as_latched(path: Path, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Latch(path).set("x")
    monkeypatch.setattr(os, call, _failing)
    assert "cannot read the latch (Input/output error)" in str(Latch(path).read())


def test_an_unreachable_path_counts_as_latched(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot look at the latch (Not a directory)" in str(Latch(tmp_path / "file" / "paddle.estop").read())


@pytest.mark.parametrize("call", ["open", "write", "fsync"])
def test_what_cannot_be_written_is_said(path: Path, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, call, _failing)
    with pytest.raises(LatchError, match="Input/output error"):
        Latch(path).set("x")


def test_a_removal_that_is_not_durable_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Latch(path).set("x")
    monkeypatch.setattr(os, "fsync", _failing)
    with pytest.raises(LatchError, match="Input/output error"):
        Latch(path).clear()


def test_a_full_disk(small_tmpfs: Path) -> None:
    with (small_tmpfs / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space left"):
        while True:
            filler.write(b"x" * 4096)
    latch = Latch(small_tmpfs / "paddle.estop")
    with pytest.raises(LatchError, match="No space left"):
        latch.set("by a test")
    assert latch.read() is not None, "the name alone latches, when the disk had room for that"


def test_short_writes_are_completed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:3]))
    Latch(path).set("by a patient test")
    assert Latch(path).read() == "by a patient test"


def _failing(*_: object, **__: object) -> int:
    raise OSError(5, "Input/output error")
