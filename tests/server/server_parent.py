"""A run that starts a server and waits: ``python server_parent.py MODE FOLDER HOW``; tests end it in many ways."""

import os
import sys
import time
from pathlib import Path

from server_launch import launch

from tpgate.server import process

process.GRACE_S = 0.5
mode, folder, how = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
server = launch(mode, folder)
sys.stdout.write(f"{server.session} {server.process.pid} {server.command.port}\n")
sys.stdout.flush()
if how == "leaves":
    sys.exit(0)
if how == "crashes":
    os.abort()
if how == "with":
    with server:
        time.sleep(600)
time.sleep(600)
