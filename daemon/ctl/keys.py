"""``reflexctl keys``: this client's key pair, and on a device the keys it trusts."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from daemon.allowlist import KEY_FILE, Trusted, allow_list, read_allow_list, write_allow_list
from daemon.config import ConfigError, parse
from daemon.ctl.devices import default_key
from daemon.keys import KeyFileError, new_key, read_key
from daemon.messages import Name
from daemon.operate import folder_of
from daemon.runtime import SERVICES_CONFIG, SERVICES_RUNTIME, SERVICES_STATE, RuntimeFolder


def new(options: argparse.Namespace) -> int:
    """Make this client's key pair."""
    path = Path(options.key or default_key())
    print(f"{new_key(path).public}\npublic key of {path}; on the device: reflexctl keys trust NAME 'KEY' --role ROLE")
    return 0


def show(options: argparse.Namespace) -> int:
    """Print public keys: this client's, and the device's where a daemon is configured here."""
    found = _own_key(options) + _device_key(options)
    print(*found, sep="\n")
    return 0


def _own_key(options: argparse.Namespace) -> list[str]:
    path = Path(options.key or default_key())
    if not path.exists() and _config(options) is None:
        raise KeyFileError(f"{path}: no key yet: reflexctl keys new")
    return [f"{read_key(path).public}\tthis client ({path})"] if path.exists() else []


def _device_key(options: argparse.Namespace) -> list[str]:
    config = _config(options)
    if config is None:
        return []
    path = _state(config) / KEY_FILE
    if not path.exists():  # made here it would be this user's, and not the daemon's to read
        raise KeyFileError(
            f"{path}: no key yet: the gateway makes it when it first starts with gateway.listen ({config})"
        )
    return [f"{read_key(path).public}\tthe device ({config})"]


def trust(options: argparse.Namespace) -> int:
    """Let a client's key in, or change what it may."""
    path = _allow_list(options)
    clients = read_allow_list(path)
    given = {"key": options.public, "role": options.role, "frames": options.frames}
    write_allow_list(path, {**clients, **msgspec.convert({options.name: given}, dict[Name, Trusted])})
    frames = "may see frames" if options.frames else "may not see frames"
    print(f"{options.name} may {options.role} and {frames}: {path}; in force within a second")
    return 0


def revoke(options: argparse.Namespace) -> int:
    """Trust a client no more; it is cut off within a second."""
    path = _allow_list(options)
    clients = read_allow_list(path)
    if options.name not in clients:
        raise ConfigError(f"{path}: no client {options.name}; clients: {', '.join(sorted(clients)) or 'none'}")
    del clients[options.name]
    write_allow_list(path, clients)
    print(f"{options.name} is not trusted any more: {path}")
    return 0


def listing(options: argparse.Namespace) -> int:
    """Print who is trusted with what."""
    for name, client in sorted(read_allow_list(_allow_list(options)).items()):
        print(f"{name}\t{client.role}\t{'frames' if client.frames else 'no frames'}\t{client.key}")
    return 0


def _allow_list(options: argparse.Namespace) -> Path:
    config = _config(options)
    if config is None:
        raise ConfigError(f"no {SERVICES_CONFIG} here: --config CONFIG names the daemon whose clients are meant")
    return allow_list(config, parse(config), _state(config))


def _config(options: argparse.Namespace) -> Path | None:
    if options.config is not None:
        return Path(options.config).resolve()
    return SERVICES_CONFIG if SERVICES_CONFIG.exists() else None


def _state(config: Path) -> Path:
    """State folder of a daemon: a service's if that runs, or if it is the services' own configuration."""
    daemon = parse(config).daemon
    service = config == SERVICES_CONFIG or folder_of(daemon).parent == SERVICES_RUNTIME
    return SERVICES_STATE / daemon.name if service and not daemon.state else RuntimeFolder(daemon).state
