"""ZeroMQ links built from the TOPICS table: finite linger, bounded queues, checked messages, counted refusals."""

from __future__ import annotations

import logging
import stat
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import zmq
from zmq import zmq_poll

from daemon.messages import DESKS, REPLIES, TOPICS, Message, Topic
from daemon.runtime import RuntimeFolder
from daemon.wire import WireError, decode, encode

logger = logging.getLogger(__name__)

LINGER_MS = 100
"""How long a closing socket may try to get its last messages out: stopping stays bounded whoever is absent."""
_READABLE = int(zmq.POLLIN)
RECONNECT_MS = 20
"""Pause before an absent peer is tried again; ZeroMQ adds up to as much by chance. It never grows: at the start of a
run, and after a restart, the first frame and the first action wait for it."""
AT_ONCE = 256
"""Messages taken from a socket in one go; a flood waits for the next turn, and the loop's other work goes on."""


class BusError(OSError):
    """An endpoint that cannot be bound; the text names it and what is in the way."""


class Bus:
    """The sockets of one process; closing it closes them all.

    Args:
        runtime: names the endpoints.
    """

    def __init__(self, runtime: RuntimeFolder) -> None:
        self._runtime = runtime
        self._context = zmq.Context()
        self._sockets: list[zmq.Socket[bytes]] = []
        self._bound: list[Path] = []
        self.refused: Counter[str] = Counter()
        """Messages not accepted, per link."""

    def __enter__(self) -> Bus:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for socket in self._sockets:
            socket.close(LINGER_MS)
        self._context.term()
        for path in self._bound:  # ZeroMQ leaves them there: commands would ask actuators that are gone
            path.unlink(missing_ok=True)

    def publisher(self, topic: str, instance: str) -> Publisher:
        """The sending end of a topic's instance."""
        kind = zmq.XPUB if TOPICS[topic].welcome else zmq.PUB
        return Publisher(self._open(kind, TOPICS[topic], "publisher", topic, instance), TOPICS[topic])

    def subscriber(self, topic: str, instance: str) -> Subscriber:
        """The receiving end of a topic's instance."""
        socket = self._open(zmq.SUB, TOPICS[topic], "subscriber", topic, instance)
        socket.setsockopt(zmq.SUBSCRIBE, b"")
        return Subscriber(self, socket, TOPICS[topic], f"{topic}@{instance}")

    def command_server(self, desk: str, instance: str) -> CommandServer:
        """Where a process takes its commands; ``desk`` is one of :data:`daemon.messages.DESKS`."""
        socket = self._open(zmq.ROUTER, DESKS[desk], "subscriber", desk, instance)
        return CommandServer(self, socket, DESKS[desk], f"{desk}@{instance}")

    def command_client(self, desk: str, instance: str) -> CommandClient:
        """A commander of such a process."""
        return CommandClient(self._open(zmq.DEALER, DESKS[desk], "publisher", desk, instance))

    def command_link(self, desk: str, instance: str) -> CommandLink:
        """The same, for a commander that has other things to do than wait."""
        socket = self._open(zmq.DEALER, DESKS[desk], "publisher", desk, instance, immediate=True)
        return CommandLink(self, socket, f"{desk}@{instance}")

    def refuse(self, link: str, error: WireError) -> None:
        """Count a message that was not accepted; the first of a link is also logged."""
        if not self.refused[link]:
            logger.warning("%s: refused a message: %s", link, error)
        self.refused[link] += 1

    def _open(
        self, kind: int, topic: Topic, end: str, name: str, instance: str, *, immediate: bool = False
    ) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        self._sockets.append(socket)
        socket.setsockopt(zmq.LINGER, LINGER_MS)
        socket.setsockopt(zmq.SNDHWM, topic.queue)
        socket.setsockopt(zmq.RCVHWM, topic.queue)
        socket.setsockopt(zmq.MAXMSGSIZE, max(topic.max_bytes, REPLIES.max_bytes))
        socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
        socket.setsockopt(zmq.IMMEDIATE, immediate)
        address = self._runtime.endpoint(name, instance)
        if topic.binds == end:
            path = Path(address.removeprefix("ipc://"))
            _clear_leftover(path)
            try:
                socket.bind(address)
            except zmq.ZMQError as error:
                raise BusError(f"{address}: cannot bind: {error.strerror}") from None
            self._bound.append(path)
        else:
            socket.connect(address)
        return socket


class Publisher:
    """Sends without ever blocking: what a slow or absent reader cannot take is dropped by ZeroMQ."""

    def __init__(self, socket: zmq.Socket[bytes], topic: Topic) -> None:
        self.socket = socket
        self._welcome = topic.welcome

    def welcome(self) -> None:
        """Take in new readers, for topics with a welcome: ZeroMQ gives it to them when the socket is polled."""
        _drain(self.socket)

    def send(self, message: Message) -> None:
        """Send one message."""
        data = encode(message)
        if self._welcome is not None:
            if _readable(self.socket):
                self.welcome()
            if isinstance(message, self._welcome):
                self.socket.setsockopt(zmq.XPUB_WELCOME_MSG, data)
        self.socket.send(data, zmq.NOBLOCK)


class Subscriber:
    """Receives checked messages; bad ones are counted in ``Bus.refused`` and left out."""

    def __init__(self, bus: Bus, socket: zmq.Socket[bytes], topic: Topic, link: str) -> None:
        self._bus, self.socket, self._topic, self.link = bus, socket, topic, link

    def receive(self, at_most: int = AT_ONCE) -> list[Message]:
        """The messages that have arrived, ``at_most`` of them, oldest first; does not wait."""
        messages = []
        for data in _drain(self.socket, at_most):
            try:
                messages.append(decode(data, self._topic))
            except WireError as error:
                self._bus.refuse(self.link, error)
        return messages


class CommandServer:
    """A ROUTER: answers whoever asks and waits for nobody."""

    def __init__(self, bus: Bus, socket: zmq.Socket[bytes], topic: Topic, link: str) -> None:
        self._bus, self.socket, self._topic, self._link = bus, socket, topic, link

    def receive(self) -> tuple[bytes, Message] | None:
        """The next (peer, message), or None; does not wait."""
        try:
            for _ in range(AT_ONCE):
                parts = self.socket.recv_multipart(zmq.NOBLOCK)
                try:
                    return parts[0], decode(parts[-1] if len(parts) == 2 else b"", self._topic)
                except WireError as error:
                    self._bus.refuse(self._link, error)
        except zmq.Again:
            pass
        return None

    def serve(self, answer: Callable[[Message, int], Message], at_most: int) -> None:
        """Answer what has come, ``at_most`` messages; ``answer`` is also given the time, CLOCK_MONOTONIC ns."""
        for _ in range(at_most):
            asked = self.receive()
            if asked is None:
                return
            peer, message = asked
            self.reply(peer, answer(message, time.monotonic_ns()))

    def reply(self, peer: bytes, message: Message) -> None:
        """Answer a peer; one that has gone or reads nothing is not waited for."""
        self.socket.send_multipart([peer, encode(message)], zmq.NOBLOCK)


class CommandLink:
    """A DEALER to one process that never waits: not for an answer, and not for a process that is not there."""

    def __init__(self, bus: Bus, socket: zmq.Socket[bytes], link: str) -> None:
        self._bus, self.socket, self._link = bus, socket, link

    def send(self, message: Message) -> bool:
        """Send a message; False: nobody is there, and nothing was sent."""
        try:
            self.socket.send(encode(message), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def receive(self) -> list[Message]:
        """The answers that have come."""
        answers = []
        for data in _drain(self.socket):
            try:
                answers.append(decode(data, REPLIES))
            except WireError as error:
                self._bus.refuse(self._link, error)
        return answers


class CommandClient:
    """A DEALER to one process."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket

    def ask(self, message: Message, timeout_ms: int) -> Message | None:
        """Send and wait for one answer.

        Returns:
            The answer, or None when none came in time.

        Raises:
            WireError: the answer is not one a commander gets.
        """
        self._socket.send(encode(message))
        if not self._socket.poll(timeout_ms):
            return None
        return decode(self._socket.recv(), REPLIES)


def _drain(socket: zmq.Socket[bytes], at_most: int = AT_ONCE) -> list[bytes]:
    """What has arrived. Asking for more is a fraction of the price of the exception that says there is none."""
    found: list[bytes] = []
    try:
        found.append(socket.recv(zmq.NOBLOCK))
        while len(found) < at_most and _readable(socket):
            found.append(socket.recv(zmq.NOBLOCK))
    except zmq.Again:  # nothing there, or what made it readable was not a message
        pass
    return found


def _readable(socket: zmq.Socket[bytes]) -> bool:
    return bool(zmq_poll([(socket, _READABLE)], 0))


def _clear_leftover(path: Path) -> None:
    """Remove the socket of a crashed run. The caller holds the instance's lock, so nobody answers there.

    Raises:
        BusError: something that is not a socket lies there; ZeroMQ would delete it without a word.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise BusError(f"{path}: expected a socket or nothing, found another kind of file: move it away")
    path.unlink()
