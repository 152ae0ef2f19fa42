"""Which gateway is meant: a daemon on this machine, or a device by name with its address and keys."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import msgspec

from daemon.client import Address
from daemon.config import DEFAULT_PORT
from daemon.keys import PublicKey, read_key
from daemon.messages import Name
from daemon.operate import running_daemons
from daemon.section import Section


class Device(Section, frozen=True, kw_only=True):
    """``[devices.NAME]``: host, port, public key of the device, and the file with this client's key pair."""

    host: str
    port: int = DEFAULT_PORT
    server: PublicKey
    key: str = ""


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
    """Name these devices and no others."""
    tables = []
    for name, device in sorted(devices.items()):
        lines = [f"[devices.{name}]", f'host = "{device.host}"', f"port = {device.port}", f'server = "{device.server}"']
        tables.append("\n".join([*lines, *([f'key = "{device.key}"'] if device.key else []), ""]))
    path = _path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    fresh.write_text("\n".join(tables), encoding="utf-8")
    fresh.replace(path)


def chosen(options: argparse.Namespace) -> dict[str, Address]:
    """The gateways that the options mean, by the names to show; without any option the one on this machine.

    Raises:
        DeviceError: none, or several without a choice.
        KeyFileError: a key that cannot be used.
    """
    if options.host:
        if not options.server_key:
            raise DeviceError(
                "--host needs --server-key: it is in the device's log, and `reflexctl keys show` prints it there"
            )
        device = Device(host=options.host, port=options.port, server=options.server_key, key=options.key or "")
        return {options.host: _remote(device)}
    if options.all:
        return {name: _remote(device) for name, device in _some(read_devices()).items()}
    if options.device:
        devices = read_devices()
        if options.device not in devices:
            raise DeviceError(f"{options.device}: no such device; devices: {', '.join(sorted(devices)) or 'none'}")
        return {options.device: _remote(devices[options.device])}
    return {"": Address.local(str(options.runtime or _only_local()))}


def _some(devices: dict[str, Device]) -> dict[str, Device]:
    if not devices:
        raise DeviceError("no device has a name yet: reflexctl devices add NAME HOST SERVER_KEY")
    return devices


def _remote(device: Device) -> Address:
    pair = read_key(Path(device.key).expanduser() if device.key else default_key())
    return Address.remote(device.host, device.port, device.server, pair)


def _only_local() -> Path:
    running = [folder for folder in running_daemons() if (folder / "requests@gateway").is_socket()]
    if len(running) == 1:
        return running[0]
    if not running:
        raise DeviceError("no daemon with a [gateway] runs here: --device NAME, --runtime DIR or --host HOST")
    raise DeviceError(f"several daemons run here, choose one with --runtime: {', '.join(map(str, running))}")


def _path() -> Path:
    return config_folder() / "devices.toml"
