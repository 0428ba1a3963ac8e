from __future__ import annotations

import builtins

import pytest

from tpgate.errors import ConfigError
from tpgate.report.charts import draw, scale_for
from tpgate.report.details import Profiled, Rank
from tpgate.report.figures import history, over_concurrency
from tpgate.report.kernel_bars import bars_of, kernel_time, parts_of_metrics, rank_skew
from tpgate.report.timeline import timeline


@pytest.mark.parametrize(
    ("largest", "symbol", "expected"),
    [
        (0.0079, "s/token", (1e3, "ms/tok")),
        (12e-6, "s/token", (1e6, "µs/tok")),
        (41.5, "s", (1.0, "s")),
        (4200.0, "s", (1.0, "s")),
        (64e9, "B/s", (1e-9, "GB/s")),
        (0.5, "B/s", (1.0, "B/s")),
        (7861.2, "token/s", (1.0, "tok/s")),
        (0.57, "1", (100.0, "%")),
    ],
)
def test_an_axis_has_readable_units(largest, symbol, expected):
    factor, label = scale_for(largest, symbol)
    assert (pytest.approx(factor), label) == expected


def profile(**parts: float) -> Profiled:
    return Profiled(parts, {}, (), None, (), 0.25, 10)


def test_nothing_measured_is_no_chart_and_not_an_empty_one():
    assert over_concurrency("tpot_p50", "s/token", {}, {"c1": {"tpot_p50": [0.1]}}) is None
    assert kernel_time({}) is None
    assert bars_of({"c1": profile()}, {}) == {}
    assert rank_skew([Rank("rank 0", 1.0, 0.0)]) is None
    assert history([{"when": "2026-12-01", "value": 1.0}], "s") is None
    assert timeline({}, None) is None
    assert timeline({"t_s": [1.0], "tokens_per_second": []}, None) is None


def test_missing_samples_are_gaps_and_no_zeros():
    spec = timeline({"t_s": [0.0, 1.0, 2.0], "tokens_per_second": [5.0, None, 7.0]}, None)
    (panel,) = spec["vconcat"]
    assert panel["layer"][-1]["data"]["values"] == [{"t": 0.0, "v": 5.0}, {"t": 2.0, "v": 7.0}]


def test_more_categories_than_colours_are_gathered():
    parts = {f"k{index:02}": 1e-6 / (index + 1) for index in range(12)}
    domain = kernel_time({"c1": parts})["encoding"]["color"]["scale"]["domain"]
    assert len(domain) == 8
    assert domain[0] == "k00"
    assert domain[-1] == "the rest"


def test_a_drawing_has_name_description_and_own_ids():
    spec = over_concurrency("tpot_p50", "s/token", {"c1": {"tpot_p50": [0.1]}, "c8": {"tpot_p50": [0.2, 0.3]}}, {})
    svg = draw(spec, title="a < b", description='say "so"', name="fig9")
    assert svg.startswith("<svg ")
    assert '<title id="fig9-t">a &lt; b</title>' in svg
    assert 'id="clip' not in svg
    assert "<title>now, c8: 250 ms/token (median of 2)</title>" in svg


def test_without_the_extra_the_next_command_is_said(monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name == "vl_convert":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ConfigError, match=r"pip install 'tpgate\[report\]'"):
        draw({}, title="", description="", name="x")


def test_idle_time_is_a_part_of_the_bar_and_the_baseline_stands_below():
    one = profile(gemm=30e-6, attention=10e-6, idle=120e-6)
    before = parts_of_metrics({"gemm_time_per_token": [29e-6, 31e-6, 30e-6], "gemm_share": [0.7], "tpot_p50": [1.0]})
    assert before == {"gemm": 30e-6}
    bars = bars_of({"c64": one}, {"c64": {"gemm_time_per_token": [30e-6], "moe_time_per_token": [0.0]}})
    assert list(bars) == ["c64 now", "c64 baseline"]
    spec = kernel_time(bars_of({"c64": one}, {}))
    assert spec["encoding"]["color"]["scale"]["domain"] == ["gemm", "attention", "idle"]
    assert spec["data"]["values"][-1]["text"] == "c64, idle: 120 µs/tok (75.0% of the time)"


def test_a_rank_shows_computing_only_where_its_busy_time_was_kept():
    ranks = [Rank("rank 0", 0.02, 0.0, 0.1), Rank("rank 1", 0.03, 0.01, 0.1)]
    rows = rank_skew(ranks)["data"]["values"]
    assert [(row["rank"], row["part"], round(row["value"], 3)) for row in rows[3:]] == [
        ("rank 1", "computing", 70.0),
        ("rank 1", "moving data", 20.0),
        ("rank 1", "waiting for others", 10.0),
    ]
    short = rank_skew([Rank("rank 0", 0.02, 0.0), Rank("rank 1", 0.03, 0.01)])
    assert short["encoding"]["color"]["scale"]["domain"] == ["moving data", "waiting for others"]
