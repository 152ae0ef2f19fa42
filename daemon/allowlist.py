"""The allow-list: which keys of clients on other machines are trusted, and with what."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec

from daemon.config import Config
from daemon.keys import PublicKey
from daemon.messages import Name
from daemon.remote import Role
from daemon.section import Section

KEY_FILE = "gateway.key"
"""The device's own key pair, in the state folder."""


class Trusted(Section, frozen=True, kw_only=True):
    """``[clients.NAME]`` of the allow-list.

    Attributes:
        key: the client's public key.
        role: ``observe``, ``operate`` or ``admin``; each may do what those before it may.
        frames: it may see what the cameras see.
    """

    key: PublicKey
    role: Role
    frames: bool = False


class _File(Section, frozen=True, kw_only=True):
    clients: dict[Name, Trusted] = msgspec.field(default_factory=dict)


class AllowListError(ValueError):
    """An allow-list that cannot be used; the text says why and what to do."""


def read_allow_list(path: Path) -> dict[str, Trusted]:
    """The trusted clients by name; none if there is no file.

    Raises:
        AllowListError: others may write it, or it is not as it should be.
    """
    try:
        status = path.stat()
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise AllowListError(f"{path}: cannot read the allow-list: {error.strerror}") from None
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise AllowListError(f"{path}: others may write the allow-list: chmod 600 {path}")
    try:
        clients = msgspec.toml.decode(data, type=_File).clients
    except (ValueError, msgspec.MsgspecError) as error:
        raise AllowListError(f"{path}: {error}") from None
    if len({client.key for client in clients.values()}) != len(clients):
        raise AllowListError(f"{path}: two clients have the same key: whose word is it then?")
    return clients


def write_allow_list(path: Path, clients: dict[str, Trusted]) -> None:
    """Write the allow-list whole or not at all.

    Raises:
        OSError: not possible; what was there before is untouched.
    """
    tables = []
    for name, client in sorted(clients.items()):
        frames = str(client.frames).lower()
        tables.append(f'[clients.{name}]\nkey = "{client.key}"\nrole = "{client.role}"\nframes = {frames}\n')
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = path.parent.stat()
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write("\n".join(tables))
            file.flush()
            os.fsync(file.fileno())
        if os.geteuid() == 0:  # it is for the daemon, whose folder this is
            os.chown(fresh, owner.st_uid, owner.st_gid)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def allow_list(path: Path, config: Config, state: Path) -> Path:
    """The allow-list of a daemon, by its configuration file, what is in it, and its state folder."""
    named = config.gateway.clients if config.gateway is not None else ""
    return path.parent / named if named else state / "clients.toml"
