"""Servers that start well, start badly, lose workers, refuse to end: every one is ended, and what is left is named."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import pytest
from server_launch import SPEC, gone, launch, scripted_command, until

from tpgate.errors import ServerError
from tpgate.server import census, engine, ports, process, running


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Short waits; and engine.command, which launch() replaces, comes back."""
    monkeypatch.setattr(engine, "command", engine.command)
    monkeypatch.setattr(process, "GRACE_S", 0.5)


def test_a_server_is_ready_once_its_own_token_came_and_leaves_nothing(tmp_path):
    told = []
    with launch("ok", tmp_path, progress=told.append) as server:
        assert server.alive() is None
        assert server.info["pid"] == server.session
        assert server.session in server.pids()
        assert os.getsid(server.session) == server.session
        assert os.getpid() not in server.pids()
        assert 0 < server.startup_s < 20
        assert server.version == "0.5.23"
        port = server.command.port
    assert gone(server.session)
    assert gone(server.process.pid)
    assert ports.is_free(port)
    assert server.alive() == "the server was stopped"
    server.stop()
    assert told[-1].startswith("the server is ready after")


def test_an_orphan_in_another_session_that_ignores_sigterm_is_ended_too(tmp_path):
    server = launch("orphan", tmp_path)
    orphan = int((tmp_path / "orphan").read_text())
    assert os.getsid(orphan) != server.session
    assert census.read(orphan).parent == server.process.pid, "the supervisor adopts what is orphaned"
    assert orphan in server.pids()
    server.stop()
    assert gone(orphan)


def test_a_server_that_ignores_sigterm_is_killed(tmp_path):
    server = launch("stubborn", tmp_path)
    server.stop()
    assert gone(server.session)
    assert server.process.returncode == 128 + signal.SIGKILL


def test_a_lost_worker_is_seen_while_http_still_answers(tmp_path):
    with launch("worker", tmp_path) as server:
        worker = int((tmp_path / "worker").read_text())
        assert server.alive() is None
        os.kill(worker, signal.SIGKILL)
        assert until(lambda: server.alive() is not None)
        assert f"worker pid {worker} (sglang::scheduler_TP0" in server.alive()
        assert ports.answers(server.command.port)


def test_a_server_that_dies_later_is_seen_with_its_status(tmp_path):
    with launch("ok", tmp_path) as server:
        os.kill(server.session, signal.SIGKILL)
        assert until(lambda: server.alive() is not None)
        assert server.alive() == "the server ended with status 137"


def test_a_start_that_dies_fails_at_once_with_log_and_command(tmp_path):
    with pytest.raises(ServerError) as caught:
        launch("exits", tmp_path)
    text = str(caught.value)
    assert "ended with status 3" in text
    assert "| RuntimeError: scripted failure" in text
    assert "scripted_server.py exits" in text.splitlines()[-1]


def test_a_start_that_hangs_ends_at_the_deadline(tmp_path):
    with pytest.raises(ServerError, match=r"(?s)no token within the time allowed.*still loading"):
        launch("hangs", tmp_path, spec=replace(SPEC, startup_timeout_s=0.8))


def test_a_program_that_does_not_exist_is_an_error_that_names_it(tmp_path, monkeypatch):
    real = scripted_command("ok", tmp_path)
    monkeypatch.setattr(engine, "command", lambda *a, **k: replace(real(*a, **k), argv=("/no/such/python", "-m", "x")))
    with pytest.raises(ServerError, match=r"(?s)could not be executed.*/no/such/python"):
        process.start(SPEC, folder=tmp_path)


def test_a_full_log_blocks_nobody(tmp_path):
    with launch("fills-log", tmp_path) as server:
        assert server.log_path.stat().st_size > 400_000
        assert set(server.log_tail(1)) == {"y"}


def test_a_lost_port_is_tried_once_more_with_a_note(tmp_path):
    with launch("port-lost-once", tmp_path) as server:
        assert "was taken before it was bound" in server.notes[0]


def test_a_port_that_is_lost_twice_is_an_error(tmp_path):
    with pytest.raises(ServerError, match="address already in use"):
        launch("port-lost", tmp_path)


def test_a_port_that_somebody_holds_is_refused_and_its_holder_is_named(tmp_path):
    with launch("ok", tmp_path / "a") as server:
        with pytest.raises(ServerError, match=rf"port {server.command.port} is taken by pid {server.session} "):
            launch("ok", tmp_path / "b", port=server.command.port)
        assert server.alive() is None


def test_an_answer_from_another_process_is_not_readiness(tmp_path, monkeypatch):
    with launch("ok", tmp_path) as other:
        real = scripted_command("hangs", tmp_path)
        monkeypatch.setattr(engine, "command", lambda *a, **k: replace(real(*a, **k), port=other.command.port))
        with pytest.raises(ServerError, match="answered by a process that is not the server that was started"):
            process.start(SPEC, folder=tmp_path)
        assert other.alive() is None


def test_another_server_than_was_asked_for_is_refused(tmp_path):
    with pytest.raises(ServerError, match="tp_size is 1, asked for 2"):
        launch("ok", tmp_path, spec=replace(SPEC, tensor_parallel=2))


def test_what_is_left_after_the_end_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "RELEASE_S", 0.3)
    server = launch("ok", tmp_path, gpu_pids=lambda: {server.session: 1 << 30})
    with pytest.raises(ServerError, match=rf"pid {server.session} still holds GPU memory"):
        server.stop()
    assert gone(server.session)


def test_a_killed_supervisor_takes_the_server_along(tmp_path):
    server = launch("worker", tmp_path)
    worker = int((tmp_path / "worker").read_text())
    os.kill(server.process.pid, signal.SIGKILL)
    assert until(lambda: gone(server.session))
    assert server.alive() == "the server ended with status -9"
    assert not gone(worker)
    server.stop()
    assert gone(worker)
