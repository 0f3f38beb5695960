"""A profile's text with other figures in it: comments, order and layout stay."""

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from rigproof.profiles.errors import ProfileError
from rigproof.profiles.loading.files import tables_of

BEFORE = "; before: "
Figures = Mapping[str, tuple[Any, str]]  # by key: the value, and the comment beside it


def with_figures(text: str, file: str, place: str, table: str, figures: Figures) -> str:
    """The text with these figures in a table of `place`, such as `floors` of `nodes[0].gpus[1]`.

    A comment that stands there already is kept behind the new one, unless it is an earlier one of these.
    ProfileError for TOML that cannot be read, and where it is written so that no comment fits beside it.
    """
    import tomlkit  # noqa: PLC0415 - only if something is written
    from tomlkit.items import InlineTable  # noqa: PLC0415

    expected = tables_of(text, file)
    whole = tomlkit.parse(text if text.endswith("\n") else f"{text}\n")
    owner: Any = whole
    plain: Any = expected
    for key in re.findall(r"\w+", place):
        step = int(key) if key.isdigit() else key
        owner, plain = owner[step], plain[step]
        if isinstance(owner, InlineTable):
            way_out = "write it as tables of their own, [[nodes]] and [[nodes.gpus]], and run again"
            raise ProfileError([f"{file}: {place}: stands in one line, with no room for comments; {way_out}"])
    if new := table not in owner:
        owner[table] = tomlkit.table()
    own = owner[table]
    if isinstance(own, InlineTable):
        old = own.trivia.comment
        own.update({key: value for key, (value, _) in figures.items()})
        own.comment(_beside(next(iter(figures.values()))[1], old))
    else:
        for key, (value, comment) in figures.items():
            old = own[key].trivia.comment if key in own else ""
            item: Any = tomlkit.item(value)
            if isinstance(value, dict):
                item = tomlkit.inline_table()
                item.update(value)
            item.comment(_beside(comment, old))  # before: of keys with dots the table is a copy
            own[key] = item
        if new:
            own.add(tomlkit.nl())
    plain[table] = {**plain.get(table, {}), **{key: value for key, (value, _) in figures.items()}}
    edited = tomlkit.dumps(whole).rstrip("\n") + "\n"
    if tomllib.loads(edited) != expected:
        raise ProfileError(
            [f"{file}: {place}: cannot be changed without changing more; write it there yourself"]
        )
    return edited


def _beside(comment: str, old: str) -> str:
    """The new comment, and behind it what somebody else has written there."""
    bare = old.lstrip("# ")
    ours = bare.split(" ")[0] == comment.split(" ", maxsplit=1)[0]  # "calibrated", "measured:"
    others = bare.partition(BEFORE)[2] if ours else bare
    return f"{comment}{BEFORE}{others}" if others else comment
