"""The keys by which a criterion declares and reads its limits. mypy knows whether the table has that field.

THROTTLE_SHARE = LIMITS.key(lambda limits: limits.throttle_share)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from rigproof.profiles.tables.base import Table
from rigproof.profiles.tables.limits import Limits
from rigproof.profiles.tables.node import CpuLoad, Responsiveness

T = TypeVar("T", bound=Table)
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


@dataclass(frozen=True, slots=True)
class LimitKey(Generic[V_co]):
    """A limit with values of type `V_co`; `str` spells it as in a profile: `limits.throttle_share`."""

    table: str
    name: str

    def __str__(self) -> str:
        return f"{self.table}.{self.name}"


@dataclass(frozen=True, slots=True)
class LimitKeys(Generic[T]):
    """The keys of one table of the profile."""

    table: str
    model: type[T]

    def key(self, field: Callable[[T], V]) -> LimitKey[V]:
        """The key of the field that the function returns."""
        return LimitKey(self.table, str(field(cast(T, _FieldNames()))))


class _FieldNames:
    """In a table's place: each of its fields is its name."""

    def __getattr__(self, name: str) -> Any:
        return name


LIMITS = LimitKeys("limits", Limits)
CPU = LimitKeys("cpu", CpuLoad)
RESPONSIVENESS = LimitKeys("responsiveness", Responsiveness)
