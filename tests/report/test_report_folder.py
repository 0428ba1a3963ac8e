from __future__ import annotations

import msgspec
import pytest
from report_results import RESULT_ID, judgement_of, result_of, run_of, write_folder

from tpgate.errors import BaselineError
from tpgate.measure.result import Doubt
from tpgate.report.folder import concurrency_of, figures, last_run, medians, read_folder
from tpgate.report.past import history, past_results


def test_a_folder_and_its_result_file_read_the_same(tmp_path):
    folder = write_folder(tmp_path / RESULT_ID)
    assert read_folder(folder) == read_folder(folder / "result.json")
    assert read_folder(folder).judgement == judgement_of()


def test_a_judgement_of_another_result_is_refused(tmp_path):
    folder = write_folder(tmp_path / RESULT_ID)
    stale = judgement_of(result_id="20261130T020000Z-0000")
    (folder / "judgement.json").write_bytes(msgspec.json.encode(stale))
    with pytest.raises(BaselineError, match="20261130T020000Z-0000"):
        read_folder(folder)


@pytest.mark.parametrize("content", [b"", b"{", b'{"verdict": "OK"}'])
def test_a_judgement_that_was_cut_off_is_an_error_and_never_no_judgement(tmp_path, content):
    folder = write_folder(tmp_path / RESULT_ID)
    (folder / "judgement.json").write_bytes(content)
    with pytest.raises(BaselineError, match=r"judgement\.json"):
        read_folder(folder)


def test_a_missing_folder_names_itself(tmp_path):
    with pytest.raises(BaselineError, match="nowhere"):
        read_folder(tmp_path / "nowhere")


def test_void_runs_have_no_figures():
    doubt = Doubt(check="failed_requests", reason="3 of 128 failed", advice="look at the server log")
    launch = result_of().launches[0]
    void = run_of("no_graphs", "c64", doubts=(doubt,))
    result = result_of(launches=(msgspec.structs.replace(launch, runs={**launch.runs, "c64": void}),))
    assert "c64" not in figures(result)
    assert last_run(result, "c64") == void
    assert {cell for cell, *_ in medians(result)} == {"c16"}


def test_cell_names_give_concurrency_and_label():
    assert concurrency_of("c64") == (64, "")
    assert concurrency_of("c64-96prompts") == (64, "96prompts")
    assert concurrency_of("scenario") is None


def test_history_holds_neighbours_in_order_and_marks_a_changed_key(tmp_path):
    newer = result_of()
    launch = newer.launches[0]
    identity = msgspec.structs.replace(launch.identity, keys={**launch.identity.keys, "sglang": "0.5.14"})
    earlier = msgspec.structs.replace(launch, started_at="2026-11-30T02:00:00Z", identity=identity)
    older = result_of("graphs", result_id="20261130T020000Z-1111", launches=(earlier,))
    for result in (
        older,
        newer,
        result_of(result_id="x", complete=False),
        result_of(result_id="y", scenario_digest="0"),
    ):
        folder = tmp_path / result.result_id
        folder.mkdir()
        (folder / "result.json").write_bytes(msgspec.json.encode(result))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "result.json").write_text("{")
    found = past_results(tmp_path, newer)
    assert [result.result_id for result in found] == ["20261130T020000Z-1111", RESULT_ID]
    points = history(found)["c16 output_tokens_per_second"]
    assert [point["mark"] for point in points] == [None, "sglang 0.5.14 -> 0.5.15"]


def test_a_change_of_level_is_marked_where_it_happened():
    results = []
    for day, kind in enumerate(["graphs"] * 8 + ["no_graphs"] * 8, start=1):
        launch = result_of(kind).launches[0]
        moved = msgspec.structs.replace(launch, started_at=f"2026-11-{day:02}T02:00:00Z")
        results.append(result_of(kind, result_id=f"r{day}", launches=(moved,), cells=("c16", "c64")))
    points = history(results)["c64 output_tokens_per_second"]
    assert [index for index, point in enumerate(points) if point["mark"]] == [8]
    assert points[8]["mark"] == "level changed"
