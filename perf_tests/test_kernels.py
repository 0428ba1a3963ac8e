"""Kernels: time, re-read factor, fraction of the roofline, and the lead over the naive kernel."""

import itertools

import pytest

from kernel_suites import KERNELS
from tpgate.plugin.kernels import promised


@pytest.mark.parametrize(("suite", "cell", "metric"), promised([KERNELS]))
def test_kernel(kernels, perf, suite, cell, metric):
    perf.check(kernels.run(suite, cell), metric)


@pytest.mark.gpu
@pytest.mark.benchmark(group="sparse MLA decode")
@pytest.mark.parametrize("name", KERNELS.cases)
def test_sparse_mla_decode(benchmark, name):
    """One call and its end, by the host's clock: pytest-benchmark's own statistics, --benchmark-json and compare."""
    from tpgate.kernels.session import prepare
    from tpgate.kernels.shapes import parse_shape

    prepared = prepare(parse_shape(name), "cuda:0")
    turns = itertools.cycle(prepared.calls)
    benchmark.extra_info |= prepared.facts
    benchmark.pedantic(prepared.finish, setup=lambda: ((next(turns),), {}), rounds=100, warmup_rounds=10)
