"""The current rate of a device, in the unit of what it does."""

import pytest

from rigproof.records.measurements import TFLOP, Rate, Round, rate_of


def a_round(t_s, seconds, work, worker="pc1/gpu0#0", unit=TFLOP):
    return Round(t_s, "gemm", worker, "pc1/gpu0", "measure", seconds, work, unit, True, {"size": 64})


@pytest.mark.parametrize(
    ("rounds", "rate"),
    [
        ([], None),
        ([a_round(7, 0, 50)], None),  # it took no time
        ([a_round(1, 1, 1000)] + [a_round(t, 1, 50) for t in (6, 7, 8, 9, 10)], Rate(50, "TFLOP/s")),
        ([a_round(t, 1, 30, worker) for t in (7, 8, 9) for worker in ("a", "b")], Rate(60, "TFLOP/s")),
        ([a_round(7, 1, 50), a_round(10, 1, 50)], Rate(25, "TFLOP/s")),  # it idled in between
        ([a_round(9, 1, 50), a_round(11, 1, 4200, unit="GB"), a_round(10, 1, 50)], Rate(4200, "GB/s")),
    ],
)
def test_the_rate_is_the_work_of_all_workers_over_the_last_five_seconds(rounds, rate):
    assert rate_of(rounds) == rate
