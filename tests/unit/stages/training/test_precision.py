from dataclasses import replace

import pytest

from rigproof.criteria.evidence.rounds import Rounds
from rigproof.judging.judge import promised
from rigproof.records.measurements import TFLOP, Round
from rigproof.records.verdict import Outcome
from rigproof.stages.training.criteria import CRITERIA, measured_rounds
from rigproof.stages.training.precision import step_times
from support.fault_changes import GPU
from support.rig_profile import H200, loaded_rig
from support.stage_records import relabelled

NAME = "precision.speedup"
LABELS = ("batch", "steps", "part")


def round_(precision, seconds, **fields):
    made = Round(
        1.0,
        "training",
        "w",
        "s",
        "measure",
        seconds,
        1.0,
        TFLOP,
        True,
        {"precision": precision, "size": 64, "part": "precision"},
    )
    labels = {"batch": 4, "steps": 2} | {name: fields.pop(name) for name in LABELS if name in fields}
    return relabelled(replace(made, **fields), **labels)


def without(bench, keep):
    bench.recording.rounds = [one for one in bench.recording.rounds if one.stage != "training" or keep(one)]


def only_first(bench, number, precision):
    """Keep so many measured rounds of one precision."""
    seen = 0

    def keep(one):
        nonlocal seen
        if (one.subject, one.label("precision"), one.label("part"), one.phase) != (
            GPU,
            precision,
            "precision",
            "measure",
        ):
            return True
        seen += 1
        return seen <= number

    without(bench, keep)


def test_the_ratio_is_that_of_the_steps_and_the_detail_names_them(bench):
    verdict = bench.verdict(NAME, GPU)
    assert verdict.outcome is Outcome.PASS
    assert verdict.measured == pytest.approx(9.0)
    assert verdict.limit == pytest.approx(9.0 * 0.75)
    assert verdict.limit_source == "0.75 of 9 ×, printed or reached by others; hwprofiles/gpus/h200.toml"
    assert verdict.detail == "a step of 16 examples takes 720 ms in fp32, 192 ms in tf32, 80 ms in fp16"


def test_a_step_s_time_is_that_of_all_verified_measured_rounds_of_its_part():
    times = step_times(
        Rounds.of_records(
            [
                round_("fp32", 9.0, phase="warmup"),
                round_("fp32", 8.0, verified=False),
                round_("fp32", 7.0, part="sweep"),
                round_("fp32", 2.0),
                round_("fp32", 1.0),
                round_("fp32", 6.0, steps=4),
                round_("fp32", 1.0, batch=8),
                round_("fp16", 1.0, steps=None),
            ]
        ),
        "precision",
    )
    assert {key: (one.seconds, one.rounds) for key, one in times.items()} == {
        ("fp32", 4): (9.0 / 8, 3),
        ("fp32", 8): (0.5, 1),
    }


@pytest.mark.parametrize(("number", "outcome"), [(2, Outcome.NOT_MEASURED), (3, Outcome.PASS)])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_three_rounds_of_each_are_a_measurement(bench, precision, number, outcome):
    only_first(bench, number, precision)
    verdict = bench.verdict(NAME, GPU)
    assert verdict.outcome is outcome


def test_precisions_are_compared_at_the_largest_batch_that_both_have(bench):
    """After an OOM everything is measured once more with less."""
    bench.stage("training", end_s=160.0)  # there is time for it
    again = [
        relabelled(replace(one, seconds=one.seconds / 2, work=one.work / 4, t_s=one.t_s + 30), batch=4)
        for one in bench.recording.rounds
        if one.stage == "training" and one.label("part") == "precision"
    ]
    bench.rounds(
        GPU, "training", batch=lambda one: 20 if one.label("precision") == "fp32" else one.label("batch")
    )
    assert bench.verdict(NAME, GPU).outcome is Outcome.NOT_MEASURED
    bench.recording.extend(again)
    verdict = bench.verdict(NAME, GPU)
    assert verdict.outcome is Outcome.PASS
    assert verdict.detail.startswith("a step of 4 examples takes 360 ms in fp32")


def test_what_it_will_be_held_against_is_known_before_the_run(bench):
    (criterion,) = [one for one in CRITERIA if one.name == NAME]

    def planned():
        limit = criterion.planned(bench.loaded, bench.loaded.devices()[0])
        return limit and (limit.value, limit.source)

    assert planned() == (6.75, "printed or reached by others")
    bench.settings("training", training_speedup=5.0)
    assert planned() == (5.0, bench.loaded.file)
    unknown = H200.model_copy(update={"steady": H200.steady.model_copy(update={"training_speedup": None})})
    bench.settings("training")
    bench.loaded = replace(bench.loaded, skus=bench.loaded.skus | {"h200": unknown})
    assert planned() is None


def test_without_a_known_figure_it_is_only_reported(bench):
    unknown = H200.model_copy(update={"steady": H200.steady.model_copy(update={"training_speedup": None})})
    bench.loaded = replace(bench.loaded, skus=bench.loaded.skus | {"h200": unknown})
    verdict = bench.verdict(NAME, GPU)
    assert (verdict.outcome, verdict.limit) == (Outcome.NO_LIMIT, None)
    assert verdict.measured == pytest.approx(9.0)


def test_a_failure_names_what_happened_to_the_worker(bench):
    bench.event("oom", GPU, "3 GiB wanted", 75, stage="training")
    without(bench, lambda one: one.label("precision") != "fp16")
    assert "3 GiB wanted (at t=75 s)" in bench.verdict(NAME, GPU).detail


def test_a_stage_that_did_not_run_is_not_measured(bench):
    without(bench, lambda one: False)
    del bench.recording.stages["training"]
    assert bench.verdict(NAME, GPU).detail == "the training stage did not run"


def test_an_unknown_device_without_fp16_need_not_be_measured(new_bench):
    nodes = [
        {"name": "pc1", "cpus": 8, "ram_gib": 64, "gpus": [{"sku": "unknown", "workers": 2, "memory_gib": 8}]}
    ]
    bench = new_bench({"nodes": nodes})
    bench.recording.workers = [replace(one, precisions=("fp32",)) for one in bench.recording.workers]
    bench.rounds(GPU, "training", precision="fp32")
    verdict = bench.verdict(NAME, GPU)
    assert verdict.outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize("criterion", CRITERIA)
def test_each_is_promised_where_the_card_has_fp16_and_the_level_has_the_stage(criterion):
    rig = loaded_rig()
    assert promised(criterion, rig) == ("pc1/gpu0", "pc2/gpu0")
    assert promised(criterion, rig, ("gemm", "sustained")) == ()
    peak = H200.peak_tflops.model_copy(update={"fp16": None})
    old = replace(rig, skus={"h200": H200.model_copy(update={"peak_tflops": peak})})
    assert promised(criterion, old) == ()


def test_rounds_without_a_batch_or_steps_or_time_are_no_step():
    wrong = [{"batch": None}, {"batch": 0}, {"steps": 0}, {"steps": None}, {"seconds": 0.0}]
    assert (
        step_times(Rounds.of_records([round_("fp32", 1.0, **one) for one in wrong[:-1]]), "precision") == {}
    )
    assert step_times(Rounds.of_records([round_("fp32", **wrong[-1])]), "precision") == {}
    opposed = [round_("fp32", 1.0, steps=steps) for steps in (1, -1)]
    assert step_times(Rounds.of_records(opposed), "precision") == {}
    (found,) = step_times(Rounds.of_records([round_("fp32", 1.0, batch=1, steps=1)]), "precision").values()
    assert (found.batch, found.seconds) == (1, 1.0)


@pytest.mark.parametrize(
    ("number", "step_s", "tflops"), [(9, 17 / 18, 9 / 17), (10, 0.5, 1.0), (11, 0.5, 1.0)]
)
def test_of_ten_rounds_the_slowest_is_left_out(number, step_s, tflops):
    rounds = [round_("fp16", 1.0) for _ in range(number - 1)]
    rounds.insert(3, round_("fp16", 9.0))
    (found,) = step_times(Rounds.of_records(rounds), "precision").values()
    assert (found.seconds, found.tflops) == (pytest.approx(step_s), pytest.approx(tflops))
    assert (found.precision, found.batch, found.rounds) == ("fp16", 4, number)


def test_of_two_batches_that_both_have_the_larger_is_reported(bench):
    bench.stage("training", end_s=160.0)  # there is time for it
    smaller = [
        relabelled(replace(one, seconds=one.seconds / 4, work=one.work / 4, t_s=one.t_s + 60), batch=4)
        for one in bench.recording.rounds
        if one.stage == "training" and one.label("part") == "precision"
    ]
    bench.recording.extend(smaller)
    assert bench.verdict(NAME, GPU).detail.startswith("a step of 16 examples")


def test_a_speedup_may_be_at_its_floor(bench):
    bench.settings("training", training_speedup=bench.verdict(NAME, GPU).measured)
    assert bench.verdict(NAME, GPU).outcome is Outcome.PASS


def test_a_speedup_under_its_floor_names_what_happened(bench):
    bench.settings("training", training_speedup=9.5)
    verdict = bench.verdict(NAME, GPU)
    assert (verdict.outcome, verdict.limit) == (Outcome.FAIL, 9.5)
    assert verdict.detail.endswith("80 ms in fp16")
    bench.event("oom", GPU, "3 GiB wanted", 75, stage="training")
    assert bench.verdict(NAME, GPU).detail.endswith("80 ms in fp16; 3 GiB wanted (at t=75 s)")


def test_a_known_card_without_fp16_is_required_to_have_it(bench):
    bench.recording.workers = [replace(one, precisions=("fp32",)) for one in bench.recording.workers]
    without(bench, lambda one: one.label("precision") == "fp32")
    verdict = bench.verdict(NAME, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail == "this device has no fp16"


def test_without_any_worker_it_is_the_rounds_that_are_missing(bench):
    bench.recording.workers.clear()
    without(bench, lambda one: one.label("precision") != "fp16")
    assert bench.verdict(NAME, GPU).detail.startswith("too few verified rounds")


def test_the_rounds_in_the_report_are_those_of_the_largest_batch_with_enough_of_them(bench):
    def batches(*numbers):
        made = [
            round_("fp16", 1.0 + place, subject=GPU, batch=batch)
            for batch, number in numbers
            for place in range(number)
        ]
        bench.recording.rounds = made
        return [one.label("batch") for one in measured_rounds(bench.recording, GPU)]

    assert batches((4, 30), (8, 30), (16, 1)) == [8] * 30
    assert batches((8, 30), (4, 30)) == [8] * 30
    assert batches((16, 1)) == []


@pytest.mark.parametrize(
    "fields",
    [{"batch": 0}, {"batch": None}, {"batch": 4, "verified": False}, {"batch": 4, "phase": "warmup"}],
)
def test_other_rounds_are_not_in_the_report(bench, fields):
    bench.recording.rounds = [round_("fp16", 1.0, subject=GPU, **fields) for _ in range(30)]
    assert measured_rounds(bench.recording, GPU) == []
    bench.recording.rounds = [round_("bf16", 1.0, subject=GPU, batch=4) for _ in range(30)]
    assert measured_rounds(bench.recording, GPU) == []
