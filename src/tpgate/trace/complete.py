"""Whether a trace file has been written to its end."""

from __future__ import annotations

from pathlib import Path

from tpgate.errors import TraceError
from tpgate.trace.reader import ends_properly
from tpgate.trace.stream import LIMIT_BYTES, Chunks


def incompleteness(path: Path, *, limit_bytes: int = LIMIT_BYTES) -> str | None:
    """Return why a trace file is not complete, or None where its gzip and its JSON both come to their end.

    The whole file is decompressed, and its checksum with it; nothing is decoded.
    """
    try:
        if not path.stat().st_size:
            return "empty"
        chunks = Chunks(path, limit_bytes)
        for _ in chunks:
            pass
    except TraceError as error:
        return error.what
    except OSError as error:
        return str(error)
    if chunks.cut:
        return f"gzip stream cut off after {chunks.total} bytes of JSON"
    if not ends_properly(chunks):
        return f"JSON cut off after {chunks.total} bytes"
    return None
