import pytest

SCENARIOS = """
from tpgate.specs import Gate, LoadSpec, ModelSpec, Scenario, ServerSpec

def scenario(name, device="cpu", tensor_parallel=1):
    return Scenario(
        name=name,
        server=ServerSpec(ModelSpec.dummy("m", {"vocab_size": 8}), tensor_parallel, device=device),
        cells=tuple(LoadSpec(concurrency=c, requests=10, warmup_requests=c) for c in (1, 4)),
        gates=(Gate("output_tokens_per_second", 0.05), Gate("ttft_p50", 0.2, cells=("c4",))),
    )

SCENARIOS = (%s)
"""

CONFTEST = """
import json
from pathlib import Path

import tpgate.plugin.session as session
from tpgate.campaign import Outcome
from tpgate.errors import ServerError
from tpgate.measure.promises import promises
from tpgate.measure.result import Result
from tpgate.stats.verdict import Comparison, Judgement, Verdict, worst

VERDICTS = {}
BROKEN = set()

def measure(campaign):
    with open("calls.jsonl", "a") as file:
        file.write(json.dumps([campaign.scenario.name, list(campaign.cells)]) + "\\n")
    if campaign.scenario.name in BROKEN:
        raise ServerError("the server did not start", next_step="read the log")
    rows = promises(campaign.scenario, campaign.cells)
    comparisons = tuple(
        Comparison(
            cell=cell, metric=name, unit="token/s" if "tokens" in name else "s", better="higher",
            verdict=VERDICTS.get((cell, name), Verdict.OK), reason="as scripted", baseline=100.0, now=90.0,
            effect=0.1, tolerance=tolerance, bar=0.06, mde=0.04, baseline_launches=10, launches=1,
        )
        for name, tolerance, cells, _ in rows for cell in cells
    )
    judgement = Judgement(
        result_id="r", scenario=campaign.scenario.name, verdict=worst([c.verdict for c in comparisons]),
        comparisons=comparisons, launches=1,
    )
    result = Result(
        schema_version=1, result_id="r", scenario=campaign.scenario.name, scenario_digest="d",
        cells=("c1", "c4"), gates=rows, launches=(),
    )
    return Outcome(result, judgement, Path("results/r"), "tpgate run " + campaign.scenario.name)

session.measure = measure
"""

TESTS = """
import pytest

@pytest.mark.gates("ttft_p50")
def test_ttft(serving, cell, perf):
    perf.check(serving.run(cell), "ttft_p50")

@pytest.mark.gates("output_tokens_per_second")
def test_throughput(serving, cell, perf):
    perf.check(serving.run(cell), "output_tokens_per_second")
"""


@pytest.fixture
def project(pytester):
    """A project with one scripted scenario; ``project(scenarios=…, conftest=…, tests=…)`` writes its files."""

    def write(scenarios='scenario("tiny"),', conftest="", tests=TESTS):
        pytester.mkdir("perf_tests")
        pytester.path.joinpath("perf_tests/scenarios.py").write_text(SCENARIOS % scenarios)
        pytester.makeconftest(CONFTEST + conftest)
        pytester.path.joinpath("perf_tests/test_serving.py").write_text(tests)
        return pytester

    return write


@pytest.fixture
def calls(pytester):
    """What was measured, as (scenario, cells) in order."""
    import json

    def read():
        path = pytester.path / "calls.jsonl"
        return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []

    return read
