import gc
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from rigproof.devices.reporting import run_workload
from rigproof.devices.transformer.shape import Shape
from rigproof.devices.transformer.step import Steps, Trainer
from rigproof.profiles.planning.plan import NO_POLICY, MemoryPlan
from rigproof.stages.training.batch_search import NEAR_SHARE
from rigproof.stages.training.run import _peak_measured, limit_mib
from rigproof.stages.training.stage import TrainingSpec
from rigproof.stages.training.workload import compared_precisions, run_training
from support.devices import RecordingContext

POLICY = MemoryPlan(enabled=True, batch_step=2, least_batch=1)
SPEC = TrainingSpec(
    "training",
    vram_mib=8.0,
    duration_s=2.0,
    round_s=0.02,
    sequence=16,
    model_share=0.1,
    batch=4,
    batches=(1, 2, 4),
    search=True,
    target_share=0.95,
    reserve_mib=100.0,
    tf32=True,
    cudnn_benchmark=False,
    memory=POLICY,
)
SHORT = replace(SPEC, duration_s=0.3, search=False, batches=(1,))
SHAPE = Shape(64, 2, 256, 16)
NO_ROOM = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes"


@pytest.fixture(scope="module", autouse=True)
def _timeless():
    """Real steps, two to a round, that take 0.1 ms each: no slow machine changes a test's course."""
    run = Trainer.run

    def short(self, count):
        steps = run(self, min(count, 2))
        return replace(steps, seconds=1e-4 * steps.count)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "run", short)
        yield


@pytest.fixture(scope="module")
def done(cpu):
    """A whole run, to be looked at."""
    context = RecordingContext()
    run_workload(SPEC, cpu, context)
    return context


@pytest.fixture
def no_room(monkeypatch):
    """Steps fail for want of memory where `fails(precision, batch, call)` says so."""

    def fit(fails):
        run, calls = Trainer.run, []

        def failing(self, count):
            calls.append((self.precision, self.batch))
            if fails(self.precision, self.batch, len(calls)):
                raise RuntimeError(NO_ROOM)
            return run(self, count)

        monkeypatch.setattr(Trainer, "run", failing)
        return calls

    return fit


@pytest.fixture
def canned(monkeypatch):
    """Steps whose losses and norms are made up by `make(trainer, nth step of its run)`; no time passes."""

    def install(make):
        def begin(self, precision, batch):
            self.precision, self.batch, self.done = precision, batch, 0

        def run(self, count):
            made = [make(self, self.done + n) for n in range(count)]
            self.done += count
            losses, norms = zip(*made, strict=True)
            return Steps(0.01 * count, losses, norms)

        monkeypatch.setattr(Trainer, "begin", begin)
        monkeypatch.setattr(Trainer, "run", run)

    return install


def falling(trainer, step):
    return SHAPE.first_loss - 0.1 * step / (1 + step), 1.0


def reported(context, what):
    return [event.data for event in context.events("batch_search") if event.data["what"] == what]


def of_part(context, part, phase="measure"):
    return [one for one in context.rounds if one.label("part") == part and one.phase == phase]


def test_precisions_search_and_sweep_are_measured_and_verified(done):
    assert all(one.verified for one in done.rounds)
    assert not done.events("wrong_result")
    assert not done.events("oom")
    compared = of_part(done, "precision")
    assert {(one.label("precision"), one.label("batch")) for one in compared} == {("fp32", 4), ("bf16", 4)}
    assert {one.label("batch") for one in of_part(done, "sweep")} == {1, 2, 4}
    probes = len(reported(done, "probe"))
    for phase in ("warmup", "measure"):  # of each probe a step, and the one that has the peak
        assert [one.label("steps") for one in of_part(done, "search", phase)] == [1] * probes
    for part, key in (("precision", "precision"), ("sweep", "batch")):
        measured = of_part(done, part)
        for value in {one.label(key) for one in measured}:
            assert sum(one.label(key) == value for one in measured) >= 3


def test_a_round_reports_its_steps_and_their_work(cpu, context):
    run_training(SHORT, cpu, context)
    for one in context.rounds:
        assert one.work == pytest.approx(one.label("steps") * SHAPE.step_flop(one.label("batch")) / 1e12)
        assert one.seconds > 0
        assert (one.stage, one.label("size"), one.worker) == ("training", 64, context.worker)
    (model,) = context.events("model")
    assert model.data["parameters"] == SHAPE.parameters


def test_the_largest_batch_fits_and_the_next_would_not(done):
    (largest,) = reported(done, "largest")
    assert largest["complete"]
    assert largest["peak_mib"] <= largest["limit_mib"] == SPEC.vram_mib
    assert largest["too_large"] - largest["batch"] <= max(1, NEAR_SHARE * largest["batch"])
    assert largest["batch"] > 8
    for probe in reported(done, "probe"):
        assert probe["peak_mib"] <= SPEC.vram_mib * 1.01


def test_no_tensor_gets_more_elements_than_kernels_count(cpu, context, monkeypatch):
    monkeypatch.setattr(Shape, "most_examples", 6)
    run_training(replace(SPEC, batches=(4, 8)), cpu, context)
    (largest,) = reported(context, "largest")
    assert (largest["batch"], largest["too_large"], largest["complete"]) == (6, 7, True)
    assert [data["batch"] for data in reported(context, "skipped")] == [8]


def test_batches_that_do_not_fit_are_left_out_and_reported(cpu, context):
    run_training(replace(SHORT, batches=(1, 500, 2)), cpu, context)
    assert {one.label("batch") for one in of_part(context, "sweep")} == {1, 2}
    (skipped,) = reported(context, "skipped")
    assert skipped["batch"] == 500
    assert skipped["peak_mib"] > skipped["limit_mib"]
    assert [data["batch"] for data in reported(context, "sweep")] == [1, 2]
    assert not reported(context, "largest")
    assert not context.events("oom")


def test_the_planned_batch_gives_way_to_memory_before_anything_fails(cpu, context):
    run_training(replace(SHORT, batch=400, vram_mib=5.0), cpu, context)
    (batch,) = {one.label("batch") for one in of_part(context, "precision")}
    assert 1 < batch < 400
    (decision,) = [
        event.data for event in context.events("memory_policy") if event.data["technique"] == "batch_size"
    ]
    assert (decision["before"], decision["after"]) == (400, batch)
    assert not context.events("oom")


def test_memory_for_not_even_one_example_is_an_error_that_names_the_way_out(cpu, context):
    with pytest.raises(MemoryError, match=r"one example takes \d+ MiB of 2 MiB .* training.model_share"):
        run_training(replace(SPEC, vram_mib=2.05), cpu, context)


def test_a_failed_allocation_makes_the_batch_smaller_and_the_comparison_starts_again(cpu, context, no_room):
    no_room(lambda precision, batch, call: precision == "bf16" and batch == 4)
    run_training(replace(SHORT, batches=(1, 4)), cpu, context)
    (oom,) = context.events("oom")[:1]
    assert oom.data["recovered"]
    compared = of_part(context, "precision")
    assert {one.label("batch") for one in compared if one.label("precision") == "bf16"} == {2}
    assert {one.label("batch") for one in compared if one.label("precision") == "fp32"} == {4, 2}
    assert len(context.events("oom")) == 1  # the sweep leaves out what failed once
    assert [data["batch"] for data in reported(context, "skipped")] == [4]


def test_without_a_policy_a_failed_allocation_ends_the_task(cpu, context, no_room):
    no_room(lambda precision, batch, call: precision == "bf16")
    with pytest.raises(MemoryError, match="bf16 step of 4 examples: DefaultCPUAllocator"):
        run_training(replace(SHORT, memory=NO_POLICY), cpu, context)
    (oom,) = context.events("oom")
    assert not oom.data["recovered"]
    assert oom.data["requested_mib"] > 0


def test_a_failure_in_the_search_is_counted_and_it_goes_on_below(cpu, context, no_room):
    no_room(lambda precision, batch, call: batch > 20)
    run_training(SPEC, cpu, context)
    ooms = context.events("oom")
    assert ooms
    assert all(event.data["recovered"] for event in ooms)
    (largest,) = reported(context, "largest")
    assert largest["batch"] <= 20
    assert largest["too_large"] == 21 or largest["too_large"] - largest["batch"] <= 2
    assert {one.label("batch") for one in of_part(context, "sweep")} == {1, 2, 4}


def test_a_single_example_that_fails_has_no_way_out(cpu, context, no_room):
    no_room(lambda precision, batch, call: True)
    with pytest.raises(MemoryError, match="fp32 step of 1 examples"):
        run_training(SPEC, cpu, context)


@pytest.mark.parametrize(("policy", "error"), [(POLICY, None), (NO_POLICY, MemoryError)])
def test_nothing_stays_in_memory_whatever_happened(cpu, context, no_room, policy, error):
    def held():
        gc.collect()
        return sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())

    before = held()
    no_room(lambda precision, batch, call: precision == "bf16" and batch == 4)
    with pytest.raises(error) if error else nullcontext():
        run_training(replace(SHORT, memory=policy), cpu, context)
    assert context.events("oom")
    assert held() <= before


def test_without_mixed_precision_search_and_sweep_train_in_fp32(cpu, context):
    run_training(replace(SHORT, search=True, memory=replace(POLICY, mixed_precision=False)), cpu, context)
    assert {one.label("precision") for one in of_part(context, "sweep")} == {"fp32"}
    (largest,) = reported(context, "largest")
    assert largest["precision"] == "fp32"
    assert {one.label("precision") for one in of_part(context, "precision")} == {"fp32", "bf16"}
    assert [e for e in context.events("memory_policy") if e.data["technique"] == "mixed_precision"]


def test_a_search_without_time_says_that_it_is_not_complete(cpu, context):
    run_training(replace(SPEC, duration_s=0.05), cpu, context)
    (largest,) = reported(context, "largest")
    assert (largest["complete"], largest["batch"]) == (False, 4)


@pytest.mark.parametrize("number", [1, 9, 30])
def test_stop_ends_the_run_after_the_round_under_way(cpu, stopping_context, number):
    context = stopping_context(lambda context: len(context.rounds) >= number)
    run_training(replace(SPEC, duration_s=600.0), cpu, context)
    assert len(context.rounds) == number


def test_a_16_bit_run_that_leaves_fp32_s_path_is_wrong(cpu, context, canned):
    def astray(trainer, step):
        loss, norm = falling(trainer, step)
        return (loss * 1.03 if trainer.precision == "bf16" and step == 2 else loss), norm

    canned(astray)
    run_training(SHORT, cpu, context)
    rounds = [one for one in context.rounds if one.label("part") == "precision"]
    assert all(one.verified for one in rounds if one.label("precision") == "fp32")
    measured = of_part(context, "precision")
    assert not any(one.verified for one in measured if one.label("precision") == "bf16")
    (event,) = context.events("wrong_result")
    assert "fp32: 0.03 apart, tolerance 0.016" in event.message
    assert event.data["precision"] == "bf16"


def test_nothing_is_verified_against_an_fp32_run_that_is_wrong_itself(cpu, context, canned):
    canned(lambda trainer, step: (2.0, 1.0))
    run_training(SHORT, cpu, context)
    assert context.rounds
    assert not any(one.verified for one in context.rounds)
    assert context.events("wrong_result")


def test_a_gradient_that_is_no_number_spoils_its_round_alone(cpu, context, canned):
    def flawed(trainer, step):
        loss, norm = falling(trainer, step)
        return loss, float("nan") if trainer.precision == "fp32" and step == 6 else norm

    canned(flawed)
    run_training(SHORT, cpu, context)
    bad = [one for one in context.rounds if not one.verified]
    assert {one.label("precision") for one in bad} == {"fp32"}
    assert len(bad) == 1
    assert context.events("wrong_result")[0].message == "a gradient is nan in fp32"


def test_a_round_that_overflowed_is_not_verified_and_an_event_says_so(cpu, context, canned, monkeypatch):
    def overflowing(trainer, step):
        loss, norm = falling(trainer, step)
        return loss, float("inf") if trainer.precision == "fp16" and step == 6 else norm

    monkeypatch.setattr(cpu, "precisions", ("fp32", "fp16"))
    canned(overflowing)
    run_training(SHORT, cpu, context)
    (bad,) = [one for one in context.rounds if not one.verified and one.label("part") == "precision"]
    event = context.events("overflow")[0]
    assert (event.data["precision"], event.data["steps"]) == ("fp16", 1)
    assert context.records.index(bad) == context.records.index(event) + 1
    assert not context.events("wrong_result")


@pytest.mark.parametrize(
    ("has", "compared"),
    [
        (("fp32", "tf32", "fp16", "bf16"), ("fp32", "tf32", "fp16")),
        (("fp32", "fp16"), ("fp32", "fp16")),
        (("fp32", "bf16"), ("fp32", "bf16")),
        (("fp32",), ("fp32",)),
    ],
)
def test_fp32_comes_first_and_the_half_precision_of_training_last(has, compared):
    assert compared_precisions(SimpleNamespace(precisions=has)) == compared


@pytest.mark.parametrize(
    ("total", "free", "reserved", "cap", "limit"),
    [
        (24_000, 23_500, 0, None, 22_000 - 500),  # the reserve of 2000 binds; a context of 500 is off
        (24_000, 13_500, 10_000, None, 22_000 - 500),  # what is ours is not taken off
        (24_000, 13_500, 0, None, 22_000 - 10_500),  # what is others' is
        (140_000, 139_500, 0, None, 0.95 * 140_000 - 500),  # the share binds
        (24_000, 23_500, 0, 8_000.0, 8_000),
        (24_000, 1_000, 0, None, 0),
        (None, None, 0, None, 16_000),  # nobody knows: the worker's own share
    ],
)
def test_the_limit_is_what_the_card_has_less_the_reserve_and_what_others_hold(
    cpu, total, free, reserved, cap, limit
):
    spec = replace(SPEC, vram_mib=16_000.0, reserve_mib=2_000.0, memory=replace(POLICY, cap_mib=cap))
    state = replace(cpu.memory(), device_total_mib=total, device_free_mib=free, reserved_mib=reserved)
    card = SimpleNamespace(kind="cuda", memory=lambda: state)
    assert limit_mib(spec, card) == pytest.approx(limit)


def test_the_cpu_never_takes_more_than_its_share_of_the_ram(cpu):
    assert limit_mib(replace(SPEC, vram_mib=7.0), cpu) == 7.0


def test_what_is_kept_for_the_backward_pass_grows_with_the_batch(cpu):
    trainer, peaks = Trainer(SHAPE, cpu, tf32=True), []
    for batch in (1, 2, 3):
        with _peak_measured(cpu, 10.0) as peak:
            trainer.begin("fp32", batch)
            trainer.run(2)
        peaks.append(peak.mib)
    trainer.release()
    assert 10 < peaks[0] < peaks[1] < peaks[2]
    assert peaks[2] - peaks[1] == pytest.approx(peaks[1] - peaks[0], rel=0.02)
