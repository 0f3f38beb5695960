"""The plan that a run was given, and whether what is judged was planned by the profile that judges."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast, get_args

from rigproof.criteria.criterion import NotMeasured
from rigproof.profiles.errors import ProfileError, problem
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import Plan, PlanError, WorkerPlan, differing, restored
from rigproof.profiles.planning.planning import make_plan
from rigproof.profiles.tables.levels import LevelName
from rigproof.records.message_text import one_line
from rigproof.records.recording import Recording

if TYPE_CHECKING:  # these have the evidence, which imports this
    from rigproof.criteria.evidence.devices import DeviceEvidence


def plan_of(loaded: LoadedRig, level: str) -> Plan:
    """The plan that a profile gives. ProfileError if it gives none."""
    if level not in get_args(LevelName):
        way_out = "read it with the version of rigproof that wrote it"
        raise ProfileError([problem("recording", "level", level, "no such level", way_out)])
    return make_plan(loaded, cast(LevelName, level))


def recorded_plan(recording: Recording, planned_by: LoadedRig) -> Plan | str:
    """The plan of the run, as recorded; or why it does not count. `planned_by`: the run's own profile."""
    try:
        plan = restored(recording.plan)
    except PlanError as error:
        return str(error)
    level = recording.run.level
    if plan.level != level:
        return f"the recorded plan is for level {plan.level}, the run was at {level}"
    worker = differing(plan, plan_of(planned_by, level))
    if worker:
        own = planned_by.file
        return f"the recorded plan has other work for {one_line(worker, 60)} than the run's profile, {own}"
    return plan


def require_judged_plan(device: "DeviceEvidence") -> None:
    """NotMeasured if the profile plans other work here than the run was given, or that is not known."""
    evidence, plan = device.evidence, device.evidence.plan
    if evidence.planned_by is evidence.loaded:
        return
    given, wanted = (_work(one.workers_of(device.subject)) for one in (plan, evidence.judged_plan))
    if given != wanted:
        both = f"this run was planned with {given} here, but {evidence.loaded.file} plans {wanted}"
        raise NotMeasured(f"{both}; run again with that profile")


def _work(workers: Sequence[WorkerPlan]) -> str:
    """The number of workers, the memory that each fills, and the size of its matrices."""
    number = f"{len(workers)} worker{'' if len(workers) == 1 else 's'}"
    each = {f"{one.vram_mib / 1024:.2f} GiB and matrices of {one.gemm_size}" for one in workers}
    return f"{number} of {' or '.join(sorted(each))}" if each else number
