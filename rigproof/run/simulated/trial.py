"""A whole acceptance of a simulated rig in this process, in simulated time; no pytest, no Ray, no file."""

from collections.abc import Callable, Iterable
from functools import partial

from rigproof.cluster.driver.rig_cluster import RigCluster
from rigproof.profiles.auto import completed
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import recorded
from rigproof.profiles.planning.planning import make_plan
from rigproof.profiles.tables.levels import LevelName
from rigproof.records.disk.clean import clean
from rigproof.records.identity import RunInfo
from rigproof.records.measurements import Event
from rigproof.records.recording import Record, Recording, Sample
from rigproof.run.acceptance import AcceptanceRun
from rigproof.run.simulated.ground import simulated_ground
from rigproof.run.simulated.making import planned_faults
from rigproof.run.simulated.stages import heard_by
from rigproof.simulation.faults.injected import SimulatedClock
from rigproof.simulation.host import simulated_inventory
from rigproof.simulation.rig import SimulatedRig
from rigproof.stages.registry import FORMS

NAME = "simulated"


def simulated_recording(
    loaded: LoadedRig,
    level: LevelName,
    faults: Iterable[str] = (),
    *,
    seed: int = 0,
    another_attempt: Callable[[Recording, LoadedRig, str], str] = lambda _recording, _loaded, _stage: "",
) -> Recording:
    """The recording of an acceptance of this rig with these faults, kept in memory only.

    `another_attempt` returns why a stage that has ended must be attempted once more, or an empty text; by
    default no stage is.
    What the profile leaves open comes from `simulated_inventory`; all its devices have to be GPUs.

    Raises:
        FaultError: a fault that this rig at this level cannot have.
    """
    loaded = completed(loaded, simulated_inventory(loaded))
    plan = make_plan(loaded, level)
    injected = planned_faults(tuple(faults), loaded, plan)
    rig = SimulatedRig(loaded, plan, FORMS, injected, seed)
    clock = SimulatedClock()
    run = RunInfo(
        run_id=NAME,
        started_at="1970-01-01T00:00:00Z",
        level=level,
        rigproof_version=NAME,
        python_version=NAME,
        rig=loaded.dump(),
        stages=plan.stage_names,
        simulated=True,
        command=(),
    )
    recording = Recording(run, recorded(plan))
    sink, ground = heard_by(clock, plan, partial(_keep, recording)), simulated_ground(rig, clock, inline=True)
    cluster = RigCluster(
        loaded, plan, ray_address=None, sink=sink, now_s=clock.now_s, run_id=NAME, ground=ground
    )
    acceptance = AcceptanceRun(
        loaded,
        plan,
        recording,
        sink,
        cluster,
        needed=plan.stage_names,
        now_s=clock.now_s,
        on_tick=_nothing_to_show,
        another_attempt=lambda stage: another_attempt(recording, loaded, stage),
    )
    with acceptance:
        recording.extend(rig.earlier_events(clock.now_s()))
        acceptance.finished()
    return recording


def _keep(recording: Recording, record: Record | Sample) -> None:
    """Add it; an event's data as a disk would keep it, which the next turns of a stage read."""
    recording.add(clean(record) if isinstance(record, Event) else record)


def _nothing_to_show() -> None:
    """Show nothing."""
