import pytest

from tpgate.stats.compare import compare
from tpgate.stats.verdict import Verdict
from tpgate.units import Better

UTILISATION = [0.0004, 0.0005, 0.0011]


def judged(now):
    return compare(
        UTILISATION, [now], better=Better.LOWER, tolerance=0.5, absolute_floor=0.005, provisional=True, ceiling=0.8
    )


def test_noise_within_the_absolute_floor_blinds_no_check():
    check = judged(0.0004)
    assert check.verdict is Verdict.OK
    assert not check.bars.blind


@pytest.mark.parametrize("now", [0.05, 0.9])
def test_a_change_beyond_the_floor_is_still_red(now):
    assert judged(now).verdict is Verdict.REGRESSED
