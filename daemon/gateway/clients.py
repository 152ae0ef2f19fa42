"""Who may come in from another machine: the allow-list, read anew whenever its file changes."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

import msgspec

from daemon.keys import PublicKey
from daemon.messages import Name
from daemon.remote import ROLES, Role
from daemon.section import Section

logger = logging.getLogger(__name__)


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


class Client(msgspec.Struct, frozen=True):
    """Somebody who asks."""

    name: str
    role: Role
    frames: bool

    def may(self, needs: Role) -> bool:
        """The role allows what needs ``needs``."""
        return ROLES.index(self.role) >= ROLES.index(needs)


LOCAL = Client("local", "admin", True)
"""Whoever can open the sockets in the runtime folder: its owner and root."""


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
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write("\n".join(tables))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


class AllowList:
    """The allow-list as it stands. While its file is wrong nobody is trusted."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] | None = None
        self._clients: dict[str, Client] = {}
        self.refresh()

    def refresh(self) -> bool:
        """Read the file again if it has changed; True if somebody is no longer trusted as before."""
        seen = self._stamp()
        if seen == self._seen:
            return False
        self._seen, before = seen, self._clients
        self._clients = self._read()
        return any(self._clients.get(key) != client for key, client in before.items())

    def find(self, key: str) -> Client | None:
        """Who has this public key; None: not trusted."""
        return self._clients.get(key)

    def _read(self) -> dict[str, Client]:
        try:
            found = read_allow_list(self._path)
        except AllowListError as error:
            logger.error("no client from another machine is let in: %s", error)
            return {}
        logger.info("%s: %d clients: %s", self._path, len(found), ", ".join(sorted(found)) or "none")
        return {trusted.key: Client(name, trusted.role, trusted.frames) for name, trusted in found.items()}

    def _stamp(self) -> tuple[int, ...] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
