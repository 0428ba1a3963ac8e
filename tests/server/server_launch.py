"""Starts scripted servers through the real start, supervisor and stop."""

import os
import sys
import time
from pathlib import Path

from tpgate.server import census, engine, process
from tpgate.specs import ModelSpec, ServerSpec

SCRIPT = Path(__file__).with_name("scripted_server.py")
SPEC = ServerSpec(ModelSpec.dummy("tiny", {"vocab_size": 8}), engine="standin", startup_timeout_s=20)


def scripted_command(mode, folder):
    """Return what replaces engine.command: the same marks, another program."""

    def command(spec, *, port, launch_id, **_others):
        argv = (sys.executable, str(SCRIPT), mode, str(port), str(folder))
        started = census.read(os.getpid()).started_ticks
        marks = ((census.MARKER, launch_id), (census.OWNER, f"{os.getpid()}:{started}"), ("PYTHONUNBUFFERED", "1"))
        return engine.Command(argv, marks, port, None)

    return command


def launch(mode, folder, **more):
    engine.command = scripted_command(mode, folder)
    return process.start(more.pop("spec", SPEC), folder=folder, **more)


def until(condition, seconds=15.0):
    """Wait for a condition, with a bound; return whether it came true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def gone(pid):
    process_now = census.read(pid)
    return process_now is None or process_now.state in "ZX"
