"""What rests on the plan is judged only where the run's own profile plans that work."""

from dataclasses import replace

import pytest

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.run_plan import require_judged_plan
from rigproof.profiles.errors import ProfileError
from rigproof.profiles.planning.plan import recorded
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.verdict import Outcome
from support.rig_profile import RIG, loaded_rig

PLAN = make_plan(loaded_rig(), "standard")
QUICK = recorded(replace(PLAN, level="quick"))
GPU = "pc1/gpu0"


def with_first_worker(**changes):
    first, *others = PLAN.workers
    return recorded(replace(PLAN, workers=(replace(first, **changes), *others)))


def test_a_level_that_nobody_knows_cannot_be_planned(bench):
    bench.recording.run = replace(bench.recording.run, level="heroic", stages=())
    with pytest.raises(ProfileError, match="no such level"):
        Evidence(bench.recording, bench.loaded).stages  # noqa: B018 - the plan is made where it is asked for


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (None, "the recording holds no plan"),
        (
            recorded(replace(PLAN, level="quick")),
            "the recorded plan is for level quick, the run was at standard",
        ),
        (with_first_worker(gemm_size=64), "other work for pc1/gpu0#0 than the run's profile"),
        (with_first_worker(vram_mib=1.0), "other work for pc1/gpu0#0 than the run's profile"),
    ],
)
@pytest.mark.parametrize("criterion", ["throughput.sustained", "memory.success_rate", "memory.headroom"])
def test_a_run_whose_plan_is_none_or_not_its_profile_s_is_not_measured(bench, plan, expected, criterion):
    bench.recording.plan = plan
    verdict = bench.verdict(criterion, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert expected in verdict.detail


def test_the_plan_that_ran_is_judged_with_its_own_lengths(bench):
    bench.recording.plan = recorded(make_plan(bench.loaded, "standard", duration_s=3.0))
    assert {one.outcome for one in bench.verdicts()} <= {Outcome.PASS, Outcome.NO_LIMIT}


def test_work_that_the_judging_profile_plans_otherwise_is_named(bench):
    bench.judged_by(
        nodes=[node | {"gpus": [gpu | {"workers": 1} for gpu in node["gpus"]]} for node in RIG["nodes"]]
    )
    evidence = Evidence(bench.recording, bench.loaded, planned_by=bench.planned_by)
    require_judged_plan(evidence.device("pc2/gpu0"))
    with pytest.raises(NotMeasured, match=r"planned with 2 workers of .* here, but .* plans 1 worker of "):
        require_judged_plan(evidence.device(GPU))
