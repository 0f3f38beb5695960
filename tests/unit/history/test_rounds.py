"""Which rounds are handed to pytest-benchmark, how, and what goes with them."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_benchmark.stats import Stats

from rigproof.history.rounds import (
    ReplayClock,
    benchmark_marker,
    clock_of,
    extra_info,
    figure_rounds,
    means_of,
    replay,
    seconds_per_unit,
)
from rigproof.records.measurements import TFLOP, Round, Stage
from rigproof.records.samples import GpuSample
from rigproof.stages.registry import KINDS
from support.stage_records import gemm_round

GPU = "pc1/gpu0"
BF16 = KINDS.figures["gemm_bf16_tflops"]


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


def test_a_figure_of_several_is_named_by_its_labels(recording):
    figure = KINDS.figures["memory_copy_gbps"]
    info = extra_info(recording, "memory.bandwidth", figure, "pc1/gpu0", [])
    assert (info["title"], info["figure"], info["unit"]) == (
        "memory.bandwidth copy",
        "memory_copy_gbps",
        "GB/s",
    )


def a_round(t_s=1.0, seconds=0.05, work=3.5, **fields):
    defaults = {"stage": "gemm", "worker": "pc1/gpu0#0", "subject": GPU, "phase": "measure"}
    labels = fields.pop("labels", {"size": 8192, "precision": fields.pop("precision", "bf16")})
    return Round(
        t_s=t_s, seconds=seconds, work=work, unit=TFLOP, verified=True, labels=labels, **defaults | fields
    )


class Benchmark:
    """Stands for pytest-benchmark's fixture: runs each round with its set-up, and notes the clock."""

    name, fullname = "test[a]", "file::test[a]"

    def __init__(self, clock):
        self.clock, self.times, self.skipped, self.stored = clock, [], False, []

    def pedantic(self, function, setup, **options):
        self.stored.append((self.name, self.fullname, self.extra_info, options))
        for _ in range(options["rounds"] + 1):  # a profiler wants one more
            setup()
            begin_s = self.clock()
            function()
            self.times.append(self.clock() - begin_s)


def test_each_round_is_replayed_once_and_the_last_one_again_for_whoever_asks():
    clock = ReplayClock()
    benchmark = Benchmark(clock)
    assert replay(benchmark, [a_round(work=1.0, seconds=s) for s in (0.3, 0.1, 0.2)], clock, {"unit": "x/s"})
    assert benchmark.times == [0.3, 0.1, 0.2, 0.2]
    options = {"rounds": 3, "iterations": 1, "warmup_rounds": 0}
    assert benchmark.stored == [("test[a]", "file::test[a]", {"unit": "x/s"}, options)]


def test_a_test_stores_several_benchmarks_under_names_of_their_own():
    clock = ReplayClock()
    benchmark = Benchmark(clock)
    for part in ("copy", "read"):
        assert replay(benchmark, [a_round()], clock, {"figure": part}, part)
    assert [(name, extra["figure"]) for name, _, extra, _ in benchmark.stored] == [
        ("test[a] copy", "copy"),
        ("test[a] read", "read"),
    ]


def test_without_rounds_the_benchmark_is_skipped():
    clock = ReplayClock()
    benchmark = Benchmark(clock)
    assert replay(benchmark, [], clock, {}) is False
    assert (benchmark.skipped, benchmark.stored) == (True, [])


def test_the_clock_of_a_test_is_the_one_of_its_mark():
    mark = benchmark_marker("gemm").mark
    item = SimpleNamespace(get_closest_marker=lambda name: mark if name == "benchmark" else None, nodeid="t")
    assert clock_of(item) is mark.kwargs["timer"]
    assert mark.kwargs["group"] == "gemm"
    without = SimpleNamespace(get_closest_marker=lambda name: None, nodeid="tests/t.py::t")
    with pytest.raises(KeyError, match="t has no replay clock"):
        clock_of(without)


def test_a_second_begins_with_its_first_moment():
    shared = [a_round(2.0, 0.1, 3.0, worker="a"), a_round(2.999, 0.1, 4.0, worker="b")]
    assert seconds_per_unit(shared) == [1 / 70]
    assert seconds_per_unit([shared[0], a_round(3.0, 0.1, 4.0, worker="b")]) == []


def test_a_criterions_rounds_are_those_it_is_judged_by(recording):
    recording.rounds = [
        a_round(),
        a_round(precision="fp16"),
        a_round(phase="warmup"),
        a_round(subject="pc1/gpu1"),
        a_round(stage="sustained"),
        a_round(stage="sustained", precision="fp16"),
    ]
    of_gemm = figure_rounds(recording, KINDS.figures["gemm_bf16_tflops"], GPU)
    assert of_gemm == [recording.rounds[0]]
    assert figure_rounds(recording, KINDS.figures["sustained_tflops"], GPU) == recording.rounds[4:]


def test_of_a_stage_that_was_measured_twice_the_rounds_of_the_second_time_are_taken(recording):
    for start_s in (0.5, 20.0):
        recording.add(Stage("gemm", start_s, start_s + 10.0, "finished"))
    recording.rounds = [a_round(2.0), a_round(19.9), a_round(20.0), a_round(22.0)]
    assert figure_rounds(recording, KINDS.figures["gemm_bf16_tflops"], GPU) == recording.rounds[2:]


def test_all_values_of_a_label_are_stored_in_the_order_of_their_text(recording):
    rounds = [a_round(labels={"size": size}) for size in (512, 8192, 16384, 8192)]
    stored = extra_info(recording, "throughput.gemm_bf16", KINDS.figures["gemm_bf16_tflops"], GPU, rounds)
    assert stored["labels"] == {"size": [16384, 512, 8192]}


def test_the_training_step_is_timed_by_its_rounds_in_fp16_at_the_largest_batch(recording):
    def trained(batch, precision="fp16", phase="measure"):
        labels = {"part": "precision", "precision": precision, "batch": batch}
        return a_round(stage="training", phase=phase, labels=labels)

    recording.rounds = [
        *[trained(8) for _ in range(4)],
        *[trained(16) for _ in range(3)],
        *[trained(32) for _ in range(2)],  # too few to judge
        *[trained(16, "fp32") for _ in range(3)],
        *[trained(64, phase="warmup") for _ in range(3)],
    ]
    assert figure_rounds(recording, KINDS.figures["training_tflops"], GPU) == recording.rounds[4:7]


def test_means_are_over_the_samples_from_the_first_rounds_begin_to_the_last_ones_end(recording):
    recording.gpu_samples = [
        GpuSample(t_s, GPU, sm_clock_mhz=mhz)
        for t_s, mhz in ((0.9, 1), (1.0, 1000), (2.0, 1001), (3.0, 1003), (3.1, 1))
    ]
    info = means_of(recording, GPU, [a_round(1.5, 0.5), a_round(3.0, 0.5)])
    assert info["sm_clock_mean_mhz"] == 1001.33


def test_what_nobody_recorded_is_none(recording):
    recording.workers, recording.nodes, recording.gpus = [], {}, {}
    figure = KINDS.figures["sustained_tflops"]
    info = extra_info(recording, "throughput.sustained", figure, GPU, recording.rounds)
    unknown = ("gpu_uuid", "gpu_name", "power_limit_w", "driver", "torch", "cuda")
    assert [info[name] for name in unknown] == [None] * len(unknown)
