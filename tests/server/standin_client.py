"""A small client for tests of the stand-in: in one event loop with the server, over a real socket."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

from tpgate.server.standin.app import Standin
from tpgate.server.standin.settings import Faults, Settings

FAST = {"step_ms": 0.4, "per_request_ms": 0.01, "prefill_ms": 0.2, "trace_write_ms": 1}


def settings_of(**options):
    faults = Faults(**{name[6:]: options.pop(name) for name in list(options) if name.startswith("fault_")})
    return Settings(**{**FAST, **options}, faults=faults)


class Client:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    def send(self, path, body=None, method=None):
        data = b"" if body is None else json.dumps(body).encode()
        method = method or ("GET" if body is None else "POST")
        self.writer.write(
            b"%s %s HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (method.encode(), path.encode(), len(data), data)
        )

    async def head(self):
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
        return int(head.split()[1]), fields

    async def ask(self, path, body=None, method=None):
        """Return status and body of an answer with a length."""
        self.send(path, body, method)
        status, fields = await self.head()
        return status, await self.reader.readexactly(int(fields["content-length"]))

    async def stream(self, path, body):
        """Return the raw bytes of a streamed answer."""
        self.send(path, body)
        status, _ = await self.head()
        assert status == 200
        return await self.rest()

    async def rest(self):
        data = b""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            data += await self.reader.readexactly(size)
            assert await self.reader.readexactly(2) == b"\r\n"
        await self.reader.readexactly(2)
        return data


def events(data):
    """Return the events of a stream; the end mark is the text ``[DONE]``."""
    lines = [line[6:] for line in data.decode().split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def generate_body(tokens=4, prompt=3, stream=True):
    return {"input_ids": list(range(1, prompt + 1)), "stream": stream, "sampling_params": {"max_new_tokens": tokens}}


@asynccontextmanager
async def serving(**options):
    """Run a stand-in and yield (app, connect), where ``await connect()`` gives a new client."""
    app = Standin(settings_of(**options))
    server = await asyncio.get_running_loop().create_server(app.connect, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    writers = []

    async def connect():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writers.append(writer)
        return Client(reader, writer)

    try:
        yield app, connect
    finally:
        for writer in writers:
            writer.close()
        server.close()
        await asyncio.sleep(0.01)
        app.close()


def run(scenario, **options):
    """Run ``await scenario(app, connect)`` against a stand-in, at most 10 s."""

    async def main():
        async with serving(**options) as (app, connect):
            return await asyncio.wait_for(scenario(app, connect), 10)

    return asyncio.run(main())
