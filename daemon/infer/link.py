"""The socket pair between infer and one worker: whole messages, and an end-of-file the moment either dies."""

from __future__ import annotations

import socket

from daemon.messages import Message, Topic
from daemon.wire import decode, encode


class LinkClosed(ConnectionError):
    """The other end has gone."""


class Link:
    """One end of a Unix SEQPACKET pair.

    Args:
        end: the socket.
        accepts: what this end takes; anything else is refused by name.
    """

    def __init__(self, end: socket.socket, accepts: Topic) -> None:
        self._end, self._accepts = end, accepts
        # One byte more than allowed, so that a longer packet is seen as such and not silently cut. Kept, because
        # a fresh buffer of that size is a mapping made and undone by the kernel for every message.
        self._buffer = memoryview(bytearray(accepts.max_bytes + 1))

    @staticmethod
    def pair() -> tuple[socket.socket, socket.socket]:
        """Two connected ends."""
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def fileno(self) -> int:
        """For a poller."""
        return self._end.fileno()

    def send(self, message: Message) -> None:
        """Send one message.

        Raises:
            LinkClosed: the other end has gone, or has stopped reading.
        """
        try:
            self._end.send(encode(message))
        except OSError as error:
            raise LinkClosed(str(error)) from None

    def receive(self) -> Message | None:
        """The next message, or None if the socket is non-blocking and nothing has come.

        Raises:
            LinkClosed: the other end has gone.
            WireError: what came is not accepted here.
        """
        try:
            size = self._end.recv_into(self._buffer)
        except BlockingIOError:
            return None
        except OSError as error:
            raise LinkClosed(str(error)) from None
        if not size:
            raise LinkClosed("end of file")
        return decode(bytes(self._buffer[:size]), self._accepts)

    def close(self) -> None:
        """Close this end."""
        self._end.close()
