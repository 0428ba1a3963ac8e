from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from report_results import bands, judgement_of, result_of, run_of, stored

from tpgate.measure.result import Doubt
from tpgate.report.folder import Stored
from tpgate.report.html import Extras, render

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}"
TOGETHER = {
    "matched": 160,
    "unmatched": 0,
    "intrinsic_s": 0.1,
    "wait_s": 0.1,
    "wait_share": 0.5,
    "skew_s": 1e-5,
    "straggler": "rank 0",
    "last": {"rank 0": 160},
    "rank_wait_s": {f"rank {rank}": 0.01 * rank for rank in range(4)},
    "rank_communication_s": {f"rank {rank}": 0.1 + 0.01 * rank for rank in range(4)},
    "families": [],
}
POINTS = [
    {
        "when": f"2026-11-{day:02}T02:00:00Z",
        "value": 2900.0 + day,
        "mark": "sglang 0.5.14 -> 0.5.15" if day == 9 else None,
    }
    for day in range(1, 15)
]


class Page(HTMLParser):
    """Tags, links, ids and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.words.append(data)

    def all(self, name: str) -> list[str]:
        return [value or "" for key, value in self.attributes if key == name]


@pytest.fixture(scope="module")
def page() -> Page:
    result = result_of()
    launch = result.launches[0]
    run = launch.runs["c64"]
    trace = {"summary": {**run.details["trace"]["summary"], "collectives": TOGETHER}}
    run = msgspec.structs.replace(run, details={**run.details, "trace": trace})
    launch = msgspec.structs.replace(launch, runs={**launch.runs, "c64": run})
    whole = Stored(Path(), msgspec.structs.replace(result, launches=(launch,)), judgement_of())
    history = {"c64 output_tokens_per_second": POINTS}
    return Page(render(whole, Extras(bands=bands(), history=history, reproduce="tpgate run llama-8b-tp1 --cell c64")))


def test_every_part_is_there(page):
    assert {"verdicts", "concurrency", "kernels", "ranks", "timelines", "history", "environment", "files"} <= set(
        page.all("id")
    )
    text = " ".join(page.words)
    for word in ("2901 tok/s", "8779 tok/s", "-67.0 %", "GPU idle 76.3 %", "disable_cuda_graph", "ui.perfetto.dev"):
        assert word in text
    assert page.tags.count("svg") == 3 + 1 + 1 + 2 + 1


def test_the_page_loads_and_runs_nothing(page):
    assert "script" not in page.tags
    assert not {"src", "srcset", "onload", "onclick", "onerror"} & {name for name, _ in page.attributes}
    outside = [link for link in page.all("href") + page.all("xlink:href") if not link.startswith(("#", "./", "data:,"))]
    assert outside == []


def test_ids_are_unique_and_links_inside_lead_somewhere(page):
    ids = page.all("id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in page.all("href") if link.startswith("#")} <= set(ids)


def test_charts_speak_to_a_screen_reader(page):
    labels = page.all("aria-label")
    assert any("now, c64: 2901 tok/s (median of 1)" in label for label in labels)
    assert any("baseline, c64: 8779 tok/s" in label for label in labels)
    assert any("c64 now, attention: 21.9 µs/tok (5.4% of the time)" in label for label in labels)
    assert any("rank 3: waiting for others 30 ms" in label for label in labels)


def test_hostile_names_stay_text():
    summary = run_of("no_graphs", "c64").details["trace"]["summary"]
    kernel = {**summary["top"][0], "name": HOSTILE, "category": HOSTILE}
    ranks = {"rank_wait_s": {HOSTILE: 0.5, "1": 0.1}, "rank_communication_s": {HOSTILE: 1.0, "1": 1.0}}
    parts = {**summary["categories"], HOSTILE: summary["categories"]["gemm"]}
    together = {**TOGETHER, **ranks, "straggler": HOSTILE}
    trace = {"summary": {**summary, "categories": parts, "top": [kernel], "collectives": together}}
    bad = run_of(
        "no_graphs", "c64", details={"trace": trace}, artifacts={HOSTILE: "javascript:alert(3)", "t": "../../etc/x"}
    )
    launch = msgspec.structs.replace(result_of().launches[0], runs={HOSTILE: bad}, commit=HOSTILE, failure=HOSTILE)
    verdict = judgement_of(
        scenario=HOSTILE,
        differences=((HOSTILE, HOSTILE, HOSTILE),),
        doubts=((HOSTILE, HOSTILE, HOSTILE, HOSTILE),),
        warnings=(HOSTILE,),
        baseline_path=HOSTILE,
    )
    whole = Stored(Path(), result_of(launches=(launch,), scenario=HOSTILE, cells=(HOSTILE,)), verdict)
    text = render(whole, Extras(reproduce=HOSTILE, history={f"{HOSTILE} tpot_p50": POINTS}))
    page = Page(text)
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert "onerror" not in {name for name, _ in page.attributes}
    assert all(link.startswith(("#", "./", "data:,")) for link in page.all("href"))
    assert "./javascript%3Aalert%283%29" in page.all("href")
    assert "../" not in " ".join(page.all("href"))
    assert "49" not in re.findall(r"\b49\b", " ".join(page.words))


def test_a_result_that_was_not_judged_is_neither_green_nor_red():
    page = Page(render(Stored(Path(), result_of(), None)))
    text = " ".join(page.words)
    assert "NOT JUDGED" in text
    assert "neither green nor red" in text


def test_incomplete_and_void_are_said():
    doubt = Doubt(check="throttled", reason="12 % of the window", advice="cool it")
    runs = {"c64": run_of("no_graphs", "c64", doubts=(doubt,), window=None)}
    launch = msgspec.structs.replace(result_of().launches[0], runs=runs, startup_s=None)
    text = " ".join(Page(render(Stored(Path(), result_of(launches=(launch,), complete=False), judgement_of()))).words)
    assert "INCOMPLETE" in text
    assert "no steady window was found" in text


def test_the_page_is_small():
    assert len(render(stored(Path()), Extras(bands=bands()))) < 400_000


@pytest.mark.parametrize(
    "trace", [None, [], {"summary": None}, {"summary": {"ranks": 4}}, {"ranks": 4, "summary": "x"}]
)
def test_details_of_another_form_leave_a_chart_out_and_break_nothing(trace):
    run = run_of("no_graphs", "c64", details={"trace": trace, "timeline": trace, "telemetry": 7})
    launch = msgspec.structs.replace(result_of().launches[0], runs={"c64": run})
    page = Page(render(Stored(Path(), result_of(launches=(launch,)), judgement_of())))
    assert "kernels" not in page.all("id")
    assert "verdicts" in page.all("id")
