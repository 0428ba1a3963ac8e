"""Every way in which a baseline or result file can be wrong is its own clear error."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest
from forge import THROUGHPUT, baseline, launch, result

from tpgate.baseline.published import json_schema, text
from tpgate.baseline.reading import load_baseline, load_either, load_result, render, write_atomically
from tpgate.errors import BaselineError

SCHEMA_FILE = Path(__file__).parents[2] / "baselines" / "schema.json"


@pytest.fixture
def content() -> dict:
    return json.loads(render(baseline()))


def _load(tmp_path: Path, content: dict | str):
    path = tmp_path / "llama-8b-tp1.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return load_baseline(path)


def _refused(tmp_path: Path, content: dict | str) -> str:
    with pytest.raises(BaselineError) as caught:
        _load(tmp_path, content)
    assert "llama-8b-tp1.json" in str(caught.value)
    return str(caught.value)


def test_a_sound_file_comes_back_as_it_was_written(tmp_path, content):
    stored = baseline()
    assert _load(tmp_path, content) == stored
    assert render(stored).endswith("}\n")
    assert render(stored) == json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def test_a_mistyped_path_is_an_error_and_not_an_empty_baseline(tmp_path):
    with pytest.raises(BaselineError, match="no such baseline file") as caught:
        load_baseline(tmp_path / "h20O.json")
    assert f"ls {tmp_path}" in str(caught.value)


@pytest.mark.parametrize("empty", ["{}", "[]", "null", '""'])
def test_an_empty_object_is_no_baseline(tmp_path, empty):
    assert "holds nothing" in _refused(tmp_path, empty)


def test_a_file_that_is_cut_off_says_where(tmp_path, content):
    whole = json.dumps(content, indent=2)
    assert "cut off" in _refused(tmp_path, whole[: len(whole) // 2].rstrip())


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_schema_version_is_refused_before_anything_else(tmp_path, content, version):
    content["schema_version"] = version
    del content["cells"]
    message = _refused(tmp_path, content)
    assert f"schema_version is {version!r}" in message
    assert "expected: 1" in message


def test_an_unknown_key_is_refused_anywhere(tmp_path, content):
    content["launches"][0]["tolerence"] = 1
    assert "tolerence" in _refused(tmp_path, content)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_is_none_is_refused(tmp_path, content, word):
    content["launches"][0]["values"]["c1"][THROUGHPUT] = 12345.5
    assert word in _refused(tmp_path, json.dumps(content).replace("12345.5", word))


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_zero_or_negative_throughput_is_refused_at_load(tmp_path, content, value):
    content["launches"][3]["values"]["c4"][THROUGHPUT] = value
    message = _refused(tmp_path, content)
    assert f"{THROUGHPUT} is {value}" in message
    assert f"{content['launches'][3]['launch_id']}, cell c4" in message


def test_zero_is_a_value_where_the_metric_may_be_zero(tmp_path):
    stored = baseline("nccl_share", {"c1": [0.0] * 12, "c4": [0.0] * 12})
    assert _load(tmp_path, render(stored)).values("c1", "nccl_share") == [0.0] * 12


@pytest.mark.parametrize(("field", "value"), [("unit", "ms"), ("better", "lower")])
def test_a_wrong_unit_or_direction_is_refused(tmp_path, content, field, value):
    content["metrics"][THROUGHPUT][field] = value
    message = _refused(tmp_path, content)
    assert f"metrics.{THROUGHPUT}.{field} is {value!r}" in message


def test_an_unknown_metric_is_refused(tmp_path, content):
    content["metrics"]["tokens_per_fortnight"] = {"unit": "token/s", "better": "higher", "estimator": 1}
    assert "tokens_per_fortnight" in _refused(tmp_path, content)


def test_a_launch_that_stands_twice_is_refused(tmp_path, content):
    content["launches"].append(content["launches"][0])
    assert "launch-0 stands twice" in _refused(tmp_path, content)


def test_a_key_that_stands_twice_is_refused(tmp_path, content):
    assert "twice" in _refused(tmp_path, json.dumps(content).replace("{", '{"scenario": "x", ', 1))


def test_a_promised_value_that_one_launch_lacks_is_refused(tmp_path, content):
    del content["launches"][5]["values"]["c4"][THROUGHPUT]
    name = content["launches"][5]["launch_id"]
    assert f"{name} lacks {THROUGHPUT} in cell c4" in _refused(tmp_path, content)


@pytest.mark.parametrize("part", ["cells", "launches", "promises"])
def test_a_baseline_needs_cells_launches_and_promises(tmp_path, content, part):
    content[part] = type(content[part])()
    assert f"{part} is empty" in _refused(tmp_path, content)


@pytest.mark.parametrize("tolerance", [0, 1, 5, 120, -0.05])
def test_a_tolerance_is_a_fraction_and_its_range_is_checked(tmp_path, content, tolerance):
    entry = {"cell": "c1", "metric": THROUGHPUT, "reason": "noisy at one", "who": "me", "when": "2026-03-01"}
    content["tolerances"] = [entry | {"tolerance": tolerance}]
    assert "tolerance" in _refused(tmp_path, content)


def test_a_waiver_of_something_that_is_not_promised_is_refused(tmp_path, content):
    entry = {"cell": "c9", "metric": THROUGHPUT, "reason": "known to be slow", "who": "me", "when": "2026-03-01"}
    content["waivers"] = [entry | {"limit": 0.1, "expires": "2026-04-01"}]
    assert "c9" in _refused(tmp_path, content)


def test_a_file_in_a_store_must_say_what_its_place_says(tmp_path, content):
    path = tmp_path / "nvidia-h200-x4" / "llama-8b-tp1.json"
    path.parent.mkdir()
    path.write_text(json.dumps(content))
    with pytest.raises(BaselineError, match="holds nvidia-h200-x1/llama-8b-tp1"):
        load_baseline(path, in_store=True)


def test_a_result_is_read_from_its_folder_and_told_apart_from_a_baseline(tmp_path, content):
    measured = result([launch(1, {"c1": {THROUGHPUT: 1.0}})])
    (tmp_path / "result.json").write_text(render(measured))
    assert load_result(tmp_path) == measured
    assert load_either(tmp_path) == measured
    path = tmp_path / "b.json"
    path.write_text(json.dumps(content))
    assert load_either(path) == baseline()


def test_a_result_without_launches_is_refused(tmp_path):
    empty = msgspec.structs.replace(result([launch(1, {"c1": {THROUGHPUT: 1.0}})]), launches=())
    (tmp_path / "result.json").write_text(render(empty))
    with pytest.raises(BaselineError, match="holds no launch"):
        load_result(tmp_path)


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "a.json"
    write_atomically(path, "old\n")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    assert [one.name for one in tmp_path.iterdir()] == ["a.json"]
    assert path.read_text() == "old\n"


def test_the_published_schema_is_the_one_of_the_types_and_takes_a_real_file(content):
    assert SCHEMA_FILE.read_text() == text(), "python -m tpgate.baseline.published > baselines/schema.json"
    validator = jsonschema.Draft202012Validator(json_schema())
    validator.validate(content)
    content["launches"][0]["extra"] = 1
    assert not validator.is_valid(content)
