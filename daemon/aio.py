"""The client of a gateway for programs that run on asyncio: ``async with AsyncClient(address) as client: ...``."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from daemon.client import TIMEOUT_S, Address, Client
from daemon.remote import Anything, GatewayWelcome, Reply


class AsyncClient:
    """:class:`daemon.client.Client` in a thread of its own; errors and meaning of every answer are the same.

    Requests wait for one another. Giving up on one (``asyncio.wait_for``) leaves it to come to its end: it is never
    done twice, and may still be done; the next request begins after it.

    Args:
        address: where the gateway is.
        who: names person and program in the device's log.
    """

    def __init__(self, address: Address, who: str = "") -> None:
        self._client = Client(address, who)
        self._thread = ThreadPoolExecutor(1, "reflexd-client")

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def hello(self, timeout_s: float = TIMEOUT_S) -> GatewayWelcome:
        """Learn who the gateway is and what this client may."""
        return await self._loop().run_in_executor(self._thread, self._client.hello, timeout_s)

    async def ask(self, ask: Anything, timeout_s: float = TIMEOUT_S) -> Reply:
        """Have something done, once; see :meth:`daemon.client.Client.ask`."""
        return await self._loop().run_in_executor(self._thread, self._client.ask, ask, timeout_s)

    async def close(self) -> None:
        """Close the connection, after what is under way."""
        await self._loop().run_in_executor(self._thread, self._client.close)
        self._thread.shutdown(wait=False)

    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()
