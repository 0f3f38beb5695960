"""The text of messages: untrusted text as one short printable line, and a message's cause and next step."""

import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # where pydantic is missing, messages say so
    from pydantic import ValidationError

WIDTH = 200
# As what ended a task, or a process: one that crashed may have warned of such an error before.
# In what torch says of an error of NCCL.
LAST_ERROR, NCCL_NAME = "Last error:", re.compile(r"nccl\w+: ")
NO_NEWS = re.compile(r"Unknown NCCL Error|frame #|\[rank\d+\]|Exception raised from")
NOT_LOADED = re.compile(r"(?:^|status 1: |failed: )(?:ModuleNotFound|Import|Syntax)Error: ")


def one_line(text: str, width: int = WIDTH) -> str:
    """One printable line of at most `width` characters; what cannot be printed is escaped."""
    plain = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[: width + 1]
    )
    return plain if len(plain) <= width else plain[: width - 1] + "…"


def some(names: Sequence[str]) -> str:
    """The names, or of more than four the first three and how many more there are."""
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def not_loaded(error: str) -> bool:
    """Whether Python could not load what a process runs: a package is missing, or its files were changed.

    That says nothing about hardware.
    """
    return NOT_LOADED.search(error) is not None


def cause_and_step(text: str) -> tuple[str, str]:
    """The cause and the next step, from a message that has them before and after its last `; `.

    A message without `; ` has no next step.
    """
    cause, mark, step = text.rpartition("; ")
    return (cause, step) if mark else (text, "")


def first_problem(error: "ValidationError") -> str:
    """The first of pydantic's errors: `key.key: what is wrong`."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"][:8])
    return one_line(f"{where}: {first['msg']}" if where else first["msg"])


def telling_line(text: str) -> str:
    """The line of an error's text that says what is wrong: the first one.

    One of NCCL's names a place in its source there. It is what stands behind `Last error:`, or else the line
    of NCCL's own name for the error.
    """
    first, *others = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    before, place, _ = first.partition("NCCL error in: ")
    if not place:
        return first
    last = others[others.index(LAST_ERROR) + 1 :][:1] if LAST_ERROR in others else []
    named = [line for line in others if NCCL_NAME.match(line)]
    told = [line for line in (*last, *named) if not NO_NEWS.match(line)]
    return before + told[0] if told else first


def what_it_says(error: BaseException, width: int = 300) -> str:
    """The line of an error that says what is wrong; the name of its type if it says nothing."""
    return telling_line(str(error))[:width] or type(error).__name__


def error_text(error: Exception) -> str:
    """An error that was caught, and where it was raised: `KeyError: 'x' (file.py:12)`."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
