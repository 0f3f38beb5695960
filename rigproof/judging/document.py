"""The pages and schemas that are made from the code; tests/support/generated.py writes them."""

import json
from collections.abc import Iterator
from pathlib import Path

from rigproof.criteria.criterion import Criterion
from rigproof.judging.catalogue import CATALOGUE, JUDGED_BY
from rigproof.judging.expected_outcomes import shown_by
from rigproof.judging.fault_page import faults_page, filled
from rigproof.profiles.documents.keys import keys_page, rig_schema, sku_schema, xids_schema
from rigproof.profiles.kinds.stages import DUTIES, Duty
from rigproof.profiles.planning.subjects import Scope
from rigproof.records.grouping import grouped
from rigproof.records.verdict import SEVERITIES, Outcome
from rigproof.stages.registry import KINDS

CHECKOUT = Path(__file__).parents[2]
SCOPES: dict[Scope, str] = {
    "device": "each promised device",
    "node": "each promised node",
    "pair": "every pair of promised devices",
    "peers": "every pair of promised devices of a node",
    "node_pair": "every pair of promised nodes that have devices",
    "node_ring": "each promised node that has devices and the next one, and the last with the first",
    "group": "the promised devices of each SKU with several devices",
    "team": "all devices of each node that promises several, and those of a rig of several nodes",
    "rig": "the rig",
}


def documents() -> dict[Path, str]:
    """By path, the text of each file that is made from the code."""
    docs, schemas = CHECKOUT / "docs", CHECKOUT / "hwprofiles" / "schema"
    made = {"rig": rig_schema(KINDS, JUDGED_BY), "sku": sku_schema(KINDS), "xids": xids_schema()}
    return {
        docs / "criteria.md": criteria_page(),
        docs / "faults.md": faults_page(),
        docs / "profile-keys.md": keys_page(KINDS, JUDGED_BY),
        **{
            schemas / f"{name}.schema.json": json.dumps(schema, indent=2) + "\n"
            for name, schema in made.items()
        },
    }


def criteria_page() -> str:
    """The text of docs/criteria.md."""
    parts = {"titles": _titles(), "severities": _severities(), "criteria": [_criteria()]}
    return filled(CHECKOUT / "docs" / "criteria.md", parts)


def _titles() -> Iterator[str]:
    """Each criterion by the title that tables show, with its name, which is also its anchor, and its test."""
    yield "| In tables | Name | Test |"
    yield "|---|---|---|"
    for one in sorted(CATALOGUE.values(), key=lambda one: one.title.lower()):
        what = one.name.partition(".")[2]
        yield (
            f"| {one.title} | [{one.name}](#{one.name.replace('.', '')}) | "
            f"`test_{one.family}.py::test_{what}` |"
        )


def _severities() -> Iterator[str]:
    yield "| Severity | What to do |"
    yield "|---|---|"
    yield from (f"| `{name}` | {what} |" for name, what in SEVERITIES.items())


def _criteria() -> str:
    """A heading for each family, wherever its criteria are in the code, and its criteria."""
    families = grouped(CATALOGUE.values(), lambda one: one.family)
    sections = [[f"## {family}", *map(_entry, members)] for family, members in families.items()]
    return "\n\n".join(text for section in sections for text in section)


def _entry(criterion: Criterion) -> str:
    judged = SCOPES[criterion.scope]
    if not criterion.applies_to_cpu:
        of_nodes = criterion.scope in ("node", "node_pair", "node_ring")
        judged += " with CUDA GPUs" if of_nodes else " but the CPU"
    if criterion.unit:
        judged += f"; in {criterion.unit}"
    if criterion.direction:
        judged += (
            f", {criterion.direction.replace('_', ' ')} {'to ' * (criterion.direction == 'equal')}the limit"
        )
    rows = [
        ("In tables", criterion.title),
        ("Judged for", judged),
        ("Needs", _needs(criterion)),
        ("Limit", criterion.limit),
        ("Not measured", criterion.unmeasured),
        ("What to do", criterion.remedy),
        ("Severity", f"`{criterion.severity}`"),
    ]
    shown = {"Fails on": Outcome.FAIL, "Warns on": Outcome.WARN}
    if criterion.surroundings:
        shown["Not measured on"] = Outcome.NOT_MEASURED
    named = {title: _named(shown_by(criterion, outcome)) for title, outcome in shown.items()}
    rows += [(title, faults) for title, faults in named.items() if faults]
    table = [f"- **{title}:** {text}." for title, text in rows]
    return "\n".join([f"### {criterion.name}", "", criterion.summary, "", *table])


def _needs(criterion: Criterion) -> str:
    """The stages that it requires, then those that it judges if the level has them."""
    needed = [f"the {stage} stage" for stage in criterion.stages]
    needed += [f"the {duty} stage ({_stages_of(duty)})" for duty in criterion.needs]
    if not criterion.duties:
        return " and ".join(needed) or "no stage"
    apart = [kind.name for kind in KINDS if not kind.by_device]  # which are judged as crews
    if set(criterion.duties) == set(DUTIES):
        apart += [kind.name for kind in KINDS if kind.by_device and kind.duty == "rests"]
    judged = f"every stage of the level{' except ' * bool(apart)}{', '.join(apart)}"
    if not set(criterion.duties) >= set(DUTIES):
        judged = f"{_stages_of(*criterion.duties)}, as far as the level has them"
    return f"{' and '.join(needed) or 'no stage of its own'}; judges {judged}"


def _stages_of(*duties: Duty) -> str:
    return ", ".join(KINDS.with_duty(KINDS.names, duties))


def _named(faults: tuple[str, ...]) -> str:
    return ", ".join(f"`{fault}`" for fault in faults)
