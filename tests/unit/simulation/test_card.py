"""A simulated card over time: power, heat, clock, rate."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigproof.simulation.card import AMBIENT_C, IDLE, POWER_CAP, STEP_S, UNDER_LIMIT_C, CardState
from rigproof.simulation.faults.injected import StageWindow
from support.simulated import GEMM, STAGES, SUSTAINED, card_of

END_S = 90.0
FEW = settings(max_examples=20, deadline=None)  # each computes a run of minutes


def history(subject: str = "pc1/gpu0", *faults: str, seed: int = 0) -> list[CardState]:
    card = card_of(subject, *faults, seed=seed)
    return [card.at(number * STEP_S, STAGES) for number in range(int(END_S / STEP_S))]


def under(states: list[CardState], stage: StageWindow) -> list[CardState]:
    return [one for one in states if one.stage == stage.name]


@FEW
@given(st.integers(0, 2**31))
def test_power_stays_under_the_enforced_limit(seed: int) -> None:
    assert max(one.power_w for one in history(seed=seed)) <= 350


@FEW
@given(st.integers(0, 2**31))
def test_a_healthy_core_stays_well_under_its_limit(seed: int) -> None:
    card = card_of("pc1/gpu0", seed=seed)
    assert max(one.core_c for one in history(seed=seed)) <= card.limit_c - UNDER_LIMIT_C


@FEW
@given(st.integers(0, 2**31))
def test_energy_only_grows_and_is_the_sum_of_power(seed: int) -> None:
    states = history(seed=seed)
    assert all(after.energy_j > before.energy_j for before, after in pairwise(states))
    assert states[-1].energy_j == pytest.approx(sum(one.power_w for one in states[1:]) * STEP_S)


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
    assert {one.reasons for one in states} == {POWER_CAP}
    mean_w = sum(one.power_w for one in states) / len(states)
    assert mean_w == pytest.approx(0.97 * 350, rel=0.01)


def test_heat_follows_power_with_a_time_constant() -> None:
    card = card_of("pc1/gpu0")
    start, late = card.at(GEMM.start_s, STAGES), card.at(SUSTAINED.start_s + 59, STAGES)
    after_one = card.at(SUSTAINED.start_s + 12, STAGES)
    assert start.core_c < 40
    assert start.core_c < after_one.core_c < late.core_c
    assert late.memory_c > late.core_c


def test_feeding_leaves_power_and_so_the_clock_is_higher_without_a_reason() -> None:
    stages = (StageWindow("feeding", 1.0, 60.0),)
    state = card_of("pc1/gpu0").at(50.0, stages)
    assert state.reasons == 0
    assert state.power_w < 0.9 * 350
    assert state.clock_mhz > 0.95 * 2100


def test_a_lower_power_limit_costs_clock_and_rate_by_the_curve_of_the_sku() -> None:
    capped, free = card_of("pc1/gpu0", "power-capped:to=280"), card_of("pc1/gpu0")
    assert capped.steady_tflops("bf16") == pytest.approx(0.95 * free.steady_tflops("bf16"))
    ratio = capped.at(50.0, STAGES).clock_mhz / free.at(50.0, STAGES).clock_mhz
    assert ratio == pytest.approx(0.95, abs=0.001)
    assert capped.at(50.0, STAGES).power_w <= 280


def test_rates_come_from_the_sku_file() -> None:
    card = card_of("pc1/gpu0")
    assert card.steady_tflops("bf16") == 78
    assert card.steady_tflops("fp32") == pytest.approx(0.85 * 35.6)  # nobody has measured it
    assert card.precisions() == ("fp32", "tf32", "fp16", "bf16")


def test_a_slow_card_is_slower_only_while_the_fault_acts() -> None:
    states = under(history("pc1/gpu0", "throughput-sag:after=50%,by=15%"), SUSTAINED)
    half_s = SUSTAINED.start_s + SUSTAINED.length_s / 2
    assert min(one.speed for one in states if one.t_s < half_s) > 0.97
    assert max(one.speed for one in states if one.t_s > half_s + STEP_S) < 0.88
