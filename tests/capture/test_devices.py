"""Devices: stable paths, who holds a busy one, what an error means."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from daemon.capture.devices import explained, holders, holders_text, present
from daemon.capture.source import SourceAbsent, SourceFailed


def test_a_stable_path_is_followed_to_the_device_of_the_moment(tmp_path: Path) -> None:
    link = tmp_path / "by-id"
    with pytest.raises(SourceAbsent, match="by-id is not there: unplugged"):
        present(str(link))
    for name in ("video0", "video4"):
        (tmp_path / name).touch()
        link.unlink(missing_ok=True)
        link.symlink_to(name)
        assert present(str(link)) == tmp_path / name
    (tmp_path / "video4").unlink()
    with pytest.raises(SourceAbsent):
        present(str(link))


def test_nobody_holds_a_device_that_is_free_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "video0").touch()
    assert list(holders([tmp_path / "video0", tmp_path / "none"])) == []


def test_a_leftover_that_holds_the_camera_is_told_with_its_pid(tmp_path: Path) -> None:
    device = tmp_path / "video0"
    device.touch()
    with device.open() as file:
        holder = subprocess.Popen(["/bin/sleep", "60"], stdin=file)
    try:
        error = explained(OSError(errno.EBUSY, "busy"), str(device))
        assert isinstance(error, SourceFailed)
        assert f"is busy: held by sleep (pid {holder.pid}): stop that first" in str(error)
    finally:
        holder.kill()
        holder.wait()
    assert "of another user" in holders_text([device])


@pytest.mark.parametrize("number", [errno.ENODEV, errno.ENXIO, errno.ENOENT])
def test_a_device_that_is_gone_is_absent(number: int) -> None:
    assert isinstance(explained(OSError(number, os.strerror(number)), "/dev/video0"), SourceAbsent)


def test_other_errors_are_failures_with_what_to_do() -> None:
    assert "group video" in str(explained(OSError(errno.EACCES, "Permission denied"), "/dev/video0"))
    other = explained(OSError(errno.EIO, "Input/output error"), "/dev/video0")
    assert isinstance(other, SourceFailed)
    assert str(other) == "/dev/video0: Input/output error"
