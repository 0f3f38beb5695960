"""The building blocks of every profile table: strict numbers, names, and a table without unknown keys."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]
# Strict: a number written as text, or a truth value where a number is meant, is a mistake to name.
Positive = Annotated[float, Field(gt=0, strict=True)]
Wait = Annotated[float, Field(gt=0, le=3600, strict=True)]  # nobody waits an hour for what does not come
StageLength = Annotated[float, Field(gt=0, le=7 * 24 * 3600, strict=True)]  # a week, as for --duration
PerhapsNone = Annotated[float, Field(ge=0, le=7 * 24 * 3600, strict=True)]  # 0: the stage is left out
Share = Annotated[float, Field(gt=0, le=1, strict=True)]
Percent = Annotated[float, Field(ge=0, le=100, strict=True)]
Whole = Annotated[int, Field(strict=True)]
Flag = Annotated[bool, Field(strict=True)]
GemmSize = Annotated[int, Field(ge=64, le=65536, multiple_of=8, strict=True)]  # M = N = K


class Table(BaseModel):
    """A TOML table: unknown keys are typos, and values do not change once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
