"""Devices with names, and which gateway the options mean: no file is written that could not be read again."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from daemon.ctl.cli import main
from daemon.keys import new_key
from tests.gateway_daemon import free_port

KEY = "0.-:+=^!/*?&<>()[]{}@%$#abcdefghijklmnop"


@pytest.fixture
def home(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of devices and keys of an operator on a machine where no daemon runs."""
    for variable in ("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "RUNTIME_DIRECTORY"):
        monkeypatch.setenv(variable, str(run_folder))
    return run_folder / "reflexd"


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit status and what was said to stderr."""
    status = main(list(words))
    return status, capsys.readouterr().err


def test_a_device_is_added_listed_changed_and_removed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "add", "car", "car.local", KEY]) == 0
    assert main(["devices", "add", "arm", "10.0.0.7", KEY, "7400"]) == 0
    assert main(["devices", "add", "car", "10.0.0.8", KEY]) == 0
    assert main(["devices", "list"]) == 0
    lines = [line.split("\t")[:3] for line in capsys.readouterr().out.splitlines()]
    assert lines == [["arm", "10.0.0.7:7400", KEY], ["car", "10.0.0.8:7390", KEY]]
    assert main(["devices", "remove", "car"]) == 0
    assert refused(capsys, "devices", "remove", "car") == (78, "reflexctl: car: no such device; devices: arm\n")


@pytest.mark.parametrize(
    ("name", "host", "key", "port"),
    [
        ("Car", "10.0.0.7", KEY, "7390"),
        ("a.b", "10.0.0.7", KEY, "7390"),
        ("car", 'x"\nkey = "y', KEY, "7390"),
        ("car", "no such host", KEY, "7390"),
        ("car", "", KEY, "7390"),
        ("car", "10.0.0.7", KEY[:39], "7390"),
        ("car", "10.0.0.7", '"' * 40, "7390"),
        ("car", "10.0.0.7", KEY, "0"),
        ("car", "10.0.0.7", KEY, "65535"),
    ],
)
def test_what_cannot_be_a_device_is_refused_and_the_others_stay(
    home: Path, capsys: pytest.CaptureFixture[str], name: str, host: str, key: str, port: str
) -> None:
    assert main(["devices", "add", "arm", "10.0.0.7", KEY]) == 0
    before = (home / "devices.toml").read_bytes()
    status, said = refused(capsys, "devices", "add", name, host, key, port)
    assert (status, said.startswith("reflexctl: ")) == (78, True), said
    assert (home / "devices.toml").read_bytes() == before


def test_a_file_of_devices_that_is_wrong_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home.mkdir()
    (home / "devices.toml").write_text("[devices.car]\nhost = 3\n")
    status, said = refused(capsys, "devices", "list")
    assert status == 78
    assert f"{home / 'devices.toml'}: Expected `str`, got `int`" in said


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--device", "car"], "car: no such device; devices: none"),
        (["--all"], "no device has a name yet: reflexctl devices add"),
        (["--host", "10.0.0.7"], "--host needs --server-key"),
        (["--host", "10.0.0.7", "--server-key", "short"], "--host, --port, --server-key or --key: Expected `str`"),
        (["--host", "10.0.0.7", "--server-key", KEY, "--port", "70000"], "Expected `int` <= 65534"),
        (["--server-key", KEY], "--server-key goes with --host"),
        ([], "no daemon with a [gateway] runs here: --device NAME, --runtime DIR or --host HOST"),
        (["--host", "10.0.0.7", "--server-key", KEY], "client.key: cannot read a key here: No such file"),
    ],
)
def test_a_choice_that_means_nobody_is_refused_with_what_to_do(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str], expected: str
) -> None:
    status, said = refused(capsys, *words, "status")
    assert (status, expected in said) == (78, True), said


def test_nobody_at_an_address_is_told_in_time(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new_key(home / "client.key")
    port = str(free_port())
    began = time.monotonic()
    status, said = refused(capsys, "--host", "127.0.0.1", "--port", port, "--server-key", KEY, "status")
    assert status == os.EX_UNAVAILABLE
    assert f"127.0.0.1: reflexctl: nobody at tcp://127.0.0.1:{port} within 2 s" in said
    assert time.monotonic() - began < 3


def test_a_key_that_cannot_be_used_keeps_a_stop_from_no_other_device(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new_key(home / "client.key")
    new_key(home / "open.key")
    (home / "open.key").chmod(0o644)
    assert main(["--key", str(home / "open.key"), "devices", "add", "car", "127.0.0.1", KEY, str(free_port())]) == 0
    assert main(["devices", "add", "arm", "127.0.0.1", KEY, str(free_port())]) == 0
    status, said = refused(capsys, "--all", "estop")
    assert status == 78
    assert "arm: reflexctl: nobody at tcp://127.0.0.1:" in said
    assert f"car: reflexctl: {home / 'open.key'}: mode 0644 lets others read the secret: chmod 600" in said
    status, said = refused(capsys, "--key", str(home / "client.key"), "--all", "estop")
    assert (status, "car: reflexctl: nobody at" in said) == (os.EX_UNAVAILABLE, True), said


@pytest.mark.parametrize("words", [["logs"], ["telemetry"], ["top"], ["snapshot", "cam"]])
def test_what_can_be_done_with_one_device_is_not_done_with_all(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    for name in ("arm", "car"):
        main(["devices", "add", name, "127.0.0.1", KEY])
    status, said = refused(capsys, "--all", *words)
    assert (status, "one device at a time: --device NAME instead of --all" in said) == (78, True), said
