"""The tasks of a device's workers, and how many of them succeeded.

A task is one planned worker in one stage that ran. It succeeded if the worker began (`Stage.workers`), its
device finished a round, and no event reports that it failed, died or hung in that stage. If the stage was
aborted, a task without a failure counts neither way; nor does one that was lost to others.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.devices import LOSSES, DeviceEvidence
from rigproof.criteria.evidence.evidence import ENDED
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.records.measurements import Event, Stage
from rigproof.records.verdict import figure

WANTED = re.compile(r"Tried to allocate (\d+(?:\.\d+)?) ([KMGT]iB)")
FREE = re.compile(r"of which (\d+(?:\.\d+)?) ([KMGT]iB) is free")
ALLOWED = re.compile(r"(\d+(?:\.\d+)?) ([KMGT]iB) allowed;")  # by a cap on this process
IN_PIECES = re.compile(r"(\d+(?:\.\d+)?) ([KMGT]iB) is reserved by PyTorch but unallocated")
UNITS_MIB = {"KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0, "TiB": 1024.0**2}


@dataclass(frozen=True, slots=True)
class Failure:
    """A task or an allocation that failed, and when (run time, s)."""

    t_s: float
    why: str


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of tasks and allocations that succeeded, and the failed ones in the order of time."""

    good: int
    failures: tuple[Failure, ...]

    @property
    def total(self) -> int:
        """All with a known outcome."""
        return self.good + len(self.failures)


def tasks_of(device: DeviceEvidence) -> Tally:
    """All tasks and allocations of the device. NotMeasured if it was deliberately left out."""
    stages = list(device.evidence.recording.stages.values())
    planned = device.planned_workers
    if not any(worker in device.evidence.began(stage) for worker in planned for stage in stages):
        for event in device.events("gpu_taken", "gpu_skipped"):
            raise NotMeasured(event.message)
    losses = device.events(*LOSSES)
    ends = [end for stage in stages for end in _ends(device, stage, planned, losses)]
    failures = [end for end in ends if end is not None]
    failures += [Failure(event.t_s, shortage(event.message)) for event in device.events("oom")]
    good = ends.count(None) + len(device.events("allocation"))
    return Tally(good, tuple(sorted(failures, key=_moment)))


def rounds_by_device(device: DeviceEvidence) -> tuple[Rounds, Rounds]:
    """All rounds of the promised device, and those that another device (the CPU, after an OOM) did for it."""

    def divided() -> tuple[Rounds, Rounds]:
        return device.all_rounds.only(device.own), device.all_rounds.only(~device.own)

    return device.cached("rounds by device", divided)


def _ends(
    device: DeviceEvidence, stage: Stage, planned: tuple[str, ...], losses: Sequence[Event]
) -> Iterator[Failure | None]:
    """None for each successful task of the stage, the first failure of each other one."""
    kind = device.evidence.kinds[stage.name]
    for worker in planned if kind.all_workers else planned[:1]:
        loss = next((one for one in losses if one.stage == stage.name and one.worker == worker), None)
        if loss is not None:
            yield from [] if "disturbed" in loss.data else [Failure(loss.t_s, loss.message)]
        elif not kind.by_device:  # what a crew did, or why it did not begin, is judged for the crew
            yield from [None] if worker in device.evidence.began(stage) else []
        elif worker not in device.evidence.began(stage):
            if device.lost_to_others() is None:
                cause = device.cause()
                yield Failure(stage.start_s, f"{worker} did not begin" + (f": {cause}" if cause else ""))
        elif stage.status in ENDED:
            worked, helped = _stages_of(device, worker)
            if stage.name in worked:
                yield None
            else:
                where = " but on the CPU" if stage.name in helped else ""
                yield Failure(stage.start_s, f"{worker} finished no round of {stage.name}{where}")


def _stages_of(device: DeviceEvidence, worker: str) -> tuple[set[str], set[str]]:
    """The stages in which a worker finished a round on its device, and those in which it did so elsewhere."""
    rounds, own = device.all_rounds, device.own
    its = rounds.same("worker", worker)
    return rounds.only(its & own).distinct("stage"), rounds.only(its & ~own).distinct("stage")


def shortage(message: str) -> str:
    """What an allocation that failed wanted, and what was free: `128 MiB wanted, 72 MiB free; pid …`.

    Torch says it in some six hundred characters, most of them advice; who holds the memory comes after that.
    Where that much was at hand, it also says why that did not help.
    """
    text, mark, holders = message.partition("; pid ")
    wanted_mib, free_mib = (amount_mib(one, text) for one in (WANTED, FREE))
    if wanted_mib is not None:
        text = f"{_amount(wanted_mib)} wanted"
        if free_mib is not None:
            # Torch asks the driver what is free after it has failed.
            later = " a moment later" if free_mib >= wanted_mib and _allowed_mib(message) is None else ""
            text += f", {_amount(free_mib)} free{later}"
        if (allowed_mib := _allowed_mib(message)) is not None:
            text += f", but this process may hold {_amount(allowed_mib)} at most"
        if (pieces_mib := _pieces_mib(message)) is not None:
            text += f", and {_amount(pieces_mib)} held by torch in pieces that are too small"
    return f"{text.partition(' Of the allocated memory')[0].rstrip('.')}{mark}{holders}"


def way_out(message: str) -> str:
    """The next step after an allocation that failed though as much was at hand; empty if it was not."""
    if _allowed_mib(message) is not None:
        return (
            "lower `vram_share`, or raise the cap: `memory.fraction_share` in the rig profile, or torch's own"
        )
    if _pieces_mib(message) is not None:
        return "lower `vram_share`, or switch on `memory.expandable_segments` against fragmentation"
    return ""


def _allowed_mib(message: str) -> float | None:
    """The cap on a process that kept it from an allocation for which the card had room, MiB; else None."""
    wanted_mib, free_mib, allowed_mib = (amount_mib(one, message) for one in (WANTED, FREE, ALLOWED))
    room = wanted_mib is not None and free_mib is not None and free_mib >= wanted_mib
    return allowed_mib if room else None


def _pieces_mib(message: str) -> float | None:
    """What torch held, in pieces too small for an allocation that would have fitted in all of it, MiB."""
    wanted_mib, pieces_mib = (amount_mib(one, message) for one in (WANTED, IN_PIECES))
    enough = wanted_mib is not None and pieces_mib is not None and pieces_mib >= wanted_mib
    return pieces_mib if enough and _allowed_mib(message) is None else None


def amount_mib(wording: re.Pattern[str], message: str) -> float | None:
    """The amount of memory that torch words like this in a message, MiB; None if it says none."""
    found = wording.search(message)
    return None if found is None else float(found[1]) * UNITS_MIB[found[2]]


def _amount(mib: float) -> str:
    """An amount of memory in a unit that people read: `14 GiB`, `72 MiB`."""
    unit = "GiB" if mib >= UNITS_MIB["GiB"] else "MiB" if mib >= 1 or not mib else "KiB"
    return figure(mib / UNITS_MIB[unit], unit)


def _moment(failure: Failure) -> float:
    return failure.t_s if math.isfinite(failure.t_s) else math.inf
