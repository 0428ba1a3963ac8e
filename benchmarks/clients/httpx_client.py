"""A client on httpx, for comparison."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import common
import httpx


@asynccontextmanager
async def client(url: str, settings: dict[str, Any]) -> AsyncIterator[Callable[[int, common.Events], Awaitable[None]]]:
    """Yield the function that sends one request and reads its answer."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=None) as session:  # noqa: S113 - a benchmark

        async def send(index: int, events: common.Events) -> None:
            path, body, headers = common.request(settings, index)
            async with session.stream("POST", path, content=body, headers=headers) as response:
                response.raise_for_status()
                async for line in response.aiter_lines():
                    common.take(line.encode(), settings["api"], events)

        yield send


if __name__ == "__main__":
    common.main(client)
