"""What repeated runs tell of a rate, and the floor that follows."""

import math
import random
from dataclasses import replace
from statistics import NormalDist, fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.criteria.changes import LEAST_SPREAD
from rigproof.history.calibration import Measured, floors, of_model, rounded, spread, unlike
from rigproof.profiles.loading.load import default_rig
from rigproof.profiles.tables.rig import Calibration
from rigproof.records.measurements import FigureRate
from rigproof.stages.registry import KINDS

WANTED = default_rig(KINDS).rig.calibration
CONDITIONS = {
    "card": "NVIDIA H200",
    "uuid": "GPU-1",
    "level": "standard",
    "rigproof": "rigproof 0",
    "driver": "driver 580.95",
    "torch": "torch 2.13.0+cu130",
    "power": "700 W",
    "work": "size 8192, 1 worker",
}
RATES = st.floats(1e-3, 1e6)


def run(number: int, value: float, floor: float | None = None, figure: str = "gemm_bf16_tflops") -> Measured:
    rate = FigureRate(figure, value, "TFLOP/s", {"size": 8192}, 1, floor)
    return Measured(f"run-{number}", "GPU-1", "pc1/gpu0", rate, CONDITIONS)


def told(*values: float, floor: float | None = None, lower: bool = False, wanted: Calibration = WANTED):
    (found,) = floors([run(place, one, floor) for place, one in enumerate(values)], wanted, lower=lower)
    return found


def test_a_floor_is_the_lower_tolerance_bound():
    """k of 5 runs, 99 % and confidence 95 % is 5.741 in Natrella's table A-7."""
    found = told(99.0, 100.0, 101.0, 100.5, 99.5)
    logs = [math.log(one) for one in (99.0, 100.0, 101.0, 100.5, 99.5)]
    spread = math.sqrt(sum((one - sum(logs) / 5) ** 2 for one in logs) / 4)
    assert found.spread == pytest.approx(spread)
    assert found.value == pytest.approx(math.exp(sum(logs) / 5 - 5.741 * spread), rel=1e-3)
    assert found.half_width == pytest.approx(2.776 * spread / math.sqrt(5), rel=0.01)  # t of 4 degrees


def test_runs_that_are_alike_give_no_floor_at_their_rate():
    assert told(*[100.0] * 5).value == 97  # closest_share


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ((100.0,), "not known yet"),
        ((100.0,) * 4, "not known yet"),  # fewest_runs
        ((100.0,) * 5, "new"),
        ((100.0, 103.0, 97.0, 101.0, 99.0), "not known yet"),
    ],
)
def test_too_few_or_unlike_runs_give_no_floor(values, answer):
    assert told(*values).answer == answer


@pytest.mark.parametrize(
    ("floor", "lower", "answer"),
    [
        (90.0, False, "raised"),
        (97.0, False, "stays"),
        (99.0, False, "stays"),
        (99.0, True, "lowered"),
        (97.0, True, "stays"),
        (120.0, False, "stays"),
    ],
)
def test_a_floor_is_only_lowered_if_asked(floor, lower, answer):
    found = told(*[100.0] * 5, floor=floor, lower=lower)
    assert (found.answer, found.before) == (answer, floor)


def test_the_highest_floor_of_all_runs_counts():
    """A champion of the first run raises the floor of the second."""
    rates = [run(place, 100.0, floor) for place, floor in enumerate((90.0, 98.0, 98.0, None, 98.0))]
    assert floors(rates, WANTED, lower=False)[0].answer == "stays"


def test_more_floors_are_each_further_below():
    values = (99.0, 100.0, 101.0, 100.5, 99.5)
    several = [
        run(place, one, figure=name) for name in ("gemm_bf16_tflops", "x") for place, one in enumerate(values)
    ]
    assert floors(several, WANTED, lower=False)[0].value < told(*values).value


def test_unchanged_rigs_fall_below_their_floors_as_seldom_as_stated():
    """In 95 of 100 calibrations the chance of a run below the floor is 1 % at most."""
    draw, truth = random.Random(1), NormalDist(0.0, 0.01)
    wanted = WANTED.model_copy(update={"closest_share": 0.9999})
    kept = 0
    for _ in range(400):
        found = told(*(100 * math.exp(draw.gauss(0.0, 0.01)) for _ in range(5)), wanted=wanted)
        kept += truth.cdf(math.log(found.value / 100)) <= WANTED.false_alarm_share
    assert 0.92 < kept / 400 < 0.98


@given(st.lists(RATES, min_size=1, max_size=100), st.none() | RATES, st.booleans())
def test_no_floor_is_over_what_was_measured(values, before, lower):
    found = told(*values, floor=before, lower=lower)
    assert 0 <= found.value <= max(values) * WANTED.closest_share * (1 + 1e-9)
    if before is not None and found.answer in ("new", "raised"):
        assert found.value > before
    assert found.answer != "lowered" or lower


@given(RATES)
def test_rounded_down_keeps_four_digits(value):
    assert value * (1 - 1.001e-3) <= rounded(value, down=True) <= value * (1 + 1e-12)
    assert rounded(value) == pytest.approx(value, rel=5.01e-4)


@pytest.mark.parametrize("name", [name for name in CONDITIONS if name != "work"])
def test_runs_under_other_conditions_are_named(name):
    other = replace(run(2, 100.0), conditions=CONDITIONS | {name: "another"})
    (why,) = unlike([run(1, 100.0), other]).values()
    assert why == f"pc1/gpu0 gemm_bf16_tflops {name}: another, in run-1 {CONDITIONS[name]}"


def test_a_run_that_is_named_twice_is_no_second_one():
    assert unlike([run(1, 100.0), run(2, 100.0)]) == {}
    assert unlike([run(1, 100.0), run(1, 100.0)]) == {"run-1": "named twice"}


def test_other_cards_of_a_model_are_alike_and_another_torch_is_not():
    other = replace(run(2, 99.0), card="GPU-2", conditions=CONDITIONS | {"uuid": "GPU-2", "level": "quick"})
    assert unlike(map(of_model, [run(1, 100.0), other])) == {}
    newer = replace(other, conditions=other.conditions | {"torch": "torch 2.14.0"})
    assert "torch: 2.14, in run-1 2.13" in unlike(map(of_model, [run(1, 100.0), newer]))["run-2"]


@pytest.mark.parametrize(
    ("cards", "expected"),
    [
        ([[100.0], [102.0], [101.0]], 0.0099),  # each measured once: as they are apart
        ([[100.0, 100.0], [102.0, 102.0], [101.0, 101.0]], 0.0099),
        ([[99.0, 101.0], [99.0, 101.0]], 0.01),  # cards alike: half the variance between their runs
        ([[100.0], [100.0]], LEAST_SPREAD),
    ],
)
def test_the_spread_of_a_model_is_between_cards_and_between_runs(cards, expected):
    assert spread(cards) == pytest.approx(expected, rel=0.01)


def test_the_spread_of_a_model_is_right_on_average():
    draw, found = random.Random(3), []
    for _ in range(400):
        cards = [[draw.gauss(0.0, 0.01)] * runs for runs in (1, 4, 2, 8, 1)]
        found.append(spread([[math.exp(one + draw.gauss(0.0, 0.02)) for one in own] for own in cards]))
    assert math.sqrt(fmean(one**2 for one in found)) == pytest.approx(math.hypot(0.01, 0.02), rel=0.05)
