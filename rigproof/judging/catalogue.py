"""Every criterion there is, by name, in the order in which reports show them."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType, ModuleType

from rigproof.criteria.checks import (
    activity,
    clock,
    cluster,
    compute,
    distribution,
    disturbance,
    health,
    host,
    inventory,
    memory,
    memory_errors,
    power,
    reset,
    thermal,
    transfer,
)
from rigproof.criteria.criterion import Criterion
from rigproof.stages.registry import STAGES

BEFORE_STAGES = (cluster, inventory, distribution, activity, disturbance)
AFTER_STAGES = (compute, memory, memory_errors, transfer, thermal, power, clock, health, reset, host)


def _of(checks: tuple[ModuleType, ...]) -> Iterator[Criterion]:
    for check in checks:
        yield from (value for value in vars(check).values() if isinstance(value, Criterion))


CATALOGUE: Mapping[str, Criterion] = MappingProxyType(
    {
        criterion.name: criterion
        for criterion in (
            *_of(BEFORE_STAGES),
            *(one for stage in STAGES for one in stage.criteria),
            *_of(AFTER_STAGES),
        )
    }
)
