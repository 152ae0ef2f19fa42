"""Keys in files: what is made, what is read, and what is refused with the way out."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import zmq

from daemon.keys import KeyFileError, PublicKey, new_key, read_key, read_or_make_key


def test_a_new_key_is_its_owners_alone_and_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "made" / "client.key"
    pair = new_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert read_key(path) == pair == read_or_make_key(path)
    assert zmq.curve_public(pair.secret.encode()).decode() == pair.public


def test_a_key_is_not_written_over(tmp_path: Path) -> None:
    pair = new_key(tmp_path / "own.key")
    with pytest.raises(KeyFileError, match="there is a key already"):
        new_key(tmp_path / "own.key")
    assert read_key(tmp_path / "own.key") == pair
    assert [path.name for path in tmp_path.iterdir()] == ["own.key"]


def test_a_full_disk_leaves_no_half_of_a_key(small_tmpfs: Path) -> None:
    with pytest.raises(OSError, match="No space left"), (small_tmpfs / "filling").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    with pytest.raises(KeyFileError, match=r"own\.key: cannot write a key here: No space left"):
        new_key(small_tmpfs / "own.key")
    assert [path.name for path in small_tmpfs.iterdir()] == ["filling"]


def test_no_public_key_looks_like_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One drawn key in 85 begins with a dash, and no command would take it."""
    drawn = iter([(b"-" + b"a" * 39, b"b" * 40), (b"a" * 40, b"b" * 40)])
    monkeypatch.setattr(zmq, "curve_keypair", lambda: next(drawn))
    assert new_key(tmp_path / "own.key").public == "a" * 40


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o604])
def test_a_secret_that_others_may_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "own.key"
    new_key(path)
    path.chmod(mode)
    with pytest.raises(KeyFileError, match=rf"mode {mode:04o} lets others read the secret: chmod 600 {path}"):
        read_key(path)
    path.chmod(0o600)
    read_key(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected `public` and `secret`"),
        ("public = 3", "expected `public` and `secret`"),
        ("not toml", "expected `public` and `secret`"),
        (f'public = "{"a" * 39}"\nsecret = "{"a" * 40}"', "expected `public` and `secret`, 40 letters each"),
        (f'public = "{"#" * 40}"\nsecret = "{"#" * 40}"', "secret is not a CURVE key: make a new key"),
        (f'public = "{"a" * 40}"\nsecret = "{"a" * 40}"', "public and secret do not belong together"),
    ],
)
def test_what_is_no_key_pair_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "own.key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(KeyFileError, match=why) as refused:
        read_key(path)
    assert str(path) in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match=r"none\.key: cannot read a key here: No such file"):
        read_key(tmp_path / "none.key")


@pytest.mark.parametrize("letter", ['"', "\\", "'", " ", "\n", "ä", "~", "`", ";", "|", ",", "_"])
def test_a_public_key_has_no_letter_that_would_leave_its_quotes(letter: str) -> None:
    assert msgspec.convert("a" * 40, PublicKey) == "a" * 40
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert("a" * 39 + letter, PublicKey)
