"""Calls to a server's endpoints: what they return, and what their errors say."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from server_launch import SPEC

from tpgate.errors import ConfigError, ServerError
from tpgate.server import ports, process
from tpgate.server.api import Api, parse_metrics
from tpgate.specs import pairs

PAGE = """\
# HELP sglang:generation_tokens_total Generated tokens.
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{model_name="a,b\\"c",is_streaming="false"} 842.0
sglang:realtime_tokens_total{mode="decode"} 1e+06 1796101439
process_cpu_seconds_total 1.5
broken{ line
"""


@pytest.fixture
def answering():
    """Serve canned answers by method and path; return the address and the requests that came."""
    servers = []

    def start(answers):
        asked = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                asked.append((self.command, self.path, json.loads(body) if body else None))
                status, text = answers.get(f"{self.command} {self.path}", (404, b"{}"))
                self.send_response(status)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def do_GET(self):
                self.do_POST()

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        servers.append((server, thread))
        return Api(f"http://127.0.0.1:{server.server_address[1]}", timeout=5), asked

    yield start
    for server, thread in servers:
        server.shutdown()
        server.server_close()
        thread.join()


def test_metrics_are_keyed_by_name_and_sorted_labels():
    assert parse_metrics(PAGE) == {
        'sglang:generation_tokens_total{is_streaming="false",model_name="a,b\\"c"}': 842.0,
        'sglang:realtime_tokens_total{mode="decode"}': 1e6,
        "process_cpu_seconds_total": 1.5,
    }


def test_info_falls_back_to_the_old_name(answering):
    api, asked = answering({"GET /get_server_info": (200, b'{"version": "0.5.9"}')})
    assert api.info() == {"version": "0.5.9"}
    assert [path for _, path, _ in asked] == ["/server_info", "/get_server_info"]


def test_a_profile_is_asked_for_without_stacks_and_shapes(answering):
    api, asked = answering({"POST /start_profile": (200, b"Start profiling.")})
    api.start_profile(output_dir="/t", num_steps=5, activities=["CPU"], profile_prefix="c8")
    assert asked[0][2] == {
        "output_dir": "/t",
        "num_steps": 5,
        "activities": ["CPU"],
        "profile_by_stage": False,
        "with_stack": False,
        "record_shapes": False,
        "profile_prefix": "c8",
    }


@pytest.mark.parametrize(
    ("answers", "call", "text"),
    [
        ({}, lambda api: api.metrics(), "--enable-metrics"),
        ({"POST /flush_cache": (400, b"busy")}, lambda api: api.flush_cache(), r"(?s)status 400: busy.*another client"),
        ({"POST /generate": (200, b"<html>")}, lambda api: api.generate_once([1]), "the answer is no JSON"),
        (
            {"POST /generate": (200, b'{"meta_info": {"completion_tokens": 0}}')},
            lambda api: api.generate_once([1]),
            "0",
        ),
        ({"POST /generate": (200, b"[]")}, lambda api: api.generate_once([1]), "completion_tokens is None"),
        ({"POST /start_profile": (500, b"no")}, lambda api: api.start_profile(output_dir="/t", num_steps=1), "500: no"),
        ({"GET /server_info": (503, b"")}, lambda api: api.info(), "status 503"),
        ({"GET /server_info": (200, b"[]")}, lambda api: api.info(), "a JSON object"),
    ],
)
def test_a_bad_answer_is_an_error_that_names_the_address(answering, answers, call, text):
    api, _ = answering(answers)
    with pytest.raises(ServerError, match=text) as caught:
        call(api)
    assert api.url in str(caught.value)


def test_no_answer_is_an_error_that_names_the_address():
    url = f"http://127.0.0.1:{ports.free()[0]}"
    with pytest.raises(ServerError, match=rf"(?s)GET {url}/server_info: no answer \(ConnectionRefusedError.*log"):
        Api(url).info()


@pytest.mark.parametrize("url", ["127.0.0.1:30000", "https://x", "http://"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ConfigError, match="http://127"):
        Api(url)


def test_attaching_compares_the_server_with_the_scenario(tmp_path):
    spec = replace(SPEC, tensor_parallel=2, options=pairs(step_ms=2.0))
    with process.start(spec, folder=tmp_path) as server:
        attached = process.attach(server.url + "/", spec)
        assert (attached.url, attached.version, attached.alive()) == (server.url, server.version, None)
        assert (attached.startup_s, attached.log_path, attached.pids()) == (None, None, set())
        assert "not started by this run" in attached.notes[0]
        other = replace(spec, tensor_parallel=4, options=pairs(step_ms=3.0))
        with pytest.raises(ConfigError, match=r"tp_size is 2, asked for 4; step_ms is 2\.0, asked for 3\.0"):
            process.attach(server.url, other)
    assert "no answer" in attached.alive()
