"""Collectives at decode message sizes: latency of all-reduce and all-gather over NCCL and SGLang's own all-reduce."""

import pytest

from kernel_suites import COLLECTIVES
from tpgate.plugin.kernels import promised


@pytest.mark.parametrize(("suite", "cell", "metric"), promised(COLLECTIVES))
def test_collective(kernels, perf, suite, cell, metric):
    perf.check(kernels.run(suite, cell), metric)


@pytest.mark.gpu
@pytest.mark.benchmark(group="copies")
@pytest.mark.parametrize("way", ["h2d", "d2h"])
def test_copy_between_host_and_device(benchmark, way):
    """One pinned copy of 256 MiB, by the host's clock; between GPUs: python -m tpgate.kernels.copies."""
    from tpgate.kernels.copies import prepare_copy

    copy, size = prepare_copy(way, 256 << 20)
    benchmark.extra_info["bytes"] = size
    benchmark.pedantic(copy, rounds=20, warmup_rounds=3)
