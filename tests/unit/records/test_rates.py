"""The current rate of a device, in the unit of what it does."""

from rigproof.records.measurements import TFLOP, Rate, Round, rate_of


def a_round(t_s, seconds, work, worker="pc1/gpu0#0", unit=TFLOP):
    return Round(t_s, "gemm", worker, "pc1/gpu0", "measure", seconds, work, unit, True, {"size": 64})


def test_the_rate_is_work_over_time_of_the_last_five_seconds():
    rounds = [a_round(1, 1, 1000)] + [a_round(t, 1, 50) for t in (6, 7, 8, 9, 10)]
    assert rate_of(rounds) == Rate(50, "TFLOP/s")
    assert rate_of([]) is None


def test_workers_that_share_a_device_add_up():
    rounds = [a_round(t, 1, 30, worker) for t in (7, 8, 9) for worker in ("a", "b")]
    assert rate_of(rounds) == Rate(60, "TFLOP/s")


def test_idle_time_lowers_the_rate():
    assert rate_of([a_round(7, 1, 50), a_round(10, 1, 50)]) == Rate(25, "TFLOP/s")


def test_work_of_another_unit_is_not_added():
    rounds = [a_round(9, 1, 50), a_round(11, 1, 4200, unit="GB"), a_round(10, 1, 50)]
    assert rate_of(rounds) == Rate(4200, "GB/s")


def test_rounds_that_took_no_time_have_no_rate():
    assert rate_of([a_round(7, 0, 50)]) is None
