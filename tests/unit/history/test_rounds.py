from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_benchmark.stats import Stats

from rigproof.history.rounds import ReplayClock, extra_info, seconds_per_unit
from rigproof.stages.registry import KINDS
from support.stage_records import gemm_round

BF16 = KINDS.figures["gemm_bf16_tflops"]


def test_the_clock_moves_only_when_a_round_ends():
    clock = ReplayClock()
    clock.begin(0.3)
    before = clock()
    clock.end()
    assert clock() - before == 0.3
    clock.begin(0.1)  # from zero again: 0.3 + 0.1 - 0.3 would not be 0.1
    before = clock()
    clock.end()
    assert clock() - before == 0.1


def test_a_round_becomes_its_seconds_for_one_tflop():
    assert seconds_per_unit([gemm_round(1, 0.05, 3.5), gemm_round(2, 0.1, 2.0)]) == [0.05 / 3.5, 0.05]


def test_rounds_without_time_or_work_are_no_measurements():
    assert seconds_per_unit([gemm_round(1, 0.0), gemm_round(2, 0.1, 0.0), gemm_round(3, -1.0)]) == []
    assert seconds_per_unit([]) == []


def test_rates_of_workers_that_share_a_device_are_added():
    rounds = [
        gemm_round(0.9, 0.1, 3.0, "a"),  # the other one has not begun
        gemm_round(1.2, 0.1, 3.0, "a"),
        gemm_round(1.3, 0.1, 4.0, "b"),
        gemm_round(1.7, 0.1, 3.0, "a"),
        gemm_round(2.1, 0.2, 4.0, "a"),
        gemm_round(2.2, 0.2, 8.0, "b"),
        gemm_round(3.5, 0.1, 3.0, "a"),  # the other one has ended
    ]
    assert seconds_per_unit(rounds) == [1 / 70, 1 / 60]


@given(
    st.lists(st.floats(1e-4, 10), min_size=1, max_size=50),
    st.floats(1e-3, 1e3),
)
def test_ops_of_equal_rounds_is_work_over_time(seconds, work):
    stats = Stats()
    for value in seconds_per_unit([gemm_round(number, one, work) for number, one in enumerate(seconds)]):
        stats.update(value)
    assert stats.ops == pytest.approx(len(seconds) * work / sum(seconds))


def test_extra_info_says_whose_rounds_they_are_and_how_the_card_was(recording):
    info = extra_info(recording, "throughput.gemm_bf16", BF16, "pc1/gpu0", recording.rounds)
    assert info["gpu_uuid"] == "GPU-11111111-2222-3333-4444-555555555555"
    assert info["gpu_name"] == "NVIDIA H200"
    assert info["driver"] == "580.65"
    assert info["torch"] == "2.13.0"
    assert info["cuda"] == "12.8"
    assert info["power_limit_w"] == 700
    assert info["criterion"] == "throughput.gemm_bf16"
    assert info["title"] == "throughput.gemm_bf16"
    assert info["unit"] == "TFLOP/s"
    assert info["labels"] == {"precision": ["bf16"], "size": [8192]}
    assert info["sm_clock_mean_mhz"] == 1800  # the three samples between first and last round
    assert info["core_temperature_mean_c"] == 70
    assert info["power_mean_w"] == 600  # of the one that had a reading
    assert info["memory_temperature_mean_c"] is None


def test_extra_info_of_an_unknown_subject_is_none_not_zero(recording):
    info = extra_info(recording, "throughput.gemm_bf16", BF16, "pc9/gpu0", [])
    assert (info["gpu_uuid"], info["driver"], info["torch"], info["sm_clock_mean_mhz"]) == (None,) * 4


def test_a_simulated_run_is_marked(recording):
    recording.run = replace(recording.run, simulated=True)
    info = extra_info(recording, "throughput.gemm_bf16", BF16, "pc1/gpu0", recording.rounds)
    assert info["simulated"] is True


def test_a_figure_of_several_is_named_by_its_labels(recording):
    figure = KINDS.figures["memory_copy_gbps"]
    info = extra_info(recording, "memory.bandwidth", figure, "pc1/gpu0", [])
    assert (info["title"], info["figure"], info["unit"]) == (
        "memory.bandwidth copy",
        "memory_copy_gbps",
        "GB/s",
    )
