"""``python -m tpgate.server.standin --port 30000 …``: run the scripted server until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import signal
import sys
from collections.abc import Sequence

import uvloop

from tpgate.server.standin.app import Standin
from tpgate.server.standin.pages import say
from tpgate.server.standin.settings import Settings, parse

EXIT_AT_START_STATUS = 3


async def serve(settings: Settings, shown: dict[str, str]) -> None:
    """Serve until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    app = Standin(settings, shown)
    if settings.faults.fill_log_kib:
        app.fill_log()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), settings.startup_ms / 1e3)
        return
    server = await loop.create_server(app.connect, settings.host, settings.port, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    app.settings = dataclasses.replace(settings, port=port)
    say(f"standin: listening on http://{settings.host}:{port}\n")
    gc.collect()
    gc.freeze()
    try:
        await stop.wait()
        await asyncio.sleep(settings.shutdown_ms / 1e3)
    finally:
        server.close()
        app.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the stand-in and return its exit status."""
    settings, shown = parse(argv)
    if settings.faults.exit_at_start:
        sys.stderr.write("RuntimeError: scripted failure at the start\n")
        return EXIT_AT_START_STATUS
    uvloop.run(serve(settings, shown))
    return 0


if __name__ == "__main__":
    sys.exit(main())
