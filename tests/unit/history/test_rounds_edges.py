"""Which rounds are handed to pytest-benchmark, how, and what goes with them."""

from types import SimpleNamespace

import pytest

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
from rigproof.records.measurements import TFLOP, Round
from rigproof.records.samples import GpuSample
from rigproof.stages.registry import KINDS

GPU = "pc1/gpu0"


def a_round(t_s=1.0, seconds=0.05, work=3.5, **fields):
    defaults = {"stage": "gemm", "worker": "pc1/gpu0#0", "subject": GPU, "phase": "measure"}
    labels = {"size": 8192, "precision": fields.pop("precision", "bf16")}
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


def test_a_new_clock_stands_at_zero_and_moves_by_nothing():
    clock = ReplayClock()
    assert clock() == 0.0
    clock.end()
    assert clock() == 0.0
    assert str(clock) == "device timer"


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


def test_a_workers_rate_in_a_second_is_its_work_over_its_time():
    rounds = [a_round(0.2, 0.1, 1.0, worker="a"), a_round(0.9, 0.3, 1.0, worker="a")]
    rounds.append(a_round(0.5, 0.1, 5.0, worker="b"))
    assert seconds_per_unit(rounds) == [pytest.approx(1 / (2.0 / 0.4 + 50.0))]


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
