"""A plan that a run wrote down is read back as it was, and an impossible one is refused with the reason."""

import json
from dataclasses import replace

import pytest

from rigproof.profiles.planning.plan import PlanError, differing, recorded, restored
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.recording import RecordedPlan
from support.rig_profile import loaded_rig

PLAN = make_plan(loaded_rig(), "standard")


def through_json(**changes):
    plan = json.loads(json.dumps(recorded(PLAN).plan))
    return RecordedPlan(plan | changes)


def test_a_plan_is_read_back_as_it_was():
    assert restored(through_json()) == PLAN


def workers(**changes):
    first, *others = through_json().plan["workers"]
    return {"workers": [first | changes, *others]}


@pytest.mark.parametrize(
    ("recorded_plan", "expected"),
    [
        (None, "the recording holds no plan"),
        (RecordedPlan({}), "the recorded plan is not a valid plan: level"),
        (through_json(level="never"), "the recorded plan is not a valid plan: level"),
        (through_json(workers="many"), "the recorded plan is not a valid plan: workers"),
        (through_json(**workers(vram_mib=-1.0)), "an impossible worker, pc1/gpu0#0"),
        (through_json(**workers(gemm_size=0)), "an impossible worker, pc1/gpu0#0"),
        (through_json(**workers(cpus=float("inf"))), "an impossible worker, pc1/gpu0#0"),
        (through_json(**workers(worker="pc1/gpu0#1")), "two workers of one name"),
        (through_json(stages=2 * through_json().plan["stages"][:1]), "a stage twice"),
        (
            through_json(stages=[through_json().plan["stages"][0] | {"round_s": float("nan")}]),
            "an impossible stage, gemm",
        ),
    ],
)
def test_an_impossible_plan_is_refused_with_the_reason(recorded_plan, expected):
    with pytest.raises(PlanError, match=expected):
        restored(recorded_plan)


def test_plans_differ_in_the_work_of_a_worker_and_not_in_how_long_a_stage_lasts():
    assert differing(PLAN, make_plan(loaded_rig(), "standard", duration_s=3.0)) == ""
    fewer = replace(PLAN, workers=PLAN.workers[:-1])
    assert differing(PLAN, fewer) == differing(fewer, PLAN) == PLAN.workers[-1].worker
    smaller = replace(PLAN.workers[0], gemm_size=64)
    assert differing(replace(PLAN, workers=(smaller, *PLAN.workers[1:])), PLAN) == smaller.worker
