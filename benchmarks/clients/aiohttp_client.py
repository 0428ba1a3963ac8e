"""A client on aiohttp, for comparison."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import common


@asynccontextmanager
async def client(url: str, settings: dict[str, Any]) -> AsyncIterator[Callable[[int, common.Events], Awaitable[None]]]:
    """Yield the function that sends one request and reads its answer."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session:

        async def send(index: int, events: common.Events) -> None:
            path, body, headers = common.request(settings, index)
            async with session.post(url + path, data=body, headers=headers) as response:
                response.raise_for_status()
                async for line in response.content:
                    common.take(line, settings["api"], events)

        yield send


if __name__ == "__main__":
    common.main(client)
