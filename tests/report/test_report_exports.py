from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import msgspec
import pytest
from report_results import judgement_of, result_of, run_of, stored

from tpgate.measure.result import Value
from tpgate.report.exports import EXPORTS
from tpgate.report.exports.junit import junit_properties
from tpgate.report.exports.schema import schema_text
from tpgate.report.folder import Stored

SCHEMA = Path(__file__).parents[2] / "docs" / "result.schema.json"


def exported(name: str) -> str:
    return EXPORTS[name](stored(Path()))


def test_the_published_schema_is_the_one_that_the_types_give():
    assert SCHEMA.read_text(encoding="utf-8") == schema_text(), "make it again: python tests/report/schema_page.py"


def test_the_document_keeps_to_the_published_schema():
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    document = json.loads(exported("json"))
    validator.validate(document)
    document["result"]["launches"][0]["runs"]["c64"]["values"]["tpot_p50"]["value"] = "fast"
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(document)


def test_a_missing_value_is_null_with_its_reason():
    value = json.loads(exported("json"))["result"]["launches"][0]["runs"]["c64"]["values"]["tpot_p99"]
    assert value == {
        "reason": "128 requests, at least 100 are needed",
        "samples": None,
        "unit": "s/token",
        "value": None,
    }


def test_csv_has_one_row_a_cell_and_metric_with_base_units():
    rows = list(csv.DictReader(io.StringIO(exported("csv"))))
    assert len(rows) == 10
    row = next(row for row in rows if (row["cell"], row["metric"]) == ("c64", "output_tokens_per_second"))
    assert (float(row["value"]), float(row["baseline"]), row["unit"], row["better"]) == (
        2900.6,
        8778.7,
        "token/s",
        "higher",
    )
    assert (row["verdict"], row["tolerance"], row["validity"]) == ("REGRESSED", "0.05", "VALID")
    absent = next(row for row in rows if row["metric"] == "tpot_p99")
    assert absent["value"] == ""
    assert "at least 100" in absent["reason"]


def test_csv_text_is_no_formula():
    hostile = Stored(Path(), result_of(scenario='=HYPERLINK("x")'), None)
    (first, *_) = list(csv.DictReader(io.StringIO(EXPORTS["csv"](hostile))))
    assert first["scenario"] == '\'=HYPERLINK("x")'


def with_values(**values: float) -> Stored:
    run = run_of("no_graphs", "c64", values={name: Value.of(name, value) for name, value in values.items()})
    launch = msgspec.structs.replace(result_of().launches[0], runs={"c64": run})
    return Stored(Path(), result_of(launches=(launch,)), None)


def test_pytest_benchmark_compares_two_of_its_files(tmp_path):
    pytest.importorskip("pytest_benchmark")
    folder = tmp_path / "Linux-CPython"
    folder.mkdir()
    (folder / "0001_now.json").write_text(exported("pytest-benchmark"))
    before = Stored(Path(), result_of("graphs"), None)
    (folder / "0002_before.json").write_text(EXPORTS["pytest-benchmark"](before))
    words = [
        sys.executable,
        "-m",
        "pytest_benchmark",
        "--storage",
        tmp_path.as_uri(),
        "compare",
        "--columns=median,rounds",
    ]
    found = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert found.returncode == 0, found.stderr
    assert "tpot_p50[c64]" in found.stdout
    assert "21.98" in found.stdout


def test_pytest_benchmark_gets_times_alone_and_no_zero():
    document = json.loads(exported("pytest-benchmark"))
    assert {"machine_info", "commit_info", "benchmarks", "datetime", "version"} <= document.keys()
    bench = next(item for item in document["benchmarks"] if item["name"] == "tpot_p50[c64]")
    assert bench["stats"]["median"] == 0.021983
    assert bench["stats"]["rounds"] == 1
    assert not any("tokens_per_second" in item["name"] for item in document["benchmarks"])
    idle = with_values(activation_time_per_token=0.0, tpot_p50=0.02)
    assert [item["param"] for item in json.loads(EXPORTS["pytest-benchmark"](idle))["benchmarks"]] == ["c64"]


def test_go_format_has_no_key_twice():
    result = result_of()
    identity = msgspec.structs.replace(
        result.launches[0].identity, keys={"scenario": "0f60", "GPU name": "x", "8bit": True}
    )
    launch = msgspec.structs.replace(result.launches[0], identity=identity)
    text = EXPORTS["gobench"](Stored(Path(), result_of(launches=(launch,)), None))
    keys = [line.split(":")[0] for line in text.splitlines() if re.match(r"[a-z][^ A-Z]*: ", line)]
    assert keys == ["scenario", "result-id", "key-8bit", "gpu-name", "scenario-digest"]


def test_go_format_names_units_with_direction():
    lines = exported("gobench").splitlines()
    assert "Unit output_tokens_per_second better=higher" in lines
    assert "Unit tpot_p50 better=lower" in lines
    line = next(line for line in lines if line.startswith("BenchmarkServing/cell=c64 "))
    words = line.split()
    assert words[1] == "1"
    assert dict(zip(words[3::2], words[2::2], strict=True))["tpot_p50"] == "0.021983"


def test_bencher_measures_hold_median_and_bounds():
    document = json.loads(exported("bmf"))
    assert document["llama-8b-tp1/c64"]["tpot_p50"] == {
        "lower_value": 0.021983,
        "upper_value": 0.021983,
        "value": 0.021983,
    }


def test_prometheus_has_one_sample_a_value_and_none_for_a_missing_one():
    text = exported("prometheus")
    assert 'cell="c64",metric="output_tokens_per_second",unit="token/s"} 2900.6' in text
    assert "tpot_p99" not in text
    assert 'tpgate_verdict{scenario="llama-8b-tp1",verdict="REGRESSED"} 1' in text
    assert 'tpgate_verdict{scenario="llama-8b-tp1",verdict="OK"} 0' in text
    assert 'tpgate_last_launch_timestamp_seconds{scenario="llama-8b-tp1"} 1796095287' in text
    names = {line.split("{")[0] for line in text.splitlines() if not line.startswith("#")}
    assert names == {"tpgate_value", "tpgate_verdict", "tpgate_effect", "tpgate_last_launch_timestamp_seconds"}


def test_junit_properties_are_small_text():
    found = dict(junit_properties(stored(Path()), "c64"))
    assert found["tpgate.output_tokens_per_second.verdict"] == "REGRESSED"
    assert found["tpgate.output_tokens_per_second.now"] == "2900.6"
    assert found["tpgate.validity"] == "VALID"
    assert all(isinstance(value, str) and len(value) < 200 for value in found.values())


@pytest.mark.parametrize("name", sorted(EXPORTS))
def test_an_unjudged_result_can_be_exported(name):
    text = EXPORTS[name](Stored(Path(), result_of(), None))
    assert text.endswith("\n")
    assert "NaN" not in text
    assert judgement_of().verdict not in text
