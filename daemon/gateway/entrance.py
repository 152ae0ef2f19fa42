"""All doors of a gateway and who may come in by them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import zmq

from daemon.allowlist import KEY_FILE
from daemon.config import ConfigError, Gateway
from daemon.gateway.clients import LOCAL, AllowList, Client
from daemon.gateway.doors import Asked, Door, Doorkeeper
from daemon.keys import KeyFileError, read_or_make_key
from daemon.messages import Message
from daemon.process import Ready
from daemon.remote import Reply, StreamName, tcp_addresses
from daemon.runtime import RuntimeFolder
from daemon.wire import encode

logger = logging.getLogger(__name__)

REQUESTS_PER_TURN = 32


class Entrance:
    """The local door, and the one from the network if the configuration has one.

    Args:
        table: says where to listen.
        runtime: has the local sockets, and the device's key in its state folder.
        name: of this process.
        allow_list: file of the clients that are trusted.
        poller: gets the sockets.

    Raises:
        ConfigError: a key that cannot be used.
        BusError: an endpoint cannot be bound.
    """

    def __init__(self, table: Gateway, runtime: RuntimeFolder, name: str, allow_list: Path, poller: zmq.Poller) -> None:
        self._context = zmq.Context()
        self._allowed = AllowList(allow_list)
        self._doorkeeper: Doorkeeper | None = None
        requests, stream = (runtime.endpoint(end, name) for end in ("requests", "stream"))
        self._doors = [Door(self._context, requests, stream, None), *self._from_network(table, runtime.state)]
        self.dropped = Counter[str]()
        """What was not let in, or not any further, by reason."""
        for door in self._doors:
            for each in (door.requests, *door.monitors):
                poller.register(each, zmq.POLLIN)

    def receive(self, ready: Ready) -> Iterator[tuple[Asked, Client]]:
        """What has been asked, and by whom."""
        for door in self._doors:
            if any(monitor in ready for monitor in door.monitors):
                door.take_failures()
            for _ in range(REQUESTS_PER_TURN if door.requests in ready else 0):
                asked = door.receive()
                if asked is None:
                    break
                client = self._allowed.find(asked.key) if asked.key else LOCAL
                if client is None:
                    self._turn_away(asked)
                else:
                    yield asked, client

    def publish(self, name: StreamName, message: Message) -> None:
        """Send a message to the subscribers of a stream."""
        data = encode(message)
        for door in self._doors:
            door.publish(name.encode(), data)

    def refresh(self) -> None:
        """Look whether the allow-list has changed; who is trusted less than before is cut off."""
        if self._allowed.refresh():
            logger.warning("the allow-list has changed: all clients from other machines must come in anew")
            for door in self._doors[1:]:
                door.reopen_stream()

    def counts(self) -> dict[str, int]:
        """:attr:`dropped` with the handshakes that failed."""
        for door in self._doors:
            self.dropped.update(door.refused)
            door.refused.clear()
        return dict(self.dropped)

    def close(self) -> None:
        """Close all doors."""
        for door in self._doors:
            door.close()
        if self._doorkeeper is not None:
            self._doorkeeper.close()
        self._context.destroy(linger=100)

    def _turn_away(self, asked: Asked) -> None:
        """The key was trusted when it came in."""
        self.dropped["revoked"] += 1
        reply = Reply(id="", status="refused", reason="role", detail="this key is not trusted any more")
        asked.door.reply(asked.peer, reply)

    def _from_network(self, table: Gateway, state: Path) -> list[Door]:
        if not table.listen:
            return []
        try:
            server = read_or_make_key(state / KEY_FILE)
        except KeyFileError as error:
            raise ConfigError(str(error)) from None
        self._doorkeeper = Doorkeeper(self._context, self._allowed)
        requests, stream = tcp_addresses(table.listen, table.port)
        logger.info("clients may come in by %s and %s; the key of this device is %s", requests, stream, server.public)
        return [Door(self._context, requests, stream, server)]
