import pytest

from rigproof.history import goodness
from rigproof.records.measurements import FigureRate
from rigproof.records.verdict import Outcome, Verdict

STAGES = {
    "throughput.gemm_bf16": ("gemm",),
    "throughput.sustained": ("sustained",),
    "host.cpu_band": ("sustained",),
    "activity.undisturbed": ("gemm", "sustained"),
    "host.disk": ("disk",),
    "host.limits": (),
}


def keep_good(content, verdicts, **options):
    return goodness.keep_good(content, verdicts, stages_of=STAGES.__getitem__, **options)


def stored(criterion="throughput.gemm_bf16", subject="pc1/gpu0"):
    extra = {"criterion": criterion, "subject": subject, "figure": "gemm_bf16_tflops"}
    return {"name": "x", "extra_info": extra, "stats": {"ops": 70}}


def kept_as(rate, benchmark, **more):
    return benchmark | {"extra_info": benchmark["extra_info"] | {"rate": rate} | more}


def verdict(outcome, criterion="throughput.gemm_bf16", subject="pc1/gpu0"):
    rate = FigureRate("gemm_bf16_tflops", 71.5, "TFLOP/s", {"precision": "bf16"}, 1)
    return Verdict(criterion, subject, outcome, rates=(rate,))


@pytest.mark.parametrize(
    ("outcome", "stays"),
    [
        (Outcome.PASS, True),
        (Outcome.WARN, True),
        (Outcome.NO_LIMIT, True),
        (Outcome.FAIL, False),
        (Outcome.NOT_MEASURED, False),
    ],
)
def test_only_what_a_criterion_accepted_is_kept(outcome, stays):
    content = {"version": "5", "benchmarks": [stored()]}
    kept = keep_good(content, [verdict(outcome)])
    assert kept == {"version": "5", "benchmarks": [kept_as(71.5, stored())] if stays else []}
    assert content["benchmarks"] == [stored()]


def test_each_card_is_kept_or_dropped_for_itself():
    content = {"benchmarks": [stored(), stored(subject="pc1/gpu1"), stored("throughput.sustained")]}
    verdicts = [
        verdict(Outcome.PASS),
        verdict(Outcome.FAIL, subject="pc1/gpu1"),
        verdict(Outcome.PASS, "throughput.sustained"),
    ]
    kept = [kept_as(71.5, one, accepted=False) for one in (stored(), stored("throughput.sustained"))]
    assert keep_good(content, verdicts)["benchmarks"] == kept


@pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.NOT_MEASURED])
def test_what_a_run_that_was_not_accepted_keeps_says_so(outcome):
    verdicts = [verdict(Outcome.PASS), Verdict("history.regression", "pc1/gpu0", outcome)]
    kept = keep_good({"benchmarks": [stored()]}, verdicts)["benchmarks"]
    assert kept == [kept_as(71.5, stored(), accepted=False)]


def test_a_benchmark_without_a_judged_rate_is_not_kept():
    bare = Verdict("throughput.gemm_bf16", "pc1/gpu0", Outcome.PASS)
    assert keep_good({"benchmarks": [stored()]}, [bare])["benchmarks"] == []


def test_what_nobody_judged_is_not_kept():
    assert keep_good({"benchmarks": [stored(), {"name": "foreign"}]}, [])["benchmarks"] == []


def test_a_simulated_run_leaves_nothing_in_the_history():
    assert keep_good({"benchmarks": [stored()]}, [verdict(Outcome.PASS)], simulated=True)["benchmarks"] == []


@pytest.mark.parametrize(
    ("criterion", "subject", "kept"),
    [
        ("activity.undisturbed", "pc1/gpu0", []),
        ("activity.undisturbed", "pc1/gpu1", ["throughput.gemm_bf16", "throughput.sustained"]),
        ("host.cpu_band", "pc1", ["throughput.gemm_bf16"]),
        ("host.cpu_band", "pc2", ["throughput.gemm_bf16", "throughput.sustained"]),
        ("host.disk", "pc1", ["throughput.gemm_bf16", "throughput.sustained"]),
        ("host.limits", "pc1", ["throughput.gemm_bf16", "throughput.sustained"]),
        ("activity.undisturbed", "rig", []),
    ],
)
def test_a_rate_that_others_may_have_disturbed_is_not_kept_though_it_was_good_enough(
    criterion, subject, kept
):
    content = {"benchmarks": [stored(), stored("throughput.sustained")]}
    good = [verdict(Outcome.PASS), verdict(Outcome.PASS, "throughput.sustained")]

    def named(remedy):
        disturbed = Verdict(criterion, subject, Outcome.NOT_MEASURED, detail="pid 7", remedy=remedy)
        found = keep_good(content, [*good, disturbed])["benchmarks"]
        return [one["extra_info"]["criterion"] for one in found]

    assert named("end pid 7") == kept
    # Without a next step nobody disturbed it: a sensor did not answer, or a part was lost by itself.
    assert (
        named("")
        == named("follows from x.y of pc1, see there first")
        == ["throughput.gemm_bf16", "throughput.sustained"]
    )
