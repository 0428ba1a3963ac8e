"""Ports of the loopback address: a free one, whether one is taken, and by whom."""

from __future__ import annotations

import contextlib
import os
import random
import socket
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from tpgate.errors import ServerError

HOST = "127.0.0.1"
_LISTEN = "0A"


LOWEST, HIGHEST = 20000, 32000
"""Range of chosen ports: below what the kernel gives out to clients, and so that SGLang's own, 10000 higher, exist."""


def free(count: int = 1) -> list[int]:
    """Return ``count`` distinct ports that nobody holds at this moment.

    Raises:
        ServerError: So many ports of the range are taken that none was found.
    """
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        for port in random.sample(range(LOWEST, HIGHEST), 200):  # two launches at once should not try the same ones
            one = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                one.bind((HOST, port))
                found.append(port)
            if len(found) == count:
                return found
    raise ServerError(
        f"no {count} free ports were found from {LOWEST} to {HIGHEST}", next_step="see who holds them: ss -ltnp"
    )


def answers(port: int, timeout: float = 1.0) -> bool:
    """Tell whether somebody accepts connections on ``port``."""
    try:
        socket.create_connection((HOST, port), timeout=timeout).close()
    except OSError:
        return False
    return True


def is_free(port: int) -> bool:
    """Tell whether ``port`` can be bound, as a server binds it."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((HOST, port))
        except OSError:
            return False
    return not answers(port)


def is_local(url: str) -> bool:
    """Tell whether a URL's host is this machine: one of its addresses can be bound here. A name is looked up."""
    host = urlsplit(url).hostname or ""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in found:
        with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as one:
            one.bind(address)
            return True
    return False


def holders(port: int, pids: Iterable[int]) -> set[int]:
    """Return those of ``pids`` that hold a socket listening on ``port``."""
    links = {f"socket:[{inode}]" for inode in _listening(port)}
    return {pid for pid in pids if links & _open(pid)} if links else set()


def _listening(port: int) -> set[str]:
    inodes = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(name).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    inodes.add(fields[9])
    return inodes


def _open(pid: int) -> set[str]:
    found = set()
    try:
        entries = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208 - names alone
    except OSError:
        return set()
    for entry in entries:
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/{pid}/fd/{entry}"))  # noqa: PTH115 - not a real path
    return found
