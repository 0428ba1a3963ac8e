from __future__ import annotations

from metrics_page import PAGE, TITLES, page

from tpgate.measure.definitions import METRICS


def test_the_page_is_the_one_that_the_definitions_give():
    assert PAGE.read_text(encoding="utf-8") == page(), "make it again: python tests/report/metrics_page.py"


def test_no_metric_is_left_out():
    assert {metric.source for metric in METRICS.values()} <= set(TITLES)
    assert all(f'<a id="{name}"></a>' in page() for name in METRICS)
