"""NVIDIA's Xid catalogue, `hwprofiles/xids.toml`: what the driver's error numbers mean, and what to do."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Literal

from pydantic import Field

from rigproof.profiles.errors import ProfileError, nearest, problem
from rigproof.profiles.loading.files import profile_folder, read_toml, shown_path
from rigproof.profiles.loading.structure import structural_problems
from rigproof.profiles.tables.base import Table
from rigproof.profiles.tables.models import Limits

FILE = "hwprofiles/xids.toml"
Severity = Literal["fail", "warn", "program"]
Number = Annotated[int, Field(ge=1, le=9999)]


class Xid(Table):
    """One number of the driver's."""

    meaning: str = Field(min_length=1, description="in our words")
    severity: Severity = Field(
        description="fail: nobody can trust the card before something is done; program: mostly the program's "
        "own mistake, warns; warn: everything else"
    )
    action: str = Field(description="a key of actions: what to do next")
    sources: tuple[str, ...] = Field(min_length=1, description="keys of sources")


class Recovery(Table):
    """One recovery action of NVML's, which is what the driver wants done with a GPU."""

    wants: str = Field(min_length=1, description='what it wants, as in "the driver wants …"')
    action: str = Field(description="a key of actions: what to do next")


class XidCatalogue(Table):
    """All of them: `hwprofiles/xids.toml`."""

    sources: dict[str, str] = Field(description="who says so, by a short name")
    actions: dict[str, str] = Field(description="next steps, by a short name")
    recovery: dict[Number, Recovery] = Field(description="NVML's recovery actions but 0, which is none")
    xids: dict[Number, Xid] = Field(description="by number")

    def meaning(self, code: int | None) -> str:
        """What a number means; that no catalogue has it where that is so."""
        found = self.xids.get(code) if code is not None else None
        return "in no catalogue that rigproof knows" if found is None else found.meaning

    def action(self, code: int | None) -> str:
        """What to do about a number; empty where nobody knows."""
        found = self.xids.get(code) if code is not None else None
        return "" if found is None else self.actions[found.action]

    def severity(self, code: int | None, limits: Limits) -> Severity:
        """How a number is judged: as the profile says, else as the catalogue does; unknown ones warn.

        One that the profile both fails and warns on fails.
        """
        if code is None:
            return "warn"
        if code in (limits.xid_fail or ()):
            return "fail"
        found = self.xids.get(code)
        known: Severity = "warn" if found is None else found.severity
        return "warn" if known == "fail" and code in (limits.xid_warn or ()) else known


@cache
def xid_catalogue() -> XidCatalogue:
    """The one that is shipped. Raises ProfileError with everything that is wrong with it."""
    path = profile_folder() / "xids.toml"
    tables = read_toml(path)
    found = structural_problems(XidCatalogue, tables, shown_path(path))
    if not found:
        catalogue = XidCatalogue.model_validate(tables)
        found = list(catalogue_problems(catalogue))
    if found:
        raise ProfileError(found)
    return catalogue


def catalogue_problems(catalogue: XidCatalogue) -> Iterator[str]:
    """Names that lead nowhere, and names that nothing leads to."""
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


def _unused(table: str, written: Mapping[str, str], used: set[str]) -> Iterator[str]:
    for name in written.keys() - used:
        yield problem(FILE, f"{table}.{name}", written[name], "nothing names it", "take it out")
