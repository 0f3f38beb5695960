"""Write the pages and schemas that are made from the code: `python -m rigproof.judging.document`."""

import json
from collections.abc import Iterator
from pathlib import Path

from rigproof.criteria.criterion import Criterion
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.expected_outcomes import shown_by
from rigproof.judging.fault_page import faults_page
from rigproof.profiles.documents.keys import keys_page, rig_schema, sku_schema, xids_schema
from rigproof.profiles.kinds.stages import DUTIES, Duty
from rigproof.profiles.planning.subjects import Scope
from rigproof.records.verdict import SEVERITIES, Outcome
from rigproof.stages.registry import KINDS

CHECKOUT = Path(__file__).parents[2]
INTRODUCTION = """\
# Criteria

Written by `python -m rigproof.judging.document`; a test keeps it current. Do not edit it by hand.

This page says of each criterion what it judges, where its limit comes from and what to do if it fails. A
failure names it; in a terminal `rigproof accept -v` shows the names beside the titles. Each is a function
from the recording to one verdict for each promised subject:

| Outcome | Meaning |
|---|---|
| `pass` | measured, and within its limit |
| `warn` | measured, not a failure, but worth a look |
| `fail` | outside its limit: the rig is REJECTED |
| `not_measured` | it should have been measured and was not, or not enough of it: the run is INCOMPLETE |
| `not_applicable` | the hardware cannot provide it, and it was not promised: it decides nothing |
| `no_limit` | measured, but no limit is known: it becomes the baseline |

{index}
## Rules for all of them

A failure or warning has a severity, which says what kind of action it asks for: its criterion's, unless what
was found needs another one. A failure that follows from another has none of its own.

| Severity | What to do |
|---|---|
{severities}

These hold for every criterion:

- **Not measured never passes.** A sensor counts as read if at least `limits.sample_coverage_share` of the
  samples due under load gave a reading. Power that does not change at all in 10 s or more of load, or a
  temperature that has not changed since before the load, comes from a frozen sensor; if power, core
  temperature and clock are all frozen, no reading of that GPU counts.
- A figure that is not finite is not measured.
- An aborted stage can make a criterion fail, but not pass.
- A criterion is only not applicable if the hardware or its driver cannot provide the data: the SKU file lists
  the sensor in `unsupported_sensors`; ECC is switched off; the driver delivers no Xid events, has no power
  limit, or cannot list or distinguish processes; the boot id cannot be read, or is a container's own; an
  unknown card has no ECC, has no such precision, or lacked a sensor from the beginning while NVML answered
  everything else; no other GPU of its kind has its power limit, or can be compared with it bit by bit. A
  sensor that went silent during the run is not measured, on any card.
- What others do to the measurement is no failure of the rig: a criterion that a foreign process, a
  hypervisor or a container's limit kept from measuring is not measured, with the cause and what to do before
  the next run. A criterion that judges the surroundings alone never fails.
- If a node or GPU is missing, only the criterion that looks for it fails; the others are not measured.
- If a rate (`throughput.gemm_*`, `sustained`, `combined` and `peer_outlier`, `precision`, `training.step`,
  `scaling`) misses its limit by less than `limits.marginal_share` of it, and nothing else in its stage
  failed, the whole stage is measured once more before any of it is judged. A rate that passes only once
  warns, with both figures; one that misses its limit twice fails. Everything else is judged by the worse of
  both attempts.
- A soak goes round its stages: [each lap is judged by itself](running.md#a-soak-goes-round-its-stages), and
  the rig by its worst one.
- Work only counts if its result was verified.
- A limit has a direction: at least (≥), at most (≤) or equal (=). Figures at the limit pass. A figure that is
  good although it is beyond the limit, such as a clock that the power cap explains, has that reason
  instead of a limit.
"""
SCOPES: dict[Scope, str] = {
    "device": "each promised device",
    "node": "each promised node",
    "pair": "every pair of promised devices",
    "node_pair": "every pair of promised nodes that have devices",
    "group": "the promised devices of each SKU with several devices",
    "rig": "the rig",
}


def documents() -> dict[Path, str]:
    """By path, the text of each file that is made from the code."""
    docs, schemas = CHECKOUT / "docs", CHECKOUT / "hwprofiles" / "schema"
    made = {"rig": rig_schema(KINDS), "sku": sku_schema(KINDS), "xids": xids_schema()}
    return {
        docs / "criteria.md": criteria_page(),
        docs / "faults.md": faults_page(),
        docs / "profile-keys.md": keys_page(KINDS),
        **{
            schemas / f"{name}.schema.json": json.dumps(schema, indent=2) + "\n"
            for name, schema in made.items()
        },
    }


def criteria_page() -> str:
    """docs/criteria.md."""
    families: dict[str, list[Criterion]] = {}  # each gets one heading, wherever its criteria are in the code
    for criterion in CATALOGUE.values():
        families.setdefault(criterion.family, []).append(criterion)
    sections = [
        "\n".join([f"## {family}", "", *map(_entry, members)]) for family, members in families.items()
    ]
    severities = "\n".join(f"| `{name}` | {what} |" for name, what in SEVERITIES.items())
    introduction = INTRODUCTION.replace("{index}", "\n".join(_index())).replace("{severities}", severities)
    return "\n".join([introduction, *sections]).rstrip() + "\n"


def _index() -> Iterator[str]:
    """Each criterion by the title that tables show, with its name, which is also its anchor, and its test."""
    yield "## By title\n"
    yield (
        "Tables call a criterion by its title. Sentences, verdict.json and metrics have its name, and a\n"
        "test of `tests/hardware`, which junit.xml lists, judges it.\n"
    )
    yield "| In tables | Name | Test |"
    yield "|---|---|---|"
    for one in sorted(CATALOGUE.values(), key=lambda one: one.title.lower()):
        what = one.name.partition(".")[2]
        yield (
            f"| {one.title} | [{one.name}](#{one.name.replace('.', '')}) | "
            f"`test_{one.family}.py::test_{what}` |"
        )
    yield ""


def _entry(criterion: Criterion) -> str:
    judged = SCOPES[criterion.scope]
    if not criterion.applies_to_cpu:
        judged += " with CUDA GPUs" if criterion.scope in ("node", "node_pair") else " but the CPU"
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
    return "\n".join([f"### {criterion.name}", "", criterion.summary, "", *table, ""])


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


if __name__ == "__main__":
    for path, text in documents().items():
        path.write_text(text, encoding="utf-8")
