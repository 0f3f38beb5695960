"""A simulated card over time: power, heat, clock, rate."""

from itertools import pairwise
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigproof.simulation.faults.injected import StageWindow
from rigproof.simulation.silicon.card import STEP_S, CardState
from rigproof.simulation.silicon.cooling import AMBIENT_C, HW_THERMAL, SW_THERMAL, UNDER_LIMIT_C
from rigproof.simulation.silicon.governor import IDLE, POWER_CAP
from support.simulated import DUAL, GEMM, STAGES, SUSTAINED, card_of

END_S = 90.0
FEW = settings(max_examples=20, deadline=None)  # each computes a run of minutes


def history(subject: str = "pc1/gpu0", *faults: str, seed: int = 0, rig: str = DUAL) -> list[CardState]:
    card = card_of(subject, *faults, seed=seed, rig=rig)
    return [card.at(number * STEP_S, STAGES) for number in range(int(END_S / STEP_S))]


def under(states: list[CardState], stage: StageWindow) -> list[CardState]:
    return [one for one in states if one.stage == stage.name]


@FEW
@given(st.integers(0, 2**31))
def test_power_as_the_driver_averages_it_stays_at_the_enforced_limit_and_single_readings_pass_it(
    seed: int,
) -> None:
    states = history(seed=seed)
    assert max(one.average_w for one in states) <= 1.05 * 350  # `limits.power_over_limit_share`
    assert 350 < max(one.power_w for one in states) <= 1.4 * 350


@FEW
@given(st.integers(0, 2**31))
def test_a_healthy_core_stays_well_under_its_limit(seed: int) -> None:
    card = card_of("pc1/gpu0", seed=seed)
    assert max(one.core_c for one in history(seed=seed)) <= card.limit_c - UNDER_LIMIT_C + 1


@FEW
@given(st.integers(0, 2**31))
def test_energy_only_grows_and_is_the_sum_of_power(seed: int) -> None:
    states = history(seed=seed)
    assert all(after.energy_j > before.energy_j for before, after in pairwise(states))
    assert states[-1].energy_j == pytest.approx(sum(one.power_w for one in states[:-1]) * STEP_S)


@FEW
@given(st.lists(st.floats(0, END_S), min_size=1, max_size=30))
def test_nothing_depends_on_when_it_is_asked(moments: list[float]) -> None:
    asked, straight = card_of("pc1/gpu0"), card_of("pc1/gpu0")
    straight.at(END_S, STAGES)
    assert [asked.at(t_s, STAGES) for t_s in moments] == [straight.at(t_s, STAGES) for t_s in moments]


def test_a_seed_gives_the_same_card_and_another_one_another() -> None:
    assert history(seed=1) == history(seed=1)
    assert history(seed=1) != history(seed=2)


def test_cards_of_one_rig_have_noise_of_their_own() -> None:
    first = [one.speed for one in history("pc1/gpu0")]
    second = [one.speed for one in history("pc2/gpu0")]
    assert first != second


def test_an_idle_card_is_cool_slow_and_draws_little() -> None:
    state = card_of("pc1/gpu0").at(1000.0, ())
    assert state.stage is None
    assert state.reasons == IDLE
    assert state.power_w == pytest.approx(0.08 * 350, rel=0.05)
    assert AMBIENT_C < state.core_c < 35
    assert state.clock_mhz < 400


def test_a_loaded_card_is_at_its_power_cap_and_says_so() -> None:
    states = under(history(), SUSTAINED)
    settled = [one for one in states if one.t_s > SUSTAINED.start_s + 3]
    assert {one.reasons for one in settled} == {POWER_CAP}
    mean_w = sum(one.power_w for one in settled) / len(settled)
    assert mean_w == pytest.approx(0.99 * 350, rel=0.01)


def test_heat_follows_power_with_a_time_constant() -> None:
    card = card_of("pc1/gpu0")
    start, late = card.at(GEMM.start_s, STAGES), card.at(SUSTAINED.start_s + 59, STAGES)
    after_one = card.at(SUSTAINED.start_s + 12, STAGES)
    assert start.core_c < 40
    assert start.core_c < after_one.core_c < late.core_c
    assert AMBIENT_C < late.memory_c < late.core_c


def test_feeding_leaves_power_and_so_the_clock_is_higher_without_a_reason() -> None:
    stages = (StageWindow("feeding", 1.0, 20.0),)
    state = card_of("pc1/gpu0").at(15.0, stages)
    assert state.reasons == 0
    assert state.power_w < 350
    assert state.clock_mhz == 2100


def test_a_lower_power_limit_costs_clock_and_rate_by_the_curve_of_the_sku() -> None:
    capped, free = card_of("pc1/gpu0", "power-capped:to=280"), card_of("pc1/gpu0")
    assert capped.steady_tflops("bf16") == pytest.approx(0.95 * free.steady_tflops("bf16"))
    ratio = capped.at(50.0, STAGES).clock_mhz / free.at(50.0, STAGES).clock_mhz
    assert ratio == pytest.approx(0.95, abs=0.001)
    assert capped.at(50.0, STAGES).average_w <= 1.02 * 280


def test_rates_come_from_the_sku_file() -> None:
    card = card_of("pc1/gpu0")
    assert card.steady_tflops("bf16") == 78
    assert card.steady_tflops("fp32") == pytest.approx(0.85 * 35.6)  # nobody has measured it
    assert card.precisions() == ("fp32", "tf32", "fp16", "bf16")


def test_the_first_seconds_are_faster_than_the_power_cap_allows() -> None:
    states = under(history("localhost/gpu0", rig="h200-x2"), SUSTAINED)
    first, settled = states[4], states[40]
    assert (first.reasons, first.clock_mhz) == (0, 1980)
    assert settled.reasons == POWER_CAP
    assert settled.clock_mhz == pytest.approx(0.735 * 1980, rel=0.03)
    assert first.speed / settled.speed == pytest.approx(1.19, abs=0.03)


def test_each_precision_has_its_own_clock_at_the_same_power() -> None:
    card = card_of("localhost/gpu0", rig="h200-x2")
    spans = {one.precision: (one.from_s + 2, one.to_s) for one in card.work["gemm"]}
    stages = (StageWindow("gemm", 0.0, spans["bf16"][1]),)
    for precision, mhz in {"fp32": 1950, "tf32": 1478, "fp16": 1410, "bf16": 1455}.items():
        states = [card.at(t_s, stages) for t_s in spread(*spans[precision])]
        assert fmean(one.clock_mhz for one in states) == pytest.approx(mhz, rel=0.01)
        assert fmean(one.power_w for one in states) == pytest.approx(693, rel=0.02)


def test_the_rate_follows_the_clock() -> None:
    states = under(history("pc1/gpu0", "clock-stuck@pc1/gpu0:to=840"), SUSTAINED)[10:]
    assert fmean(one.speed for one in states) == pytest.approx(840 / (0.94 * 2100), rel=0.01)
    assert fmean(one.power_w for one in states) < 0.5 * 350
    assert {one.reasons for one in states} == {0}


def test_a_card_that_gets_too_hot_lowers_its_clock_and_adds_its_reason() -> None:
    states = under(
        history("localhost/gpu0", "overheat@localhost/gpu0:after=50%,to=88", rig="h200-x2"), SUSTAINED
    )
    before, late = states[60], states[-1]
    assert late.core_c == pytest.approx(88, abs=1)
    assert late.reasons == POWER_CAP | SW_THERMAL
    assert late.clock_mhz < before.clock_mhz
    assert late.speed < 0.99


def test_a_fault_with_a_stage_acts_there_and_nowhere_else() -> None:
    states = history("pc1/gpu0", "thermal-throttle@pc1/gpu0:stage=gemm,after=50%")
    slowed = [one for one in states if one.reasons & HW_THERMAL]
    assert {one.stage for one in slowed} == {"gemm"}
    assert slowed[0].t_s == pytest.approx(GEMM.start_s + GEMM.length_s / 2, abs=STEP_S)


def spread(from_s: float, to_s: float) -> list[float]:
    number = int((to_s - from_s) / STEP_S)
    return [from_s + place * STEP_S for place in range(number)]
