"""Does every worker run on the GPU that it was planned for?"""

from rigproof.criteria.criterion import Criterion, Finding, Limit, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.devices import LOSSES, DeviceEvidence
from rigproof.criteria.evidence.run_plan import require_judged_plan
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.records.identity import WorkerIdentity
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import FaultKind

NOT_UP = "see cluster.no_timeouts, and those workers' first lines in the report"


@Criterion(
    "distribution.workers_spread",
    title="workers per GPU",
    unit="workers",
    direction="equal",
    limit="the workers that the rig profile plans for this device",
    severity="config",
    remedy="check CUDA_VISIBLE_DEVICES and the `--num-gpus` that `ray start` got on the node",
    unmeasured="no worker started anywhere, or a process was kept from starting by something that is not the "
    "device; a worker says otherwise than its UUID, or replaced one of whose loss no event tells; or this "
    "device was deliberately left out; or the run was planned "
    "with other work than the profile of `rigproof judge --hwprofile` plans",
)
def workers_spread(device: DeviceEvidence) -> Finding:
    """Exactly the planned workers run on this device; each process reports the UUID of its card."""
    planned = _planned(device)
    uuid = device.identity.uuid
    came_up = {worker.worker: worker for worker in device.workers}  # the last process of each planned worker
    if not came_up:
        _raise_if_left_out(device)
    strayed = [worker for worker in device.workers if worker.uuid != uuid]
    strangers = [] if device.is_cpu else _strangers(device, uuid)
    right = len({name for name, worker in came_up.items() if worker.uuid == uuid})
    measured = right + len({worker.worker for worker in strangers})
    good = not strayed and not strangers and right == planned.value
    if good:
        _require_agreeing(device)
        require_judged_plan(device)
    detail = "" if good else _whereabouts(device, strayed, strangers)
    lost = not good and not strayed and not strangers  # none runs elsewhere: some did not start
    if lost and (by_others := device.lost_to_others()) is not None:
        raise by_others
    remedy = NOT_UP if lost else ""
    if not good and measured == planned.value:  # as many as planned, but not those
        return Finding(Outcome.FAIL, detail=detail, remedy=remedy, source=planned.source)
    return pass_or_fail(measured, planned, good=good, detail=detail, remedy=remedy)


def _require_agreeing(device: DeviceEvidence) -> None:
    """NotMeasured if a process says otherwise than its UUID does, or replaced one that was not lost."""
    lost = {event.worker for event in device.events(*LOSSES, "worker_replaced")}
    promised = (device.node_name, device.device.gpu.device)
    for one in device.workers:
        if (one.node, one.device) != promised:
            where = f"{one.node} ({one.device})"
            raise NotMeasured(f"{one.worker} reports the UUID of this device, and that it runs on {where}")
        if one.generation > 0 and one.worker not in lost:
            raise NotMeasured(f"{one.worker} was replaced at t={one.t_s:.0f} s, and no event tells why")


def _planned(device: DeviceEvidence) -> Limit:
    """The number of workers that were planned here, and the file that states it."""
    evidence = device.evidence
    if evidence.planned_by is evidence.loaded:
        return Limit(device.device.gpu.workers, device.source_of("workers"))
    return Limit(len(device.planned_workers), evidence.planned_by.file)


def _raise_if_left_out(device: DeviceEvidence) -> None:
    for event in device.events("gpu_taken", "gpu_skipped"):
        raise NotMeasured(event.message)
    if not device.evidence.recording.workers:
        raise NotMeasured("no worker started on any device")


def _strangers(device: DeviceEvidence, uuid: str) -> list[WorkerIdentity]:
    """Processes planned for another device that work on this one."""
    workers = device.evidence.workers_by_uuid.get(uuid, ())
    return [worker for worker in workers if worker.subject != device.subject]


def _whereabouts(
    device: DeviceEvidence, strayed: list[WorkerIdentity], strangers: list[WorkerIdentity]
) -> str:
    everywhere = device.evidence.workers_by_uuid
    if (strayed or strangers) and len(everywhere) == 1 and len(device.evidence.recording.gpus) > 1:
        (only,) = everywhere
        return f"all work runs on one GPU, {_name(device, only)}"
    parts = [f"{worker.worker} really runs on {_name(device, worker.uuid)}" for worker in strayed]
    parts += [f"{worker.worker} also runs here" for worker in strangers]
    if not parts:
        parts = [device.cause() or "some planned workers did not start"]
    return "; ".join(dict.fromkeys(parts))


def _name(device: DeviceEvidence, uuid: str) -> str:
    for subject, identity in device.evidence.recording.gpus.items():
        if identity.uuid == uuid:
            return subject
    return f"{uuid}, a card that is not in the profile"


def _no_other(loaded: LoadedRig, _device: PromisedDevice) -> str:
    cuda = [one for one in loaded.devices() if one.gpu.device == "cuda"]
    return "" if len(cuda) > 1 else "the rig has one GPU only"


FAULTS = (
    FaultKind(
        "wrong-gpu",
        "every worker of the rig lands on this card",
        ("distribution.workers_spread",),
        lacks=_no_other,
    ),
)
