"""A TCP proxy that treats what passes as a bad network does: delays, stalls, resets, cuts."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
import time
from types import TracebackType


class Impairment:
    """How bad it is.

    Attributes:
        delay_s: of each piece of data, at most; drawn anew for each.
        reset: probability that a connection is reset with a piece of data.
        stall: probability that a connection stands still for ``stall_s`` with a piece of data.
        cut_every_s, cut_s: all connections are cut this often, and none is let in for so long.
    """

    def __init__(
        self,
        delay_s: float = 0.0,
        reset: float = 0.0,
        stall: float = 0.0,
        stall_s: float = 0.0,
        cut_every_s: float = 0.0,
        cut_s: float = 0.0,
    ) -> None:
        self.delay_s, self.reset, self.stall, self.stall_s = delay_s, reset, stall, stall_s
        self.cut_every_s, self.cut_s = cut_every_s, cut_s


class Proxy:
    """The way to ``target`` by another port, in a thread of its own.

    Args:
        target: port on 127.0.0.1.
        impairment: what happens on the way.
        seed: of chance.
    """

    def __init__(self, target: int, impairment: Impairment, seed: int = 0, port: int = 0) -> None:
        self._target, self._impairment = target, impairment
        self._random = random.Random(seed)
        self._listening = socket.create_server(("127.0.0.1", port))
        self.port = int(self._listening.getsockname()[1])
        self._begun_s = time.monotonic()
        self._writers: set[asyncio.StreamWriter] = set()
        self.resets = self.cuts = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(asyncio.start_server(self._serve, sock=self._listening))
        cutting = self._loop.create_task(self._cut())
        self._loop.run_forever()
        cutting.cancel()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.05))
        for writer in self._writers:
            writer.transport.abort()
        self._loop.close()
        self._listening.close()

    @property
    def _is_cut(self) -> bool:
        every = self._impairment.cut_every_s
        return every > 0 and (time.monotonic() - self._begun_s) % (every + self._impairment.cut_s) > every

    async def _cut(self) -> None:
        while True:
            await asyncio.sleep(0.02)
            if self._is_cut and self._writers:
                self.cuts += 1
                for writer in list(self._writers):
                    _reset(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            _reset(writer)
            return
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            _reset(writer)
            return
        ends = {writer, there_writer}
        self._writers |= ends
        await asyncio.gather(
            self._carry(reader, there_writer), self._carry(there_reader, writer), return_exceptions=True
        )
        self._writers -= ends

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        impairment = self._impairment
        try:
            while data := await reader.read(65536):
                await asyncio.sleep(self._random.uniform(0, impairment.delay_s))
                if self._random.random() < impairment.reset:
                    self.resets += 1
                    _reset(writer)
                    return
                if self._random.random() < impairment.stall:
                    await asyncio.sleep(impairment.stall_s)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection without a good-bye."""
    connection = writer.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
