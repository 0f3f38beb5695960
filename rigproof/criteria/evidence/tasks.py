"""The tasks of a device's workers, and how many of them succeeded.

A task is one planned worker in one stage that ran. It succeeded if the worker began (`Stage.workers`), its
device finished a round, and no event reports that it failed, died or hung in that stage. If the stage was
aborted, a task without a failure counts neither way; nor does one that was lost to others.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.devices import LOSSES, DeviceEvidence
from rigproof.criteria.evidence.evidence import ENDED
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.stage_rounds import StageRounds
from rigproof.records.measurements import Event, Stage

WANTED = re.compile(r"Tried to allocate (\d+(?:\.\d+)?) ([KMGT]iB)")
FREE = re.compile(r"of which (\d+(?:\.\d+)?) ([KMGT]iB) is free")
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
        everything = device.all_rounds
        own = device.stage_rounds.own[everything.places]
        return everything.only(own), everything.only(~own)

    return device.kept("rounds by device", divided)


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

    of_all = device.block.kept("stages of workers", lambda: _stages_of_workers(device.stage_rounds))
    worked, helped = (of_all.get((device.subject, worker, own), set()) for own in (True, False))
    return worked, helped


def _stages_of_workers(done: StageRounds) -> dict[tuple[str, str, bool], set[str]]:
    """The same for all devices of a block: by device, worker, and whether the device itself did the round."""
    columns = [done.table.coded(name) for name in ("subject", "worker", "stage")]
    subjects, workers, stages = (one.distinct for one in columns)
    shape = [*(max(1, len(one.distinct)) for one in columns), 2]
    places = np.ravel_multi_index([*(one.array for one in columns), done.own.astype(np.intp)], shape)
    codes = np.transpose(np.unravel_index(np.unique(places), shape)).tolist()
    found: dict[tuple[str, str, bool], set[str]] = defaultdict(set)
    for subject, worker, stage, own in codes:
        found[subjects[subject], workers[worker], bool(own)].add(stages[stage])
    return found


def shortage(message: str) -> str:
    """What an allocation that failed wanted, and what was free: `128 MiB wanted, 72 MiB free; pid …`.

    Torch says it in some six hundred characters, most of them advice; who holds the memory comes after that.
    """
    text, mark, holders = message.partition("; pid ")
    wanted, free = WANTED.search(text), FREE.search(text)
    if wanted:
        text = f"{_amount(wanted)} wanted" + (f", {_amount(free)} free" if free else "")
    return f"{text.partition(' Of the allocated memory')[0].rstrip('.')}{mark}{holders}"


def amount_mib(wording: re.Pattern[str], message: str) -> float | None:
    """The amount of memory that torch words like this in a message, MiB; None if it says none."""
    found = wording.search(message)
    return None if found is None else float(found[1]) * UNITS_MIB[found[2]]


def _amount(found: re.Match[str]) -> str:
    return f"{float(found[1]):g} {found[2]}"


def _moment(failure: Failure) -> float:
    return failure.t_s if math.isfinite(failure.t_s) else math.inf
