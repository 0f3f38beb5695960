"""A plan as a run records it, and back: judging uses the tasks that the workers really got."""

import math
from dataclasses import asdict

from pydantic import TypeAdapter, ValidationError

from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.planning.plan import Plan, WorkerPlan
from rigproof.records.message_text import first_problem, one_line
from rigproof.records.recording import RecordedPlan

_ADAPTER = TypeAdapter(Plan)


class PlanError(ValueError):
    """A recorded plan that is none, or that cannot be; the message says why."""


def recorded(plan: Plan) -> RecordedPlan:
    """What a run writes down of its plan."""
    return RecordedPlan(asdict(plan))


def restored(recorded_plan: RecordedPlan | None) -> Plan:
    """The plan that a run wrote down: data from anywhere. PlanError where it is none, or impossible."""
    if recorded_plan is None:
        raise PlanError("the recording holds no plan")
    try:
        plan: Plan = _ADAPTER.validate_python(recorded_plan.plan)
    except (ValidationError, RecursionError) as error:
        reason = first_problem(error) if isinstance(error, ValidationError) else "nested too deep"
        raise PlanError(f"the recorded plan is not a valid plan: {reason}") from None
    names = [one.worker for one in plan.workers]
    if len(set(names)) < len(names):
        raise PlanError("the recorded plan has two workers of one name")
    if len(set(plan.stage_names)) < len(plan.stages):
        raise PlanError("the recorded plan has a stage twice")
    for worker in plan.workers:
        _require_worker(worker)
    for stage in plan.stages:
        _require_stage(stage)
    return plan


def _require_worker(worker: WorkerPlan) -> None:
    figures = (worker.gpu_share, worker.cpus, worker.vram_mib)
    if not all(0 <= one < math.inf for one in figures) or worker.gemm_size < 1:
        raise PlanError(f"the recorded plan has an impossible worker, {one_line(worker.worker, 60)}")


def _require_stage(stage: StagePlan) -> None:
    lengths = (stage.expected_s, stage.settle_s, stage.measure_s, stage.round_s)
    if not all(0 <= one < math.inf for one in lengths) or stage.turns < 1:
        raise PlanError(f"the recorded plan has an impossible stage, {one_line(stage.name, 60)}")


def differing(plan: Plan, other: Plan) -> str:
    """The first worker that one plan has otherwise than the other; empty where they plan the same work.

    How long stages last may differ: `--duration` says it for a run.
    """
    theirs = {one.worker: one for one in other.workers}
    for one in plan.workers:
        if theirs.pop(one.worker, None) != one:
            return one.worker
    return next(iter(theirs), "")
