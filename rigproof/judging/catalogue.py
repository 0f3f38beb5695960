"""All criteria, by name, in the order in which reports show them, and all faults."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from rigproof.criteria.checks import (
    activity,
    clock,
    cluster,
    compute,
    defects,
    distribution,
    disturbance,
    driver,
    ecc_mode,
    fabric,
    health,
    host,
    host_limits,
    inventory,
    memory,
    memory_errors,
    modes,
    nvlink,
    pcie_errors,
    power,
    regression,
    reset,
    thermal,
    thermal_margin,
    transfer,
)
from rigproof.criteria.criterion import Criterion
from rigproof.criteria.evidence import sensor_rules
from rigproof.profiles.tables.base import LimitKey
from rigproof.simulation.faults.kinds import FaultKind, Faults
from rigproof.stages.registry import KINDS

BEFORE_STAGES = (cluster, inventory, driver, modes, distribution, activity, disturbance)
AFTER_STAGES = (
    *(compute, memory, memory_errors, transfer, pcie_errors, thermal, thermal_margin),
    *(power, clock, health, ecc_mode, defects, nvlink, fabric, reset, host, host_limits, sensor_rules),
    regression,
)


def _of(checks: tuple[ModuleType, ...]) -> Iterator[Criterion]:
    for check in checks:
        yield from (value for value in vars(check).values() if isinstance(value, Criterion))


CATALOGUE: Mapping[str, Criterion] = MappingProxyType(
    {
        criterion.name: criterion
        for criterion in (
            *_of(BEFORE_STAGES),
            *(one for stage in KINDS for one in stage.criteria),
            *_of(AFTER_STAGES),
        )
    }
)


# Each limit that a criterion declares, with the criteria that do.
JUDGED_BY: Mapping[LimitKey[Any], list[str]] = {
    key: [one.name for one in CATALOGUE.values() if key in one.limits]
    for key in dict.fromkeys(key for one in CATALOGUE.values() for key in one.limits)
}


def _faults_of(checks: Iterable[ModuleType]) -> Iterator[FaultKind]:
    for check in checks:
        yield from getattr(check, "FAULTS", ())


FAULTS: Faults = MappingProxyType(
    {
        fault.name: fault
        for fault in (
            *_faults_of(BEFORE_STAGES),
            *(one for stage in KINDS for one in stage.faults),
            *_faults_of(AFTER_STAGES),
        )
    }
)
