"""Memory that ran out because others held it: strangers, or who was there before the run."""

import re
from dataclasses import replace

from rigproof.criteria.criterion import Trouble
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.events import NO_MEMORY
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.strangers import (
    NOT_BY_STRANGERS,
    explanation,
    failed_by_itself,
    held_at,
    holders_at,
    known_strangers,
    stages_of,
    suspects,
)
from rigproof.criteria.evidence.tasks import FREE, WANTED, amount_mib
from rigproof.profiles.planning.operands import IDLE_MIB, room_of
from rigproof.records.measurements import Event
from rigproof.records.processes import MIB_PER_GIB
from rigproof.records.verdict import figure

RUN_ALONE = "end what holds memory of that card, and run again"
# As torch words them when memory ran out.
CAPACITY = re.compile(r"total capacity of (\d+(?:\.\d+)?) ([KMGT]iB)")
OWN = re.compile(r"this process has (\d+(?:\.\d+)?) ([KMGT]iB) memory in use")


def crowded_by(device: DeviceEvidence, trouble: Trouble) -> str | None:
    """Explains a lack of memory if a stranger held some at the time, or others held what was missing."""
    moment_s = trouble.finding.from_s
    about = suspects(device, stages_of(device, trouble).values())
    holding = [one for one in about if moment_s is None or one.near(moment_s)]
    return explanation(holding, "held memory of this card") if holding else _short_for_others(device)


def ran_short(device: DeviceEvidence, trouble: Trouble) -> str | None:
    """Explains a low rate if strangers, or others, held the memory that the work needed."""
    ooms = device.events("oom")
    about = suspects(device, stages_of(device, trouble).values())
    crowding = [one for one in about if any(one.near(event.t_s) for event in ooms)]
    if crowding:
        return explanation(crowding, "held memory that the work needed")
    return _short_for_others(device)


def for_want_of_memory(rig: Evidence, loss: Event) -> Event:
    """A worker's failed task, marked as no fault of the rig if others held the memory that it had to have.

    The worker itself has to have run out of memory before, and its error to say so.
    """
    told = "MemoryError" in loss.message or NO_MEMORY in loss.message
    devices = [one for one in rig.devices if one.subject == loss.subject]
    if loss.kind != "worker_failed" or "disturbed" in loss.data or not (told and devices):
        return loss
    device = devices[0]
    ooms = [one for one in device.events("oom") if one.worker == loss.worker and one.t_s <= loss.t_s]
    holding = [] if device.events(*NOT_BY_STRANGERS) else known_strangers(device)
    crowding = [one for one in holding if any(one.near(oom.t_s) for oom in ooms)]
    why = explanation(crowding, "held memory of this card") if crowding else _short_for_others(device)
    if not ooms or why is None:
        return loss
    return replace(loss, message=f"{loss.message}; {why}", data=loss.data | {"disturbed": RUN_ALONE})


def _short_for_others(device: DeviceEvidence) -> str | None:
    """Explains that memory ran out if each time others held at least as much as was asked for.

    They need not be strangers: they may have been there before the run, or belong to another container,
    whose processes the driver does not list here.
    """
    ooms = device.events("oom")
    if not ooms or device.events(*NOT_BY_STRANGERS) or failed_by_itself(device):
        return None
    for event in ooms:
        wanted_mib, others_mib = amount_mib(WANTED, event.message), _others_mib(device, event)
        if wanted_mib is None or others_mib < max(wanted_mib, IDLE_MIB):
            return None
    first = ooms[0]
    who = holders_at(device, first.t_s)
    if not who:
        who = f"others hold {figure(_others_mib(device, first) / MIB_PER_GIB, 'GiB')}"
    return f"memory ran out at t={first.t_s:.0f} s while {who} of this card"


def _others_mib(device: DeviceEvidence, oom: Event) -> float:
    """What others held of the card as memory ran out, as far as it is known, MiB.

    By the driver's list of processes; and by torch, which says how large the card is, what is free and what
    its own process holds: all else is others', less the driver's reserve and what the plan gives the card's
    other workers.
    """
    listed_mib = sum(one.used_mib or 0.0 for one in held_at(device, oom.t_s))
    total_mib, free_mib, own_mib = (amount_mib(one, oom.message) for one in (CAPACITY, FREE, OWN))
    foreign = device.foreign_memory
    if total_mib is None or free_mib is None or own_mib is None or foreign is None:
        return listed_mib
    beside = [one for one in device.evidence.plan.workers_of(device.subject) if one.worker != oom.worker]
    room = room_of(beside, device.identity, foreign)
    usable_mib = min(total_mib, room.total_mib - room.reserved_mib)
    return max(listed_mib, usable_mib - room.planned_mib - room.contexts_mib - free_mib - own_mib)
