"""The history is appended once a launch, keeps identities apart, and says when it cannot be read."""

from __future__ import annotations

import pytest
from forge import QUIET, THROUGHPUT, launch, result, run, series

from tpgate.baseline.history import History, otava_rows, remember
from tpgate.errors import BaselineError

SCENARIO, HARDWARE = "llama-8b-tp1", "nvidia-h200-x1"


@pytest.fixture
def history(tmp_path) -> History:
    return History(tmp_path / "deep" / "history.sqlite")


def test_every_launch_is_appended_once(history):
    source = series(THROUGHPUT, {"c1": QUIET, "c4": QUIET})
    assert history.append(source, "OK") == len(QUIET)
    assert history.append(source, "REGRESSED") == 0
    stored = history.launches(SCENARIO)
    assert len(stored) == len(QUIET)
    assert {one.verdict for one in stored} == {"OK"}
    assert {one.result_id for one in stored} == {"result-now"}
    assert [one.recorded_at for one in stored] == sorted(one.recorded_at for one in stored)
    assert history.launches("another") == []


def test_a_series_holds_one_identity_in_order_of_time(history):
    history.append(series(THROUGHPUT, {"c1": QUIET}))
    other = result([launch(90, {"c1": {THROUGHPUT: 5.0}}, keys={"engine_version": "other"})])
    history.append(other)
    keys = {one.launch_id: one.key for one in history.launches()}
    points = history.series(SCENARIO, HARDWARE, keys["launch-0"])["c1", THROUGHPUT]
    assert len(points) == len(QUIET)
    assert 5.0 not in [point.value for point in points]
    assert len(history.series(SCENARIO, HARDWARE)["c1", THROUGHPUT]) == len(QUIET) + 1


def test_void_runs_and_missing_values_are_left_out_and_never_zero(history):
    runs = {
        "c1": run("c1", {THROUGHPUT: 1.0}, doubt="throttled"),
        "c4": run("c4", {THROUGHPUT: 2.0, "ttft_p50": None}),
    }
    history.append(result([launch(1, {}, runs=runs)]))
    assert list(history.series(SCENARIO, HARDWARE)) == [("c4", THROUGHPUT)]


def test_an_export_for_otava_leaves_a_missing_value_empty(history):
    history.append(result([launch(1, {"c1": {THROUGHPUT: 1000.5}})]))
    history.append(result([launch(2, {"c4": {THROUGHPUT: 2.0}})]))
    rows = otava_rows(history.series(SCENARIO, HARDWARE))
    assert rows[0] == ["time", "commit", "launch_id", f"c1.{THROUGHPUT}", f"c4.{THROUGHPUT}"]
    assert rows[1] == ["2026-03-02T01:00:00Z", "c0ffee", "launch-1", "1000.5", ""]
    assert rows[2][3:] == ["", "2.0"]


def test_no_history_and_a_broken_one_are_clear_errors(history):
    with pytest.raises(BaselineError, match="no history yet"):
        history.launches()
    history.path.parent.mkdir()
    history.path.write_text("this is not a database, but long enough to be taken for one" * 20)
    with pytest.raises(BaselineError, match="not a database"):
        history.launches()


def test_a_verdict_does_not_depend_on_its_history(history):
    assert remember(series(THROUGHPUT, {"c1": QUIET}), "OK", history.path) is None
    history.path.write_bytes(b"broken " * 300)
    assert "not in the history" in remember(series(THROUGHPUT, {"c1": QUIET}), "OK", history.path)


def test_an_experiment_is_no_history_of_its_scenario(history):
    assert history.append(series(THROUGHPUT, {"c1": QUIET}, experiment=("x=1",))) == 0
    assert not history.path.exists()
