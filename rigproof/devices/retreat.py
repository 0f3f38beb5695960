"""What a worker holds, and what it tries next if memory did not suffice. Pure."""

from dataclasses import dataclass, replace
from itertools import count

from rigproof.profiles.planning.operands import STEP, operands_mib
from rigproof.profiles.planning.plan import MemoryPlan

EMERGENCY, CPU = "emergency", "cpu"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A pool of `size` × `size` matrices in `target_mib`.

    `part` is "" for the planned work, EMERGENCY for the tiny one, CPU if the CPU does it. `lessons` counts
    the failures that made `size` smaller.
    """

    target_mib: float
    size: int
    part: str = ""
    lessons: int = 0


def learned_size(plan: MemoryPlan, planned: int, failures: int) -> int:
    """Matrix size after that many failures: × `size_share` for each, a multiple of 8, at least `least_size`.

    Never larger than planned.
    """
    learned = int(planned * plan.size_share**failures) // STEP * STEP
    return min(planned, max(plan.least_size, learned))


def next_attempt(
    plan: MemoryPlan, last: Attempt, planned: int, precision: str, *, in_round: bool, fallback: bool
) -> Attempt | None:
    """The attempt after `last` failed, None if nothing is left. `planned` is the size before any failure.

    The target loses a tenth (`retry_share`) down to `last_resort_mib`. A failed round also makes the matrices
    smaller, and so does a target that holds no pair of them. If the last resort could not be filled,
    one pair is tried, of smaller and smaller matrices; then tiny ones; then the CPU, if `fallback` allows it.
    """
    if last.part == EMERGENCY and fallback:
        return Attempt(operands_mib(plan.least_size), plan.least_size, CPU)
    if last.part:
        return None
    exhausted = last.target_mib <= plan.last_resort_mib
    one_pair = exhausted and not in_round
    target_mib = (
        last.target_mib if exhausted else max(plan.last_resort_mib, last.target_mib * plan.retry_share)
    )
    smallest = min(planned, plan.least_size)
    for lessons in count(last.lessons + (in_round or one_pair)):
        size = learned_size(plan, planned, lessons)
        needed_mib = operands_mib(size, precision)
        smaller = size < last.size or not exhausted
        if smaller and (one_pair or needed_mib <= target_mib):
            held_mib = needed_mib if one_pair else target_mib
            return replace(last, target_mib=held_mib, size=size, lessons=lessons)
        if size == smallest:
            break
    return Attempt(operands_mib(plan.emergency_size, precision), plan.emergency_size, EMERGENCY)
