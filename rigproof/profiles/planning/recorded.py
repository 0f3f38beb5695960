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
    """A recorded plan is missing, unreadable or impossible; the message says which and why."""


def recorded(plan: Plan) -> RecordedPlan:
    """The plan in the form in which a run records it."""
    return RecordedPlan(asdict(plan))


def restored(recorded_plan: RecordedPlan | None) -> Plan:
    """The plan that a run recorded. The data may come from anywhere, so all of it is checked.

    Raises:
        PlanError: there is none, it has not the shape of a plan, or it is impossible.
    """
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
    if plan.laps < 1:
        raise PlanError(f"the recorded plan has {plan.laps} laps")
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
    lengths = (stage.expected_s, stage.settle_s, stage.measure_s, stage.round_s, stage.shift_s)
    if not all(0 <= one < math.inf for one in lengths) or stage.turns < 1 or stage.shifts < 0:
        raise PlanError(f"the recorded plan has an impossible stage, {one_line(stage.name, 60)}")


def differing(plan: Plan, other: Plan) -> str:
    """The name of the first worker that the plans describe differently; empty if there is none.

    A worker that only one plan has counts too. The lengths of stages are not compared, since `--hw-duration`
    may have changed them for one run.
    """
    theirs = {one.worker: one for one in other.workers}
    for one in plan.workers:
        if theirs.pop(one.worker, None) != one:
            return one.worker
    return next(iter(theirs), "")
