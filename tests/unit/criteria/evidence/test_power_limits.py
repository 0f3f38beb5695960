"""The power limit in force is the one that NVML reports, where it reports a power."""

import math

import pytest

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.power_limits import enforced_power_w, enforced_power_within, keeps_power_limit
from rigproof.criteria.evidence.windows import Window

GPU = "pc1/gpu0"


def device(bench):
    return Evidence(bench.recording, bench.loaded).device(GPU)


@pytest.mark.parametrize("limit_w", [None, 0.0, -1.0, math.inf, math.nan])
def test_a_power_limit_that_is_no_power_was_not_measured(bench, limit_w):
    assert enforced_power_w(device(bench)) == 700
    bench.gpu(GPU, power_limit_w=limit_w)
    with pytest.raises(NotMeasured, match="NVML does not report the enforced power limit"):
        enforced_power_w(device(bench))


def test_a_limit_that_moves_is_the_median_of_a_window_and_the_first_one_where_none_was_read(bench):
    assert keeps_power_limit(device(bench))
    bench.samples(GPU, 40, 50, power_limit_w=550.0)
    found = device(bench)
    assert not keeps_power_limit(found)
    assert enforced_power_within(found, Window(40.0, 50.0)) == 550
    assert enforced_power_within(found, Window(60.0, 65.0)) == 700
