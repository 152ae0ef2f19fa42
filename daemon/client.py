"""A client of a device's gateway, for programs: ``with Client("ipc:///run/user/1000/reflexd/car") as client: ...``.

Nothing is done twice and nothing is left open: a request that has no reply in time is asked about under its id until it
is known that it was carried out, or that it will never be. Where the gateway was started anew meanwhile nobody knows,
and :class:`Unknown` says so.
"""

from __future__ import annotations

import os
import socket as sockets
import struct
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

import msgspec
import zmq

from daemon.keys import KeyPair
from daemon.remote import (
    ANSWERS,
    STREAM,
    Anything,
    ClientHello,
    GatewayWelcome,
    Reply,
    Request,
    StreamMark,
    StreamName,
    StreamRecord,
    tcp_addresses,
)
from daemon.wire import WireError, decode, encode

TIMEOUT_S = 2.0
"""How long a request may take before it must not begin any more."""
GRACE_S = 1.0
"""After that, how long a client asks what became of it."""
TRY_S = 0.3
"""How long one try waits before it comes by a new connection; also the pause after a handshake that failed, which costs
the device a millisecond each."""
LEARN_EVERY_S = 60.0
"""Age of what is known of the device's clock: two clocks part by some parts in 10,000, and by all the time for which
this machine sleeps."""
HANDSHAKES = 3
"""Failed handshakes after which the keys are taken to be wrong."""
_HANDSHAKE_FAILED = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
_HANDSHAKE_EVENTS = _HANDSHAKE_FAILED | zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_SUCCEEDED
_EVENTS = _HANDSHAKE_EVENTS | zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED


class RemoteError(OSError):
    """A request that was not carried out, or of which that is not known; the text says which, why, and what to do."""


class NoGateway(RemoteError):
    """Nobody answered, or not as a gateway does. Nothing was done."""


class NotLetIn(NoGateway):
    """Somebody is there, and the keys do not fit. Nothing was done."""


class Refused(RemoteError):
    """The gateway refused the request, or an actuator did. Nothing was done.

    Attributes:
        reply: what came back.
    """

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.detail)
        self.reply = reply


class Unknown(RemoteError):
    """The request may have been carried out, and this cannot be found out any more: look at the state."""


class Address(msgspec.Struct, frozen=True):
    """Where a gateway is: two ZeroMQ addresses, and over a network the keys.

    Attributes:
        requests, stream: addresses.
        server: public key of the device; empty on this machine.
        client: this client's key pair.
    """

    requests: str
    stream: str
    server: str = ""
    client: KeyPair | None = None

    @classmethod
    def local(cls, folder: str) -> Address:
        """Of a daemon on this machine, by its runtime folder."""
        return cls(f"ipc://{folder}/requests@gateway", f"ipc://{folder}/stream@gateway")

    @classmethod
    def remote(cls, host: str, port: int, server: str, client: KeyPair) -> Address:
        """Of a device in the network."""
        return cls(*tcp_addresses(host, port), server, client)

    def open(self, context: zmq.Context[zmq.Socket[bytes]], kind: int) -> zmq.Socket[bytes]:
        """A socket with keys and limits, not yet connected.

        Raises:
            NoGateway: the server key is none.
        """
        socket: zmq.Socket[bytes] = context.socket(kind)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.IMMEDIATE, 1)
        socket.setsockopt(zmq.IPV6, "[" in self.requests)
        socket.setsockopt(zmq.MAXMSGSIZE, ANSWERS.max_bytes)
        socket.setsockopt(zmq.RECONNECT_IVL, 50)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 500)
        if self.server and self.client is not None:
            try:
                with _usable(f"server key {self.server!r}"):
                    socket.curve_serverkey = self.server.encode()
            except NoGateway:
                socket.close(0)
                raise
            socket.curve_publickey = self.client.public.encode()
            socket.curve_secretkey = self.client.secret.encode()
        return socket

    @staticmethod
    def connect(socket: zmq.Socket[bytes], where: str) -> None:
        """Begin to connect.

        Raises:
            NoGateway: no gateway can have such an address.
        """
        with _usable(where):
            socket.connect(where)


@contextmanager
def _usable(what: str) -> Iterator[None]:
    """What ZeroMQ does not take is told in words."""
    try:
        yield
    except zmq.ZMQError as error:
        why = os.strerror(error.errno or 0)
        raise NoGateway(f"{what}: no gateway can have this: {why}: nothing was done") from None


class _Line:
    """One connection for requests, with what becomes of its handshake."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: Address) -> None:
        self.socket = address.open(context, zmq.DEALER)
        self._monitor: zmq.Socket[bytes] = self.socket.get_monitor_socket(_EVENTS)
        try:
            address.connect(self.socket, address.requests)
        except NoGateway:
            self.close()
            raise
        self.connected = self.failed = self.shaken = False

    def send(self, data: bytes, until_s: float) -> bool:
        """Send as soon as the gateway is there; False: it is not."""
        while True:
            self._look()
            if self.shaken or not self._encrypted():
                try:
                    self.socket.send(data, zmq.NOBLOCK)
                except zmq.Again:
                    pass
                else:
                    return True
            if self.failed or time.monotonic() >= until_s:
                return False
            self._monitor.poll(20)

    def receive(self, until_s: float) -> bytes | None:
        """The next answer; None: none in time."""
        wait_ms = max(0, round((until_s - time.monotonic()) * 1e3))
        return self.socket.recv() if self.socket.poll(wait_ms) else None

    def close(self) -> None:
        """Close it; what comes later is dropped."""
        self.socket.disable_monitor()
        self._monitor.close(0)
        self.socket.close(0)

    def _encrypted(self) -> bool:
        return bool(self.socket.getsockopt(zmq.MECHANISM) == zmq.CURVE)

    def _look(self) -> None:
        while self._monitor.poll(0):
            # As zmq.utils.monitor does it, whose import brings asyncio: a sixth of the start of `reflexctl estop`.
            event, _ = struct.unpack("=hi", self._monitor.recv_multipart(zmq.NOBLOCK)[0])
            self.connected |= event == zmq.EVENT_CONNECTED
            self.shaken |= event == zmq.EVENT_HANDSHAKE_SUCCEEDED
            failed = event & (_HANDSHAKE_FAILED | zmq.EVENT_HANDSHAKE_FAILED_AUTH)
            # Without keys there are none that do not fit: what breaks off was stopped, and ZeroMQ comes again.
            if self._encrypted() and (failed or (event == zmq.EVENT_DISCONNECTED and not self.shaken)):
                self.failed = True


class Client:
    """Asks one gateway, one request after the other. Not for several threads.

    Args:
        address: where it is.
        who: names person and program in the device's log.
    """

    def __init__(self, address: Address, who: str = "") -> None:
        self._address, self._who = address, who or _who()
        self._context = zmq.Context()
        self._line: _Line | None = None
        self._pause_until_s = 0.0
        self._ahead_ns, self._learned_s = 0, 0.0
        self.welcome: GatewayWelcome | None = None
        """What the gateway said of itself last."""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._drop_line()
        self._context.destroy(linger=0)

    def hello(self, timeout_s: float = TIMEOUT_S) -> GatewayWelcome:
        """Learn who the gateway is and what this client may.

        Raises:
            NoGateway: nobody answered.
            NotLetIn: the keys do not fit.
        """
        until_s = time.monotonic() + timeout_s
        failed, connected = 0, False
        while time.monotonic() < until_s and failed < HANDSHAKES:
            line = self._open_line()
            welcome = self._say_hello(line, min(until_s, time.monotonic() + max(TRY_S, timeout_s / 3)))
            if welcome is not None:
                self.welcome = welcome
                return welcome
            failed, connected = failed + 1 if line.failed else 0, connected or line.connected
            self._drop_line()
        raise self._absent(failed > 0, connected, timeout_s)

    def ask(self, ask: Anything, timeout_s: float = TIMEOUT_S, identity: str = "") -> Reply:
        """Have something done, once, and return the reply, whose status is ``done`` or ``partial``.

        Args:
            ask: what.
            timeout_s: it does not begin after this.
            identity: id of the request, by default a new one.

        Raises:
            NoGateway, NotLetIn: nobody answered; nothing was done.
            Refused: nothing was done; the text says why.
            Unknown: it may have been done.
        """
        until_s, fresh = time.monotonic() + timeout_s, uuid.uuid4().hex
        while True:
            if self.welcome is None or self._line is None or _passed_s() > self._learned_s + LEARN_EVERY_S:
                self.hello(max(TRY_S, until_s - time.monotonic()))
            reply = self._exchange(self._request(ask, identity or fresh, until_s), until_s)
            # Otherwise the gateway was started anew since the last request: nothing of this one was done before.
            if reply.reason != "epoch" or identity or time.monotonic() >= until_s:
                break
        if reply.status == "unknown":
            raise Unknown(reply.detail)
        if reply.status == "refused":
            raise Refused(reply)
        return reply

    def _request(self, ask: Anything, identity: str, until_s: float) -> Request:
        assert self.welcome is not None  # noqa: S101 - hello has it, or has raised
        left_ns = max(0, round((until_s - time.monotonic()) * 1e9))
        expires_ns = time.monotonic_ns() + self._ahead_ns + left_ns
        return Request(id=identity, epoch=self.welcome.epoch, expires_ns=expires_ns, ask=ask)

    def _exchange(self, request: Request, until_s: float) -> Reply:
        """Send the request until there is a reply to it."""
        data, sent = encode(request), False
        while time.monotonic() < until_s + GRACE_S:
            line = self._open_line()
            try_until_s = time.monotonic() + TRY_S
            if not line.send(data, try_until_s):
                self._drop_line()
                continue
            reply = self._await(line, request.id, max(try_until_s, until_s) if not sent else try_until_s)
            if reply is not None and reply.reason == "epoch":
                self.welcome = None
                if sent:
                    raise Unknown("the gateway was started anew while it had this request: look at the state")
            if reply is not None:
                return reply
            sent = True
            self._drop_line()
        self.welcome = None
        if sent:
            raise Unknown("no reply, and the gateway cannot be asked any more: look at the state")
        raise NoGateway(f"no answer from {self._address.requests}: nothing was done")

    def _await(self, line: _Line, identity: str, until_s: float) -> Reply | None:
        """The reply with this id; others are late ones and dropped."""
        while (data := line.receive(until_s)) is not None:
            message = self._decode(data)
            if isinstance(message, Reply) and message.id in (identity, ""):
                return message
        return None

    def _say_hello(self, line: _Line, until_s: float) -> GatewayWelcome | None:
        if not line.send(encode(ClientHello(who=self._who)), until_s):
            return None
        while (data := line.receive(until_s)) is not None:
            message = self._decode(data)
            if isinstance(message, GatewayWelcome):
                # Its clock then lies between the two: the earlier makes a request expire sooner, never later.
                self._ahead_ns, self._learned_s = message.now_ns - time.monotonic_ns(), _passed_s()
                return message
            if isinstance(message, Reply) and not message.id:  # otherwise a late one
                raise Refused(message)
        return None

    def _decode(self, data: bytes) -> object:
        try:
            return decode(data, ANSWERS)
        except WireError as error:
            where = self._address.requests
            raise NoGateway(f"{where} answers in a way this build does not know: {error}") from None

    def _absent(self, failed: bool, connected: bool, timeout_s: float) -> NoGateway:
        where = self._address.requests
        if failed:
            return NotLetIn(
                f"{where} is there, and the keys do not fit: this client's key is not trusted there (reflexctl keys "
                "trust, on the device), or the device has another key than the one given"
            )
        if connected:
            return NoGateway(f"{where} is there and does not answer within {timeout_s:.2g} s: is it a reflexd gateway?")
        return NoGateway(f"nobody at {where} within {timeout_s:.2g} s: does the daemon run, with a [gateway] table?")

    def _open_line(self) -> _Line:
        if self._line is None:
            time.sleep(max(0.0, self._pause_until_s - time.monotonic()))
            self._line = _Line(self._context, self._address)
        return self._line

    def _drop_line(self) -> None:
        if self._line is not None:
            self._pause_until_s = time.monotonic() + TRY_S if self._line.failed else 0.0
            self._line.close()
            self._line = None


class Listener:
    """The records of streams as they come. What is missed is told by its numbers: see :mod:`daemon.follow`.

    It comes back by itself to a gateway that was away, not to one that did not let it in: ZeroMQ gives up then, and
    nothing is heard, as :meth:`Client.hello` can tell the reason of. Open another one.

    Args:
        address: where the gateway is.
        streams: which of them.

    Raises:
        NoGateway: no gateway can have such an address or key.
    """

    def __init__(self, address: Address, streams: list[StreamName]) -> None:
        self._context = zmq.Context()
        try:
            self._socket = address.open(self._context, zmq.SUB)
            self._socket.setsockopt(zmq.RCVHWM, STREAM.queue)
            for name in streams:
                self._socket.setsockopt(zmq.SUBSCRIBE, name.encode())
            address.connect(self._socket, address.stream)
        except NoGateway:
            self._context.destroy(linger=0)
            raise

    def receive(self, timeout_s: float) -> Iterator[StreamRecord | StreamMark]:
        """What has come, after waiting that long for the first."""
        if not self._socket.poll(round(timeout_s * 1e3)):
            return
        while True:
            try:
                parts = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            message = decode(parts[-1], STREAM)
            if isinstance(message, StreamRecord | StreamMark):
                yield message

    def close(self) -> None:
        """Close the connection."""
        self._socket.close(0)
        self._context.destroy(linger=0)


def _passed_s() -> float:
    """A clock that also goes on while the machine sleeps, where it has one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _who() -> str:
    user = os.environ.get("USER") or f"uid {os.getuid()}"
    return f"{user[:64]} on {sockets.gethostname()[:64]}"
