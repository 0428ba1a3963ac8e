"""The stand-in as a process: its command line, its exit statuses, its log."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest


def start(*options, **more):
    argv = [sys.executable, "-m", "tpgate.server.standin", "--port", "0", "--step-ms", "0.5", *options]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def port_of(process):
    line = process.stdout.readline()
    assert "listening on http://127.0.0.1:" in line, line
    return int(line.rsplit(":", 1)[1])


def ask(port, text):
    with socket.create_connection(("127.0.0.1", port), 10) as plug:
        plug.sendall(text)
        data = b""
        while piece := plug.recv(65536):
            data += piece
            if data.endswith((b"0\r\n\r\n", b"}")):
                break
        return data


def generate(tokens):
    body = json.dumps({"input_ids": [1], "stream": True, "sampling_params": {"max_new_tokens": tokens}}).encode()
    return b"POST /generate HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_and_ends_when_told(number):
    process = start("--tp", "2")
    try:
        port = port_of(process)
        assert b"[DONE]" in ask(port, generate(3))
        info = json.loads(ask(port, b"GET /server_info HTTP/1.1\r\n\r\n").split(b"\r\n\r\n", 1)[1])
        assert (info["port"], info["tp_size"]) == (port, 2)
    finally:
        os.kill(process.pid, number)
        _, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (0, "")


def test_scripted_death_and_failed_start_have_their_statuses():
    failing = start("--fault-exit-at-start")
    process = start("--fault-die-after-requests", "1")
    assert b"[DONE]" not in ask(port_of(process), generate(6))
    process.communicate(timeout=10)
    assert process.returncode == 17
    _, errors = failing.communicate(timeout=10)
    assert failing.returncode == 3
    assert "scripted failure" in errors


def test_full_log_at_the_start(tmp_path):
    log = tmp_path / "log"
    with log.open("w") as file:
        argv = [sys.executable, "-m", "tpgate.server.standin", "--port", "0", "--fault-fill-log-kib", "200"]
        process = subprocess.Popen(argv, stdout=file, stderr=subprocess.STDOUT)
    for _ in range(500):
        if "listening" in log.read_text():
            break
        time.sleep(0.01)
    process.terminate()
    assert process.wait(10) == 0
    assert log.stat().st_size > 190 * 1024
