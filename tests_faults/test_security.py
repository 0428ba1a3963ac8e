"""Secrets in arguments, variables and URLs stand in no file of a run; servers listen on loopback; names stay text."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fault_run import MARK, Run

from tpgate.cli.report import FORMATS
from tpgate.server import census

SECRETS = {
    "HF_TOKEN": "hf_PlantedInTheShell0123456789",
    "SGLANG_API_KEY": "planted-api-key-of-the-shell",
    "NCCL_PASSWORD": "planted-password-of-the-shell",
}
IN_THE_SCENARIO = {
    "HF_TOKEN": "hf_PlantedInTheScenario0123456",
    "SGLANG_ADMIN_PASSWORD": "planted-password-of-the-scenario",
    "SGLANG_PROXY": "http://planted-user:planted-url-password@proxy.invalid:80",
}


def texts(folder):
    """Yield (path, bytes) of every file, unpacked."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            yield path, gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def check_no_secret(folder, output, secrets):
    for secret in secrets:
        assert secret not in output, output
        found = [str(path) for path, data in texts(folder) if secret.encode() in data]
        assert not found, f"{secret} stands in {found}"


def test_no_secret_of_the_shell_or_the_scenario_is_written(project):
    environment = tuple(IN_THE_SCENARIO.items())
    project.scenarios(f'scenario("quick", environment={environment!r})')
    scenarios = project.folder / "perf_tests" / "scenarios.py"
    run = project.cli("--record", environment=SECRETS)
    _, text = run.finish()
    (folder, *_) = project.result_folders()
    for words in (["report", str(folder)], ["refresh", str(folder)], ["history", "--add", str(folder)]):
        text += Run(project, [sys.executable, "-m", "tpgate", *words]).finish()[1]
    scenarios.unlink()
    assert (folder / "result.json").exists()
    check_no_secret(project.folder, text, [*SECRETS.values(), *IN_THE_SCENARIO.values(), "planted-url-password"])


def test_no_secret_argument_is_written_when_the_server_refuses_it(project):
    run = project.cli("--server-option", "api_key=planted-api-key-argument", environment=SECRETS)
    status, text = run.finish()
    assert status != 0
    assert "api-key" in text, "the argument is named"
    check_no_secret(project.folder, text, ["planted-api-key-argument", *SECRETS.values()])


@pytest.fixture
def server():
    argv = [sys.executable, "-m", "tpgate.server.standin", "--port", "0", "--tp", "2", "--layers", "4"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    yield int(process.stdout.readline().rsplit(":", 1)[1])
    process.kill()
    process.wait()
    process.stdout.close()


def test_no_secret_of_a_url_is_written(project, server):
    url = f"http://planted-user:planted-url-password@127.0.0.1:{server}"
    _, text = project.cli("--url", url, "--no-profile", "--cell", "c1").finish()
    check_no_secret(project.folder, text, ["planted-url-password"])


def test_a_server_listens_on_loopback_alone(project):
    run = project.cli("--no-profile")
    run.until("the server is ready")
    pids = [pid for pid in project.processes() if MARK in census.environment_of(pid)]
    listening = _listening(pids)
    run.finish()
    assert listening
    assert all(address.startswith("127.0.0.1:") for address in listening), listening


def _listening(pids):
    """Return the addresses on which some processes listen, from /proc."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            match = re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink()))
            inodes |= {match[1]} if match else set()
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return [_address(row[1]) for row in rows if row[3] == "0A" and row[9] in inodes]


def _address(text):
    host, _, port = text.partition(":")
    if len(host) > 8:
        return f"[{host}]:{int(port, 16)}"
    return ".".join(str(byte) for byte in reversed(bytes.fromhex(host))) + f":{int(port, 16)}"


HOSTILE = "<script>alert(1)</script>\x1b]0;title\x07|`$(touch owned)`\u202e\n::error::owned"


def test_a_hostile_model_name_is_shown_as_text_wherever_it_is_shown(project):
    project.scenarios(f'scenario("quick", model={HOSTILE!r}, served_model_name={HOSTILE!r})')
    status, text = project.cli().finish()
    assert status == 4, text
    (folder,) = project.result_folders()
    for form in FORMATS:
        path = project.folder / f"report.{form}"
        argv = [sys.executable, "-m", "tpgate", "report", str(folder), "--format", form, "--output", str(path)]
        status, said = Run(project, argv).finish()
        assert status == 0, said
        shown = text + said + path.read_text(encoding="utf-8")
        assert "\x1b]0;" not in shown
        assert "\u202e" not in shown
        assert "\n::error::owned" not in shown
        if form in ("html", "markdown"):
            assert "<script" not in shown
    assert not list(project.folder.rglob("owned")), "nothing was executed"
