"""Who may come in from another machine: the allow-list, read anew whenever its file changes."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from daemon.allowlist import AllowListError, read_allow_list
from daemon.remote import ROLES, Role

logger = logging.getLogger(__name__)


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
