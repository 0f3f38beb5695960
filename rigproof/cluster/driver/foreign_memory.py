"""Which GPUs are not loaded, because other processes hold memory that the plan needs there. Pure."""

from collections.abc import Mapping

from rigproof.profiles.planning.operands import room_of
from rigproof.profiles.planning.plan import Plan
from rigproof.records.identity import GpuIdentity
from rigproof.records.measurements import Event, ForeignMemory


def skipped(
    gpus: Mapping[str, GpuIdentity], foreign: Mapping[str, ForeignMemory], plan: Plan, t_s: float
) -> dict[str, Event]:
    """A "gpu_skipped" event for each GPU that is not to be loaded. All three mappings are by subject.

    Filling such a card would make other users' allocations fail as well as ours. The limit is that of the
    criterion inventory.foreign_memory (`profiles.planning.operands`): the card's memory less the driver's
    reserve, what its planned workers fill, and their contexts. A card whose use cannot be read is loaded.
    """
    events = {}
    for subject, gpu in gpus.items():
        reading = foreign.get(subject)
        if reading is None or reading.used_mib is None:
            continue
        room = room_of(plan.workers_of(subject), gpu, reading)
        if room.holds(reading.used_mib):
            continue
        message = (
            f"not loaded: {_holders(reading.pids)} {reading.used_mib:.0f} MiB of it, and beside the plan "
            f"{max(0.0, room.free_mib):.0f} MiB are free; see inventory.foreign_memory"
        )
        data = {"used_mib": reading.used_mib, "free_mib": room.free_mib, "pids": reading.pids}
        events[subject] = Event(t_s, "gpu_skipped", subject, message, data=data)
    return events


def _holders(pids: tuple[int, ...] | None) -> str:
    if not pids:  # not readable, or not named by the driver
        return "others hold"
    if len(pids) == 1:
        return f"the process with pid {pids[0]} holds"
    return f"processes with pids {', '.join(map(str, pids))} hold"
