"""The names of the levels. Apart from their tables, so that whoever only names them loads no pydantic."""

from typing import Literal, get_args

LevelName = Literal["quick", "standard", "extended", "soak"]
LEVELS: tuple[LevelName, ...] = get_args(LevelName)
