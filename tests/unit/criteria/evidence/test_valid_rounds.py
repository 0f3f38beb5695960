"""Rounds that are no valid measurement are not believed."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.valid_rounds import require_valid
from rigproof.records.measurements import TFLOP, Round
from rigproof.records.verdict import Outcome
from rigproof.stages.registry import KINDS

GPU, OTHER = "pc1/gpu0", "pc2/gpu0"


@pytest.mark.parametrize(
    ("work", "seconds"), [(1e15, 5e-324), (1e13, 0.5), (np.inf, 1.0), (1.0, 1e300), (1e300, np.nan)]
)
def test_a_round_whose_rate_is_not_finite_or_out_of_all_reason_is_no_measurement(work, seconds):
    labels = {"precision": "bf16", "size": 1}
    sound = Round(1.0, "gemm", "a#0", "a", "measure", 0.5, 1.0, TFLOP, True, labels)
    assert len(require_valid(Rounds.of_records([sound]), "gemm", KINDS)) == 1
    rounds = Rounds.of_records([sound, replace(sound, t_s=9.0, work=work, seconds=seconds)])
    with pytest.raises(NotMeasured) as refused:
        require_valid(rounds, "gemm", KINDS)
    said = f"a round reports {work:g} TFLOP in {seconds:g} s at t=9 s, which is not a valid measurement"
    assert refused.value.reason == said


@pytest.mark.parametrize("stage", ["gemm", "training"])
def test_one_impossible_round_concerns_its_own_device_and_stage_only(bench, stage):
    [first, *_] = (one for one in bench.recording.rounds if (one.subject, one.stage) == (GPU, stage))
    bench.recording.rounds = [
        replace(one, seconds=-1.0) if one == first else one for one in bench.recording.rounds
    ]
    evidence = Evidence(bench.recording, bench.loaded)
    for subject in (GPU, OTHER):
        for other in ("gemm", "training"):
            bad = (subject, other) == (GPU, stage)
            with pytest.raises(NotMeasured) if bad else nullcontext():
                assert len(evidence.device(subject).rounds(other))


# Units


RATES = {
    "gemm": "throughput.gemm_bf16",
    "sustained": "throughput.sustained",
    "training": "training.step",
    "sharing": "scaling.sharing",
}


@pytest.mark.parametrize("unit", ["GB", "GFLOP"])
@pytest.mark.parametrize("stage", RATES)
def test_a_round_in_another_unit_than_its_stage_counts_in_is_no_measurement(bench, stage, unit):
    bench.rounds("pc1/gpu0", stage, unit=unit)
    found = bench.verdict(RATES[stage], "pc1/gpu0")
    assert found.outcome is Outcome.NOT_MEASURED
    assert f" {unit} in " in found.detail
    assert "of a stage whose work is counted in TFLOP, which is not a valid measurement" in found.detail
    assert bench.verdict(RATES[stage], "pc2/gpu0").outcome is not Outcome.NOT_MEASURED


# Labels


@pytest.mark.parametrize(
    ("precision", "said"), [(None, "without its precision"), ("fp99", "with 'fp99' as its precision")]
)
def test_a_round_whose_labels_are_not_those_of_its_stage_is_no_measurement(bench, precision, said):
    bench.rounds("pc1/gpu0", "feeding", precision=precision)
    found = bench.verdict("feeding.idle_gaps", "pc1/gpu0")
    assert found.outcome is Outcome.NOT_MEASURED
    assert f"{said}, which is not a valid measurement" in found.detail
    assert bench.verdict("feeding.idle_gaps", "pc2/gpu0").outcome is Outcome.PASS


@pytest.mark.parametrize("kind", KINDS.kinds, ids=lambda kind: kind.name)
def test_every_label_that_a_stage_declares_is_needed_but_those_that_it_calls_optional(kind):
    labels = {one.name: (one.values or ("a",))[0] if one.kind is str else 1 for one in kind.labels}
    assert KINDS.misfit(kind.name, labels) == ""
    for one in kind.labels:
        lacking = {name: value for name, value in labels.items() if name != one.name}
        assert KINDS.misfit(kind.name, lacking) == ("" if one.optional else f"without its {one.name}")
        assert KINDS.misfit(kind.name, labels | {one.name: True}) == f"with True as its {one.name}"


@pytest.mark.parametrize(
    ("stage", "label", "other"),
    [("gemm", "size", 512), ("sustained", "size", 512), ("sharing", "size", 2048), ("gemm", "size", 4096)],
)
def test_a_label_that_is_not_what_the_worker_was_told_is_not_believed(bench, stage, label, other):
    told = {worker: {"size": 1024} for worker in ("pc1/gpu0#0", "pc1/gpu0#1")}
    bench.stage(stage, settings={"specs": told})
    device = Evidence(bench.recording, bench.loaded).device("pc1/gpu0")
    assert len(device.rounds(stage))
    bench.rounds("pc1/gpu0", stage, **{label: other})
    device = Evidence(bench.recording, bench.loaded).device("pc1/gpu0")
    with pytest.raises(NotMeasured, match=f"rounds state size {other}, and .* were told to do size 1024"):
        device.rounds(stage)


def test_a_device_that_ran_out_of_memory_may_do_smaller_products_and_no_larger_ones(bench):
    bench.stage("sustained", settings={"specs": {"pc1/gpu0#0": {"size": 1024}}})
    bench.event("oom", "pc1/gpu0", "CUDA out of memory", t_s=32.0, stage="sustained")
    for size, believed in ((512, True), (2048, False)):
        bench.rounds("pc1/gpu0", "sustained", size=size)
        device = Evidence(bench.recording, bench.loaded).device("pc1/gpu0")
        with nullcontext() if believed else pytest.raises(NotMeasured):
            assert len(device.rounds("sustained"))
