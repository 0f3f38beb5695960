"""When bursts are due: every frequency at every step, in the time that the level gives."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.profiles.loading.load import default_rig
from rigproof.stages.registry import KINDS
from rigproof.stages.transient.stage import Arm, TransientSettings, arms_of, least_length_s, steps_of

SETTINGS = default_rig(KINDS).settings(TransientSettings)


@pytest.mark.parametrize(
    ("gpus", "most", "steps"),
    [(0, 8, ()), (1, 8, (1,)), (3, 8, (1, 2, 3)), (8, 8, tuple(range(1, 9))), (16, 4, (4, 8, 12, 16)),
     (9, 4, (3, 5, 7, 9)), (8, 1, (8,))],
)  # fmt: skip
def test_one_gpu_more_at_each_step_or_even_steps_on_a_larger_host(gpus, most, steps):
    assert steps_of(gpus, most) == steps


@pytest.mark.parametrize("gpus", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("level", ["extended", "soak"])
def test_the_defaults_give_every_frequency_its_fewest_waves_in_the_time_of_the_level(gpus, level):
    length_s = SETTINGS.length_s.at(level)
    arms = arms_of(gpus, SETTINGS, length_s)
    assert {(arm.gpus, arm.hz) for arm in arms} == {
        (step, hz) for step in steps_of(gpus, 8) for hz in SETTINGS.frequencies_hz
    }
    assert min(arm.waves for arm in arms) >= SETTINGS.least_waves
    assert arms[-1].to_s <= length_s
    assert all(one.to_s < other.from_s for one, other in pairwise(arms))


def test_the_stage_is_neither_at_quick_nor_at_standard_and_takes_a_minute_at_extended():
    assert [SETTINGS.length_s.at(level) for level in ("quick", "standard")] == [0, 0]
    assert SETTINGS.length_s.at("extended") <= 60


def test_waves_are_a_period_apart():
    arm = Arm(gpus=2, hz=5, from_s=10.0, waves=4)
    assert [arm.due_s(wave) for wave in range(4)] == pytest.approx([10.0, 10.2, 10.4, 10.6])
    assert arm.to_s == pytest.approx(10.8)


@given(st.integers(1, 64), st.lists(st.integers(1, 20), min_size=1, unique=True), st.integers(4, 20))
def test_the_least_length_is_enough(gpus, frequencies, waves):
    settings = SETTINGS.model_copy(update={"frequencies_hz": tuple(frequencies), "least_waves": waves})
    length_s = least_length_s(gpus, settings)
    assert arms_of(gpus, settings, length_s)[-1].to_s <= length_s + 1e-6


def test_without_a_gpu_or_a_frequency_there_is_nothing_to_do():
    assert arms_of(0, SETTINGS, 60.0) == ()
    assert arms_of(2, SETTINGS.model_copy(update={"frequencies_hz": ()}), 60.0) == ()
