from __future__ import annotations

import pytest

from tpgate.host.link import capacity


@pytest.mark.parametrize(
    ("generation", "width", "gigabytes"),
    [(1, 16, 4.0), (2, 8, 4.0), (3, 16, 15.754), (4, 16, 31.508), (5, 16, 63.015), (5, 8, 31.508), (6, 16, 121.0)],
)
def test_capacity_is_rate_times_coding_times_lanes(generation, width, gigabytes):
    assert capacity(generation, width) == pytest.approx(gigabytes * 1e9, rel=1e-4)


@pytest.mark.parametrize(("generation", "width"), [(0, 16), (9, 16), (5, 0), (5, 64)])
def test_a_link_that_does_not_exist_has_no_capacity(generation, width):
    assert capacity(generation, width) is None
