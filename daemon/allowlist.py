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
    return _parse(path, data)


def write_allow_list(path: Path, clients: dict[str, Trusted]) -> None:
    """Write the allow-list whole or not at all. Owner and mode stay; those of a new file are for the folder's owner.

    Raises:
        AllowListError: it would not be read again: nobody would be let in any more.
        OSError: not possible. What was there before is untouched, as with the other.
    """
    tables = []
    for name, client in sorted(clients.items()):
        frames = str(client.frames).lower()
        tables.append(f'[clients.{name}]\nkey = "{client.key}"\nrole = "{client.role}"\nframes = {frames}\n')
    data = "\n".join(tables).encode()
    _parse(path, data)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    like = path.stat() if path.exists() else path.parent.stat()
    mode = stat.S_IMODE(like.st_mode) & 0o644 if path.exists() else 0o600
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(descriptor, mode)
            if os.geteuid() == 0:  # it is for the daemon, whose file or folder this is
                os.fchown(descriptor, like.st_uid, like.st_gid)
            os.fsync(descriptor)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def _parse(path: Path, data: bytes) -> dict[str, Trusted]:
    try:
        clients = msgspec.toml.decode(data, type=_File).clients
    except (ValueError, msgspec.MsgspecError) as error:
        raise AllowListError(f"{path}: {error}") from None
    names: dict[str, str] = {}
    for name, client in clients.items():
        if names.setdefault(client.key, name) != name:
            raise AllowListError(f"{path}: {names[client.key]} and {name} have the same key: whose word is it then?")
    return clients


def allow_list(path: Path, config: Config, state: Path) -> Path:
    """The allow-list of a daemon, by its configuration file, what is in it, and its state folder."""
    named = config.gateway.clients if config.gateway is not None else ""
    return path.parent / named if named else state / "clients.toml"
