"""What the aiohttp and httpx clients share: a closed loop, the request, the reading of an event, the answer file.

They are written as one would in good faith: one shared session, keep-alive, no connection limit, uvloop, orjson, a
stamp before the event is parsed, counts from the server's usage.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import uvloop

PATHS = {"generate": "/generate", "completions": "/v1/completions", "chat": "/v1/chat/completions"}
Events = list[tuple[float, int]]


def request(settings: dict[str, Any], index: int) -> tuple[str, bytes, dict[str, str]]:
    """Return path, body and headers of one request."""
    source = random.Random(index)
    ids = [source.randrange(1000, 30000) for _ in range(settings["input_tokens"])]
    tokens, api = settings["output_tokens"], settings["api"]
    usage = {"include_usage": True, "continuous_usage_stats": True}
    body: dict[str, Any] = {"model": "m", "max_tokens": tokens, "stream": True, "stream_options": usage}
    if api == "generate":
        body = {"input_ids": ids, "sampling_params": {"max_new_tokens": tokens, "ignore_eos": True}, "stream": True}
    elif api == "completions":
        body["prompt"] = ids
    else:
        body["messages"] = [{"role": "user", "content": " ".join(map(str, ids))}]
    headers = {"X-Request-Id": f"tpgate-{index}", "Content-Type": "application/json"}
    return PATHS[api], orjson.dumps(body), headers


def take(line: bytes, api: str, events: Events) -> None:
    """Stamp one line of the stream, then parse it."""
    now = time.perf_counter()
    if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
        return
    event = orjson.loads(line[6:])
    if api == "generate":
        tokens = event["meta_info"]["completion_tokens"]
    elif event["choices"] and event["usage"]:
        tokens = event["usage"]["completion_tokens"]
    else:
        return
    if tokens > (events[-1][1] if events else 0):
        events.append((now, tokens))


def main(one: Callable[[str, dict[str, Any]], Any]) -> None:
    """Run a client: ``one`` is an async context manager that yields ``send(index, events)``."""
    url, settings, out = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
    total = settings["requests"] + settings["warmup"]
    rows: list[tuple[int, float, Events]] = []
    failures: list[str] = []

    async def slot(todo: Any, send: Callable[[int, Events], Awaitable[None]]) -> None:
        for index in todo:
            events: Events = []
            started = time.perf_counter()
            try:
                await send(index, events)
            except Exception as error:  # noqa: BLE001 - whatever a peer raises is its failure
                failures.append(repr(error)[:200])
                continue
            rows.append((index, started, events))

    async def run() -> None:
        todo = iter(range(total))
        async with one(url, settings) as send:
            await asyncio.gather(*(slot(todo, send) for _ in range(settings["concurrency"])))

    uvloop.run(run())
    whole = [(index, started, events) for index, started, events in rows if len(events) > 1]
    answer = {
        "requests": [[i, (e[0][0] - s) * 1e3, (e[-1][0] - e[0][0]) / (e[-1][1] - e[0][1]) * 1e3] for i, s, e in whole],
        "failed": total - len(whole),
        "first_failure": failures[0] if failures else None,
        "tokens": sum(events[-1][1] for _, _, events in whole),
        "seconds": max(e[-1][0] for _, _, e in whole) - min(s for _, s, _ in whole) if whole else None,
    }
    Path(out).write_text(json.dumps(answer))
