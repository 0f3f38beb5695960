"""Every criterion there is, by name, in the order in which reports show them."""

from collections.abc import Mapping
from types import MappingProxyType

from rigproof.criteria import feeding, precision, scaling, throughput, training
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
    peers,
    power,
    reset,
    thermal,
    transfer,
)
from rigproof.criteria.criterion import Criterion

FAMILIES = (
    cluster,
    inventory,
    distribution,
    activity,
    disturbance,
    throughput,
    peers,
    compute,
    precision,
    training,
    feeding,
    scaling,
    memory,
    memory_errors,
    transfer,
    thermal,
    power,
    clock,
    health,
    reset,
    host,
)

CATALOGUE: Mapping[str, Criterion] = MappingProxyType(
    {
        value.name: value
        for family in FAMILIES
        for value in vars(family).values()
        if isinstance(value, Criterion)
    }
)
