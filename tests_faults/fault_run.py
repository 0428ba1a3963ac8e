"""A run in a process of its own, read line by line, signalled at a stage, and looked at afterwards."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from tpgate.baseline.reading import load_result
from tpgate.host import lease
from tpgate.server import census, leftovers, ports

MARK = "TPGATE_FAULT_TEST"
"""Variable in the environment of every process that a run of these tests starts, whoever its parent is."""
SCENARIOS = """
from tpgate.specs import Gate, LoadSpec, ModelSpec, Scenario, ServerSpec, pairs

def scenario(name, model="standin", startup_timeout_s=20, environment=(), **options):
    cells = tuple(LoadSpec(concurrency=c, requests=10, warmup_requests=c, input_tokens=8, output_tokens=16) for c in (1, 2))
    return Scenario(
        name=name,
        server=ServerSpec(
            ModelSpec.dummy(model, {"vocab_size": 2048, "hidden_size": 1024, "num_hidden_layers": 4}),
            tensor_parallel=2,
            device="cpu",
            options=pairs(step_ms=4.0, per_request_ms=0.1, layers=4, vocabulary=2048, **options),
            environment=environment,
            startup_timeout_s=startup_timeout_s,
            engine="standin",
        ),
        cells=cells,
        gates=(Gate("output_tokens_per_second", 0.3), Gate("attention_share", 0.1)),
        profile_cells=("c2",),
        profile_steps=4,
        settings=pairs(client_lag_limit=50.0, stall_timeout_s=2.0, profile_deadline_s=6.0),
    )

"""  # noqa: E501
TESTS = """
import pytest

@pytest.mark.gates("output_tokens_per_second")
def test_throughput(serving, cell, perf):
    perf.check(serving.run(cell), "output_tokens_per_second")
"""
LONGEST_S = 60.0
_NOTHING_LEFT_S = 15.0


@dataclass
class Project:
    """A folder with scenarios, tests, results and leases of its own.

    Attributes:
        folder: The folder.
        mark: Value of :data:`MARK`.
    """

    folder: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        (self.folder / "perf_tests").mkdir(parents=True)
        (self.folder / "pytest.ini").write_text("[pytest]\n")
        (self.folder / "perf_tests" / "test_serving.py").write_text(TESTS)
        self.scenarios('scenario("quick", startup_ms=500, shutdown_ms=300)')

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def leases(self) -> Path:
        return self.folder / "leases"

    def scenarios(self, text: str) -> None:
        """Write the scenario file."""
        path = self.folder / "perf_tests" / "scenarios.py"
        path.write_text(f"{SCENARIOS}SCENARIOS = ({text},)\n", encoding="utf-8")

    def environment(self, **more: str) -> dict[str, str]:
        return os.environ | {MARK: self.mark, lease.FOLDER_VARIABLE: str(self.leases), "PYTHONUNBUFFERED": "1"} | more

    def cli(self, *options: str, scenario: str = "quick", **more) -> Run:
        """Start ``tpgate run``."""
        return Run(self, [sys.executable, "-m", "tpgate", "run", scenario, "--max-launches", "1", *options], **more)

    def pytest(self, *options: str, **more) -> Run:
        """Start pytest on the project's tests."""
        words = ["-m", "pytest", "perf_tests", "-p", "no:cacheprovider", "--tpgate-max-launches", "1"]
        return Run(self, [sys.executable, *words, *options], **more)

    def processes(self) -> dict[int, census.Process]:
        """Return the live processes of this project's runs, found by a variable that none of them can lose."""
        found = census.table()
        return {pid: one for pid, one in found.items() if census.environment_of(pid).get(MARK) == self.mark}

    def one(self, module: str) -> census.Process:
        """Return the one process that runs a module."""
        found = [one for one in self.processes().values() if f"-m {module}" in one.title]
        assert len(found) == 1, found
        return found[0]

    def result_folders(self) -> list[Path]:
        return sorted(path for path in self.results.glob("*") if path.is_dir())

    def ports(self) -> list[int]:
        """Return the ports of every server that was started, from the first line of its log."""
        logs = self.results.glob("*/launch-*/server.log")
        found = [re.search(r"--port (\d+)", log.read_text(encoding="utf-8", errors="replace")) for log in logs]
        return [int(match[1]) for match in found if match]

    def check_nothing_is_held(self) -> None:
        """Wait until all processes are gone, for a bounded time; then no port and no lease may be held."""
        until(lambda: not self.processes(), _NOTHING_LEFT_S)
        left = self.processes()
        assert not left, [one.describe() for one in left.values()]
        mine = [one for one in leftovers.find() if census.environment_of(one.process.pid).get(MARK) == self.mark]
        assert not mine
        assert lease.holders(self.leases) == []
        assert [port for port in self.ports() if not ports.is_free(port)] == []

    def check_results_are_readable(self) -> list:
        """Return every result that was written; none may be cut off, and no temporary file may be left."""
        files = sorted(self.results.glob("*/result.json"))
        odd = [path for path in self.results.rglob("*") if path.name.endswith((".part", ".tmp"))]
        return [load_result(path) for path in files] + odd


@dataclass
class Run:
    """One run; its output is read as it comes."""

    project: Project
    argv: list[str]
    text: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    limits: object = None

    def __post_init__(self) -> None:
        def prepare() -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if self.limits is not None:
                self.limits()

        self.process = subprocess.Popen(
            self.argv,
            cwd=self.project.folder,
            env=self.project.environment(**self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=prepare,
        )
        self._deadline = time.monotonic() + LONGEST_S

    def until(self, pattern: str) -> None:
        """Read until a line matches."""
        while re.search(pattern, self.text) is None:
            assert self._read(), f"{pattern!r} was never said:\n{self.text}"

    def finish(self) -> tuple[int, str]:
        """Read to the end and return exit status and output."""
        while self._read():
            pass
        return self.process.wait(10), self.text

    def _read(self) -> bool:
        readable, _, _ = select.select([self.process.stdout], [], [], max(0.0, self._deadline - time.monotonic()))
        assert readable, f"nothing was said for too long:\n{self.text}"
        piece = os.read(self.process.stdout.fileno(), 65536)
        self.text += piece.decode("utf-8", "replace")
        return bool(piece)

    def close(self) -> None:
        """End what is left of the run, and only that."""
        for one in self.project.processes().values():
            os.kill(one.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def wait_for_steps(self, count: int) -> None:
        """Wait until the server has made so many decode steps."""
        title = self.project.one("tpgate.server.standin").title
        port = int(re.search(r"--port (\d+)", title)[1])

        def enough() -> bool:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=5) as answer:
                return orjson.loads(answer.read())["_standin"]["decode_steps"] >= count

        assert until(enough)


def until(condition, seconds: float = 15.0) -> bool:
    """Wait for a condition, with a bound; return whether it came true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
