"""NVIDIA's Xid catalogue, `hwprofiles/xids.toml`: what the driver's error numbers mean, and what to do."""

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Annotated, Literal

from pydantic import Field

from rigproof.profiles.errors import ProfileError, nearest, problem
from rigproof.profiles.loading.files import profile_folder, read_toml, shown_path
from rigproof.profiles.loading.structure import checked
from rigproof.profiles.tables.base import Table
from rigproof.records.verdict import Severity

FILE = "hwprofiles/xids.toml"
XidOutcome = Literal["fail", "warn", "program"]
Number = Annotated[int, Field(ge=1, le=9999)]


class Xid(Table):
    """One Xid number of the driver."""

    meaning: str = Field(min_length=1, description="What the number means, in rigproof's own words.")
    outcome: XidOutcome = Field(
        description="fail: the card cannot be trusted until the action is taken. program: usually the "
        "program's own error; it warns. warn: everything else."
    )
    action: str = Field(description="What to do next: a key of [actions].")
    sources: tuple[str, ...] = Field(min_length=1, description="Where this is stated: keys of [sources].")


class Action(Table):
    """What to do about an Xid or a requested recovery."""

    severity: Severity = Field(description="What kind of action it is: a severity of verdicts.")
    step: str = Field(min_length=1, description="The next step, as a verdict's remedy states it.")


class Recovery(Table):
    """One recovery action of NVML: what the driver requests for a GPU."""

    wants: str = Field(min_length=1, description='What the driver requests, as in "the driver wants …".')
    action: str = Field(description="What to do next: a key of [actions].")


class XidCatalogue(Table):
    """The Xid numbers that are known, and what to do about them: `hwprofiles/xids.toml`."""

    sources: dict[str, str] = Field(description="The sources, each with a short name as its key.")
    actions: dict[str, Action] = Field(description="What to do next, each with a short name as its key.")
    recovery: dict[Number, Recovery] = Field(
        description="NVML's recovery actions, by number. 0 means none and is left out."
    )
    xids: dict[Number, Xid] = Field(description="The Xids, by number.")

    def meaning(self, code: int | None) -> str:
        """The meaning of a number, or that it is in no catalogue."""
        found = self.xids.get(code) if code is not None else None
        return "in no catalogue known to rigproof" if found is None else found.meaning

    def action(self, code: int | None) -> Action | None:
        """The action for a number; None if it is in no catalogue."""
        found = self.xids.get(code) if code is not None else None
        return None if found is None else self.actions[found.action]

    def outcome(self, code: int | None, fail: Collection[int] = (), warn: Collection[int] = ()) -> XidOutcome:
        """How an Xid number is judged: by a rig's numbers that fail and that warn, else by the catalogue.

        A number in both of the rig's lists fails, one that is nowhere warns.
        """
        if code is None:
            return "warn"
        if code in fail:
            return "fail"
        found = self.xids.get(code)
        known: XidOutcome = "warn" if found is None else found.outcome
        return "warn" if known == "fail" and code in warn else known


@cache
def xid_catalogue() -> XidCatalogue:
    """The shipped catalogue. Raises ProfileError with all its problems."""
    path = profile_folder() / "xids.toml"
    catalogue = checked(XidCatalogue, read_toml(path), shown_path(path))
    if found := list(catalogue_problems(catalogue)):
        raise ProfileError(found)
    return catalogue


def catalogue_problems(catalogue: XidCatalogue) -> Iterator[str]:
    """References to undefined names, and names that are never referenced."""
    entries: dict[str, Xid | Recovery] = {f"xids.{code}": one for code, one in catalogue.xids.items()}
    entries |= {f"recovery.{code}": one for code, one in catalogue.recovery.items()}
    for key, one in entries.items():
        if one.action not in catalogue.actions:
            way_out = nearest(one.action, catalogue.actions)
            yield problem(FILE, f"{key}.action", one.action, "no such action", way_out)
    for key, xid in ((key, one) for key, one in entries.items() if isinstance(one, Xid)):
        for source in xid.sources:
            if source not in catalogue.sources:
                way_out = nearest(source, catalogue.sources)
                yield problem(FILE, f"{key}.sources", source, "no such source", way_out)
    yield from _unused("actions", catalogue.actions, {one.action for one in entries.values()})
    named = {source for xid in catalogue.xids.values() for source in xid.sources}
    yield from _unused("sources", catalogue.sources, named)


def _unused(table: str, written: Mapping[str, object], used: set[str]) -> Iterator[str]:
    for name in written.keys() - used:
        value = written[name]
        shown = value.step if isinstance(value, Action) else value
        yield problem(FILE, f"{table}.{name}", shown, "nothing refers to it", "remove it")
