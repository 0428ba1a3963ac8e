"""A server that misbehaves on purpose: ``python scripted_server.py MODE PORT STATE``; standard library alone."""

import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SLEEP = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


class Handler(BaseHTTPRequestHandler):
    info = None

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, self.info)

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.answer(200, {"meta_info": {"completion_tokens": 2}})

    def log_message(self, *_):
        pass


def worker(state):
    """A child under the name that SGLang gives its schedulers."""
    child = subprocess.Popen(["sglang::scheduler_TP0", "-c", SLEEP], executable=sys.executable)
    (state / "worker").write_text(str(child.pid))


def orphan(state):
    """A grandchild in a session of its own whose parent is gone, which ignores SIGTERM."""
    program = (
        "import subprocess, sys, pathlib\n"
        f"p = subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True)\n"
        f"pathlib.Path({str(state / 'orphan')!r}).write_text(str(p.pid))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def main():
    mode, port, state = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    first = not (state / "tried").exists()
    (state / "tried").touch()
    if mode == "exits":
        sys.stdout.write("loading weights\nRuntimeError: scripted failure\n")
        return 3
    if mode == "port-lost" or (mode == "port-lost-once" and first):
        sys.stdout.write("OSError: [Errno 98] error while attempting to bind: address already in use\n")
        return 1
    if mode == "hangs":
        sys.stdout.write("still loading\n")
        sys.stdout.flush()
        time.sleep(600)
    if mode == "fills-log":
        sys.stdout.write(("y" * 99 + "\n") * 4100)
        sys.stdout.flush()
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode == "worker":
        worker(state)
    if mode == "orphan":
        orphan(state)
    Handler.info = {"version": "0.5.23", "tp_size": 1, "port": port, "pid": os.getpid()}
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
