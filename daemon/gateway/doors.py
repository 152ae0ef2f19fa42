"""Where clients come in: a pair of sockets, one for requests, one for the streams. ZeroMQ alone."""

from __future__ import annotations

import errno
import logging
import time
from collections import Counter

import msgspec
import zmq
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils.monitor import recv_monitor_message

from daemon.bus import BusError
from daemon.gateway.clients import AllowList
from daemon.keys import KeyPair
from daemon.messages import Message
from daemon.remote import ANSWERS, REQUESTS
from daemon.wire import encode

logger = logging.getLogger(__name__)

HANDSHAKE_MS = 2000
"""A client that has not finished its handshake by then is cut off."""
HEARTBEAT_MS = 2000
"""A connection that says nothing for three of these is closed: its client may be gone without a word."""
STREAM_QUEUE = 2000
"""Records kept for a subscriber that reads slowly; it fills the gap from the book."""
Context = zmq.Context[zmq.Socket[bytes]]

REBIND_S = 2.0
"""How long a port is tried for that was closed a moment ago: ZeroMQ closes it in a thread of its own."""
_LOG_EVERY_NS = 10_000_000_000
_DOMAIN = "reflexd"
_STRANGERS = 100
"""Unknown keys named in the log; their number is in their hands."""


class Asked(msgspec.Struct, frozen=True):
    """A message as it came in; ``key`` is the public key of a client from another machine."""

    door: Door
    peer: bytes
    key: str
    data: bytes


class Door:
    """A ROUTER and a PUB.

    Args:
        context: they live in; closed by its owner.
        server: key pair of the device, for CURVE; None for the local door.
    """

    def __init__(self, context: Context, requests: str, stream: str, server: KeyPair | None) -> None:
        self._context, self._server = context, server
        self._stream_address = stream
        self._remote = server is not None
        self.requests = self._open(zmq.ROUTER, requests)
        self.stream = self._open(zmq.PUB, stream)
        self.refused = Counter[str]()
        """Handshakes that failed, by reason."""
        self._monitors = [self.requests.get_monitor_socket(_FAILURES)] if self._remote else []
        self._said_ns = 0

    @property
    def monitors(self) -> list[zmq.Socket[bytes]]:
        """Readable when a handshake has failed."""
        return list(self._monitors)

    def receive(self) -> Asked | None:
        """The next request, or None; does not wait."""
        try:
            frames = self.requests.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return None
        key = str(frames[-1].get("User-Id")) if self._remote else ""
        data = frames[1].bytes if len(frames) == 2 else b""
        return Asked(self, frames[0].bytes, key, data)

    def reply(self, peer: bytes, message: Message) -> None:
        """Answer; a client that has gone or reads nothing is not waited for."""
        try:
            self.requests.send_multipart([peer, encode(message)], zmq.NOBLOCK)
        except zmq.Again:
            logger.warning("a client does not read its replies: one is dropped")

    def publish(self, name: bytes, data: bytes) -> None:
        """Send a message to the stream's subscribers."""
        self.stream.send_multipart([name, data], zmq.NOBLOCK)

    def reopen_stream(self) -> None:
        """Cut all subscribers off; those still trusted come back by themselves, and fill the gap."""
        self.stream.close(0)
        self.stream = self._open(zmq.PUB, self._stream_address)

    def take_failures(self) -> None:
        """Count handshakes that have failed, and say so now and then."""
        for monitor in self._monitors:
            while monitor.poll(0):
                event = recv_monitor_message(monitor, zmq.NOBLOCK)
                reason = _FAILURES_TEXT[zmq.Event(event["event"])]
                self.refused[reason] += 1
                now_ns = time.monotonic_ns()
                if now_ns - self._said_ns > _LOG_EVERY_NS:
                    self._said_ns = now_ns
                    logger.warning("a client was not let in: %s (%d times so far)", reason, self.refused[reason])

    def close(self) -> None:
        """Close the sockets."""
        if self._monitors:
            self.requests.disable_monitor()
        for socket in (self.requests, self.stream):
            socket.close(100)

    def _open(self, kind: int, address: str) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        socket.setsockopt(zmq.LINGER, 100)
        socket.setsockopt(zmq.MAXMSGSIZE, REQUESTS.max_bytes)
        socket.setsockopt(zmq.SNDHWM, STREAM_QUEUE if kind == zmq.PUB else ANSWERS.queue)
        socket.setsockopt(zmq.RCVHWM, REQUESTS.queue)
        if self._server is not None:
            socket.setsockopt(zmq.IPV6, "[" in address)
            socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
            socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
            socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 3 * HEARTBEAT_MS)
            socket.setsockopt(zmq.ZAP_DOMAIN, _DOMAIN.encode())
            socket.curve_server = True
            socket.curve_secretkey = self._server.secret.encode()
        _bind(socket, address)
        return socket


def _bind(socket: zmq.Socket[bytes], address: str) -> None:
    until_s = time.monotonic() + REBIND_S
    while True:
        try:
            socket.bind(address)
        except zmq.ZMQError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > until_s:
                socket.close(0)
                why = f"{address}: cannot bind: {error.strerror}: choose another [gateway] port"
                raise BusError(why) from None
            time.sleep(0.002)
        else:
            return


_FAILURES_TEXT = {
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL: "it broke the handshake off",
    zmq.Event.HANDSHAKE_FAILED_PROTOCOL: "no CURVE handshake, or one for another server key",
    zmq.Event.HANDSHAKE_FAILED_AUTH: "its key is not in the allow-list",
}
_FAILURES = sum(_FAILURES_TEXT)


class Doorkeeper:
    """Answers ZeroMQ's question whether a key may come in (ZAP, RFC 27 of ZeroMQ), in a thread of pyzmq's.

    Args:
        context: of the doors; to be had before they open.
        allowed: the allow-list.
    """

    def __init__(self, context: Context, allowed: AllowList) -> None:
        self._allowed = allowed
        self._strangers: set[str] = set()
        self._authenticator = ThreadAuthenticator(context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(_DOMAIN, self)

    def callback(self, _: str, key: bytes) -> bool:
        """Whether a client with this public key (Z85) may come in."""
        public = key.decode()
        if self._allowed.find(public) is not None:
            return True
        if public not in self._strangers and len(self._strangers) < _STRANGERS:
            self._strangers.add(public)
            logger.warning("a client was not let in: its key is not in the allow-list: %s", public)
        return False

    def close(self) -> None:
        """Stop answering."""
        self._authenticator.stop()
