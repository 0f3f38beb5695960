"""The building blocks of every profile table: strict numbers, names, and a table without unknown keys."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

ROUNDING = 1e-9
T = TypeVar("T", bound="Table")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]
# Strict: a number written as text, or a boolean in place of a number, is an error to report.
Positive = Annotated[float, Field(gt=0, strict=True)]
Wait = Annotated[float, Field(gt=0, le=3600, strict=True)]  # longer than an hour is no useful wait
StageLength = Annotated[float, Field(gt=0, le=7 * 24 * 3600, strict=True)]  # a week, as for --hw-duration
PerhapsNone = Annotated[float, Field(ge=0, le=7 * 24 * 3600, strict=True)]  # 0: the stage is left out
NotNegative = Annotated[float, Field(ge=0, strict=True)]
Share = Annotated[float, Field(gt=0, le=1, strict=True)]
Portion = Annotated[float, Field(gt=0, lt=1, strict=True)]
PortionOrNone = Annotated[float, Field(ge=0, lt=1, strict=True)]
Percent = Annotated[float, Field(ge=0, le=100, strict=True)]
Whole = Annotated[int, Field(strict=True)]
AtLeastZero = Annotated[int, Field(ge=0, strict=True)]
AtLeastOne = Annotated[int, Field(gt=0, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
GemmSize = Annotated[int, Field(ge=64, le=65536, multiple_of=8, strict=True)]  # M = N = K


@dataclass(frozen=True, slots=True)
class Meaningful:
    """The range in which a setting is meaningful, as the `json_schema_extra` of its field.

    `below` and `above` say what a limit there would do. The range is no limit of a rig, only how far one can
    go: `lint` refuses a value outside; a recorded rig that has one can still be judged.
    """

    lowest: float | None = None
    highest: float | None = None
    below: str = ""
    above: str = ""

    def wrong(self, value: float) -> tuple[str, str] | None:
        """The problem of a value and the remedy; None if it is meaningful."""
        if self.lowest is not None and value < self.lowest * (1 - ROUNDING):
            return self.below, f"write {self.lowest:g} or more"
        if self.highest is not None and value > self.highest * (1 + ROUNDING):
            return self.above, f"write {self.highest:g} or less"
        return None

    def __call__(self, schema: dict[str, Any]) -> None:
        """Write the range into the field's JSON schema, from which docs and editors have it."""
        number = schema["anyOf"][0] if "anyOf" in schema else schema
        if self.lowest is not None:
            number.pop("exclusiveMinimum", None)
            number["minimum"] = self.lowest
        if self.highest is not None:
            number.pop("exclusiveMaximum", None)
            number["maximum"] = self.highest


def optional(description: str, meaningful: Meaningful | None = None) -> Any:
    """The field of a key that may be left out: then it is None."""
    return Field(default=None, description=description, json_schema_extra=meaningful)


class Table(BaseModel):
    """A TOML table: unknown keys are typos, and values do not change once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


class Overlay(Table):
    """Some keys of a table: those in a file, or those that a GPU or a node overrides."""


@dataclass(frozen=True, slots=True)
class LimitKey(Generic[V_co]):
    """A limit with values of type `V_co`; `str` spells it as in a profile: `limits.throttle_share`."""

    table: str
    name: str

    def __str__(self) -> str:
        return f"{self.table}.{self.name}"


@dataclass(frozen=True, slots=True)
class LimitKeys(Generic[T]):
    """The keys by which criteria declare and read the limits of one table; mypy checks the fields' names.

    THROTTLE_SHARE = LIMITS.key(lambda limits: limits.throttle_share)
    """

    table: str
    model: type[T]

    def key(self, field: Callable[[T], V]) -> LimitKey[V]:
        """The key of the field that the function returns."""
        return LimitKey(self.table, str(field(cast(T, _FieldNames()))))


class _FieldNames:
    """Stands in for a table, so that `lambda limits: limits.name` yields the name of the field."""

    def __getattr__(self, name: str) -> Any:
        return name
