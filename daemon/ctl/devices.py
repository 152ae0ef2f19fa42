"""Which gateway is meant: a daemon on this machine, or a device by name with its address and keys."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Annotated

import msgspec

from daemon.client import Address
from daemon.config import DEFAULT_PORT
from daemon.keys import PublicKey, read_key
from daemon.messages import Name
from daemon.operate import running_daemons
from daemon.section import Section
from daemon.wholefile import replace_file

Host = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z._-]+\Z", max_length=255)]
"""A name or an IPv4 address."""
Port = Annotated[int, msgspec.Meta(ge=1, le=65534)]
FileName = Annotated[str, msgspec.Meta(pattern=r'^[^"\\\x00-\x1f]*\Z')]


class Device(Section, frozen=True, kw_only=True):
    """``[devices.NAME]``: host, port, public key of the device, and the file with this client's key pair."""

    host: Host
    port: Port = DEFAULT_PORT
    server: PublicKey
    key: FileName = ""

    def address(self) -> Address:
        """Where its gateway is.

        Raises:
            KeyFileError: this client's key cannot be used.
        """
        pair = read_key(Path(self.key).expanduser() if self.key else default_key())
        return Address.remote(self.host, self.port, self.server, pair)


class Local(msgspec.Struct, frozen=True):
    """A daemon on this machine, by its runtime folder."""

    folder: Path

    def address(self) -> Address:
        """Where its gateway is."""
        return Address.local(str(self.folder))


Place = Device | Local


class _File(Section, frozen=True, kw_only=True):
    devices: dict[Name, Device] = msgspec.field(default_factory=dict)


class DeviceError(ValueError):
    """It is not clear, or not possible to know, which gateway is meant; the text says what to do."""


def config_folder() -> Path:
    """Where this user's devices and keys are."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "reflexd"


def default_key() -> Path:
    """The key pair of this user's client."""
    return config_folder() / "client.key"


def read_devices() -> dict[str, Device]:
    """The devices this user has named.

    Raises:
        DeviceError: the file is not as it should be.
    """
    path = _path()
    try:
        return msgspec.toml.decode(path.read_bytes(), type=_File).devices
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise DeviceError(f"{path}: {error}") from None


def write_devices(devices: dict[str, Device]) -> None:
    """Name these devices and no others.

    Raises:
        DeviceError: one of them has a name or an address that no device can have; nothing was written.
    """
    path = _path()
    try:
        devices = msgspec.convert(msgspec.to_builtins(devices), dict[Name, Device])
    except msgspec.ValidationError as error:
        raise DeviceError(f"{path} was not changed: {error}") from None
    tables = []
    for name, device in sorted(devices.items()):
        lines = [f"[devices.{name}]", f'host = "{device.host}"', f"port = {device.port}", f'server = "{device.server}"']
        tables.append("\n".join([*lines, *([f'key = "{device.key}"'] if device.key else []), ""]))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(path, "\n".join(tables).encode())


def chosen(options: argparse.Namespace) -> dict[str, Place]:
    """The daemons that the options mean, by the names to show; without any option the one on this machine.

    Raises:
        DeviceError: none, or several without a choice.
    """
    if options.server_key and not options.host:
        raise DeviceError("--server-key goes with --host; a device with a name has its own")
    if options.host:
        return {options.host: _unnamed(options)}
    if options.all:
        return {name: _with_key(device, options.key) for name, device in _some(read_devices()).items()}
    if options.device:
        devices = read_devices()
        if options.device not in devices:
            raise DeviceError(f"{options.device}: no such device; devices: {', '.join(sorted(devices)) or 'none'}")
        return {options.device: _with_key(devices[options.device], options.key)}
    return {"": Local(options.runtime or _only_local())}


def only_one(options: argparse.Namespace) -> Address:
    """The gateway that is meant, for what can be done with one at a time.

    Raises:
        DeviceError: none or several; KeyFileError: a key that cannot be used.
    """
    places = chosen(options)
    if len(places) > 1:
        raise DeviceError("one device at a time: --device NAME instead of --all")
    (place,) = places.values()
    return place.address()


def _unnamed(options: argparse.Namespace) -> Device:
    if not options.server_key:
        raise DeviceError(
            "--host needs --server-key: it is in the device's log, and `reflexctl keys show` prints it there"
        )
    given = {"host": options.host, "port": options.port, "server": options.server_key, "key": options.key or ""}
    try:
        return msgspec.convert(given, Device)
    except msgspec.ValidationError as error:
        raise DeviceError(f"--host, --port, --server-key or --key: {error}") from None


def _with_key(device: Device, key: str | None) -> Device:
    return msgspec.structs.replace(device, key=key) if key else device


def _some(devices: dict[str, Device]) -> dict[str, Device]:
    if not devices:
        raise DeviceError("no device has a name yet: reflexctl devices add NAME HOST SERVER_KEY")
    return devices


def _only_local() -> Path:
    running = [folder for folder in running_daemons() if (folder / "requests@gateway").is_socket()]
    if len(running) == 1:
        return running[0]
    if not running:
        raise DeviceError("no daemon with a [gateway] runs here: --device NAME, --runtime DIR or --host HOST")
    raise DeviceError(f"several daemons run here, choose one with --runtime: {', '.join(map(str, running))}")


def _path() -> Path:
    return config_folder() / "devices.toml"
