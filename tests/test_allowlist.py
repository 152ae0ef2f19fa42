"""The allow-list's file: what is written can be read again, or is not written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from daemon.allowlist import AllowListError, Trusted, read_allow_list, write_allow_list

ADA = Trusted(key="a" * 40, role="operate", frames=True)
BOB = Trusted(key="0.-:+=^!/*?&<>()[]{}@%$#abcdefghijklmnop", role="observe")


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "made/clients.toml"
    assert read_allow_list(path) == {}
    write_allow_list(path, {"bob": BOB, "ada": ADA})
    assert read_allow_list(path) == {"ada": ADA, "bob": BOB}
    assert path.stat().st_mode & 0o777 == 0o600
    write_allow_list(path, {})
    assert read_allow_list(path) == {}
    assert [file.name for file in path.parent.iterdir()] == ["clients.toml"]


@pytest.mark.parametrize(
    ("clients", "why"),
    [
        ({"ada": ADA, "eve": ADA}, "ada and eve have the same key"),
        ({"Ada": ADA}, "regex"),
        ({"ada.b": ADA}, "unknown field"),
        ({"ada": Trusted(key="short", role="admin")}, "40"),
        ({"ada": Trusted(key='"' * 40, role="admin")}, "clients.toml"),
    ],
)
def test_a_list_that_would_let_nobody_in_any_more_is_not_written(
    tmp_path: Path, clients: dict[str, Trusted], why: str
) -> None:
    path = tmp_path / "clients.toml"
    write_allow_list(path, {"bob": BOB})
    with pytest.raises(AllowListError, match=why):
        write_allow_list(path, clients)
    assert read_allow_list(path) == {"bob": BOB}


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_list_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "clients.toml"
    write_allow_list(path, {"ada": ADA})
    path.chmod(mode)
    with pytest.raises(AllowListError, match=f"others may write the allow-list: chmod 600 {path}"):
        read_allow_list(path)
    path.chmod(0o644)
    assert read_allow_list(path) == {"ada": ADA}


def test_a_list_that_its_reader_may_read_stays_so(tmp_path: Path) -> None:
    path = tmp_path / "clients.toml"
    write_allow_list(path, {"ada": ADA})
    path.chmod(0o644)
    write_allow_list(path, {"bob": BOB})
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_root_writes_it_for_the_daemon(tmp_path: Path) -> None:
    """`sudo reflexctl keys trust` must not leave a list that the service cannot read."""
    os.chown(tmp_path, 65534, 65534)
    path = tmp_path / "clients.toml"
    write_allow_list(path, {"ada": ADA})
    assert (path.stat().st_uid, path.stat().st_gid) == (65534, 65534)
    os.chown(path, 1, 2)
    write_allow_list(path, {"bob": BOB})
    assert (path.stat().st_uid, path.stat().st_gid) == (1, 2)
