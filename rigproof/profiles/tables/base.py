"""The building blocks of every profile table: strict numbers, names, and a table without unknown keys."""

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, SupportsIndex

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]
# Strict: a number written as text, or a boolean in place of a number, is an error to report.
Positive = Annotated[float, Field(gt=0, strict=True)]
Wait = Annotated[float, Field(gt=0, le=3600, strict=True)]  # longer than an hour is no useful wait
StageLength = Annotated[float, Field(gt=0, le=7 * 24 * 3600, strict=True)]  # a week, as for --hw-duration
PerhapsNone = Annotated[float, Field(ge=0, le=7 * 24 * 3600, strict=True)]  # 0: the stage is left out
Share = Annotated[float, Field(gt=0, le=1, strict=True)]
Percent = Annotated[float, Field(ge=0, le=100, strict=True)]
Whole = Annotated[int, Field(strict=True)]
Flag = Annotated[bool, Field(strict=True)]
GemmSize = Annotated[int, Field(ge=64, le=65536, multiple_of=8, strict=True)]  # M = N = K


class Table(BaseModel):
    """A TOML table: unknown keys are typos, and values do not change once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    # For a table created at run time: its factory and the arguments. It has no name to pickle by.
    made_by: ClassVar[tuple[Callable[..., Any], tuple[Any, ...]] | None] = None

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """For pickle: a table created at run time is created anew by `made_by`."""
        if self.made_by is None:
            return super().__reduce_ex__(protocol)
        return _blank, self.made_by, self.__getstate__()


def _blank(make: Callable[..., Any], made_from: tuple[Any, ...]) -> Any:
    table = make(*made_from)
    return table.__new__(table)


class Overlay(Table):
    """Some keys of a table: those in a file, or those that a GPU or a node overrides."""
