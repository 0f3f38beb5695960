"""The faults for readers: docs/faults.md, and `rigproof lint --faults`."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from rigproof.judging.catalogue import CATALOGUE, FAULTS
from rigproof.judging.expected_outcomes import ENDS, OTHERS, OTHERS_OF_GPUS, Case, cases, whole_runs
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.faults.parsing import ARRIVES_WITH
from rigproof.stages.registry import KINDS

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
INTRODUCTION = """\
# Faults

Written by `python -m rigproof.judging.document`; a test keeps it current. Do not edit it by hand.

## By what you see

If you see a trouble and do not know its name yet, find it in this table. `rigproof accept --level standard`
says which of these criteria fails, or could not be measured and why, and on which card. `--simulate --inject
FAULT` shows beforehand how that looks.

{symptoms}

## All faults

A simulated rig can have every fault below: `rigproof accept --simulate --hwprofile RIG --inject
FAULT[@SUBJECT][:key=value,…]`, repeatable, several at once. Without a subject a fault hits the first GPU or
node. `rigproof lint --faults` also prints this list.

- `stage=`: the only stage in which it acts; `after=` and `for=` then count in that stage. Without it they
  count from the beginning of the continuous stage (sustained), or of the only stage in which it can act,
  and a fault without an end lasts to the end of the run. A fault that would never act, or that could not
  be detected, is refused.
- `after=`, `for=`: when it begins, and how long it lasts; seconds, or a share of the stage (`after=80%`).
- `by=`: a share (`by=15%`); for `sensor-shifted` also a delay (`by=5s`). `to=`: a value, in the unit of what
  it changes.
- `lap=`: the lap of a soak in which it begins, by default the first; for every fault that has `stage=`. A
  fault that acts in a single stage, by `stage=` or since it can act in no other, acts in this lap alone;
  any other one without an end lasts through the laps after it, too.
- `code=`: an Xid. `field=`: a sensor.
"""
MATRIX = """\
## What each changes

At level extended each fault changes these verdicts and no others. The criteria that the fault is made for are
bold; other subjects than its own are named. `docs/faults.toml` has them, as simulated runs wrote them: on
the rig of `tests/support/fault_matrix.toml` (two nodes, three H200), or on two RTX 3090 if an H200 cannot
have them.

| Fault | Fails | Warns | Not measured | Why |
|---|---|---|---|---|"""
# In an owner's words: the faults that show so, the criteria that tell them, and where more is said.
SYMPTOMS = (
    (
        "The second GPU idles",
        ("gpu-idle", "wrong-gpu", "gpu-hidden"),
        ("activity.gpu_active", "distribution.workers_spread"),
        "[beside your own training](monitor.md#an-idle-second-gpu)",
    ),
    (
        "Out of memory, though there is room",
        ("oom", "memory-taken", "foreign-memory"),
        ("memory.no_oom", "memory.headroom", "inventory.foreign_memory"),
        "[how memory is taken](memory.md)",
    ),
    (
        "The machine freezes, its CPU is at 100 %",
        ("cpu-saturated", "host-frozen"),
        ("host.responsiveness", "host.cpu_band"),
        "",
    ),
    ("`Get timed out`", ("timeout", "hung-kernel", "worker-frozen"), ("cluster.no_timeouts",), ""),
    (
        "A card gets slower in the night",
        ("throughput-sag", "thermal-throttle", "vram-hot"),
        ("throughput.stability", "thermal.throttle", "memory.hot"),
        "[a soak](running.md#a-soak-goes-round-its-stages), which also holds `throughput.sustained` against "
        "the card's best lap: `throughput-sag:lap=2,after=0,by=7%`",
    ),
    (
        "A PC vanishes from Ray, or restarts",
        ("node-lost", "node-missing", "reset"),
        ("cluster.nodes_present", "health.reset"),
        "[two PCs on a LAN](cluster.md#when-something-goes-wrong)",
    ),
    (
        "Results are NaN, or wrong",
        ("bit-flip", "wrong-arithmetic", "vram-stuck-bit"),
        ("compute.exact", "memory.pattern"),
        "",
    ),
    (
        "Fans are loud, a card is hot",
        ("overheat", "memory-overheat", "hot-spot"),
        ("thermal.core_temperature", "thermal.memory_temperature", "thermal.margin"),
        "",
    ),
    (
        "Training is slower since the new driver",
        ("clock-stuck", "power-capped", "tensor-cores-unused", "driver-mismatch"),
        ("clock.ratio", "power.limit", "precision.speedup", "inventory.driver"),
        "[runs before and after](reports.md#the-history-of-rates)",
    ),
)
LATE = """\
## From 80 % of the continuous stage (sustained) on

Every fault with `after=` that begins in the last fifth of the stage and lasts to its end is detected by the
criterion that it is made for, except these, which need other keys or are detected in another way:
"""
LAPS = """\
## In one lap of a soak

A fault that acts in a single lap (`lap=`) is detected as in a run of one lap, and the verdict names the lap;
a rate that misses its limit by little in that lap alone warns. Only several laps show a lone card that is
a little slower from one of them on: `throughput-sag:lap=2,after=0,by=7%` fails `throughput.sustained`,
which is held against the best lap, and changes no other verdict. With `lap=1` nothing shows it, and in the
last lap alone it warns.
"""
BY_STAGE = """\
## Stage by stage

Every fault of a GPU that can act in a stage is detected there, by the criterion that it is made for, even if
the stage is as short as its level allows, except these, which need other keys or are detected in another
way:
"""


def faults_page() -> str:
    """The whole page."""
    introduction = INTRODUCTION.replace("{symptoms}", "\n".join(_symptoms()))
    lines = [introduction, *_table(), "", MATRIX, *map(_row, whole_runs())]
    lines += ["", LATE, *_late(), "", LAPS, BY_STAGE, *_by_stage()]
    return "\n".join(lines) + "\n"


def listing() -> Iterator[str]:
    """Plain lines: each fault with its keys and their defaults, its description, and what it trips."""
    for fault in FAULTS.values():
        keys = f":{','.join(_keys(fault))}" if fault.keys else ""
        yield f"{fault.name}[@{_hits(fault)}]{keys}"
        yield f"    {fault.what}"
        yield f"    {fault.ends}: {', '.join(fault.trips)}"
    for name, criterion in ARRIVES_WITH.items():
        yield f"{name}: not available yet; it arrives with its criterion {criterion}"


def _symptoms() -> Iterator[str]:
    yield "| What you see | What to do, by the criterion that fails | To try it |"
    yield "|---|---|---|"
    for words, faults, criteria, more in SYMPTOMS:
        steps = [
            f"[{name}](criteria.md#{name.replace('.', '')}): {CATALOGUE[name].remedy}" for name in criteria
        ]
        yield f"| {words} | {'<br>'.join([*steps, *filter(None, [more])])} | {_named(faults)} |"


def _table() -> Iterator[str]:
    yield "| Fault | Hits | What happens | Acts in | Keys | Trips |"
    yield "|---|---|---|---|---|---|"
    for fault in FAULTS.values():
        keys = ", ".join(f"`{key}`" for key in _keys(fault))
        trips = f"{fault.ends}: {_named(fault.trips)}"
        yield f"| `{fault.name}` | {_hits(fault)} | {fault.what} | {_acts(fault)} | {keys} | {trips} |"
    later = ", ".join(f"`{name}` with `{criterion}`" for name, criterion in ARRIVES_WITH.items())
    yield f"\nNot available yet: {later}."


def _named(criteria: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in criteria)


def _keys(fault: FaultKind) -> list[str]:
    """Each key, with its default if it has one."""
    return [f"{key}={fault.defaults.get(key, '…')}" for key in fault.keys]


def _hits(fault: FaultKind) -> str:
    return "GPU" if fault.scope == "gpu" else fault.scope


def _acts(fault: FaultKind) -> str:
    every = {stage.name: stage.duty for stage in KINDS}
    blind = {stage.name for stage in KINDS if fault.in_memory and not stage.simulated.verifies_memory}
    stages = [name for name in fault.acts_in(every) if name not in blind]
    if len(stages) == len(every):
        return "every stage"
    if stages == [name for name, duty in every.items() if duty != "idle"]:
        return "every GPU stage"
    return ", ".join(stages) or "the whole run"


def _row(case: Case) -> str:
    return f"| `{case}` | {' | '.join(_cell(case, outcome) for outcome in ENDS.values())} | {case.why} |"


def _cell(case: Case, outcome: Outcome) -> str:
    """The criteria with this outcome, first those that the fault is made for; others behind their subject."""
    found: dict[str, list[str]] = {"": []}
    for listed in sorted(case.criteria(outcome), key=lambda one: one not in case.fault.trips):
        where, name = ("", listed) if listed in (OTHERS, OTHERS_OF_GPUS) else listed.rpartition(" ")[::2]
        if (
            not where
            and case.fault.scope == "node"
            and (listed == OTHERS_OF_GPUS or (listed != OTHERS and CATALOGUE[name].scope == "device"))
        ):
            where = "each GPU"
        text = "*all others*" if listed in (OTHERS, OTHERS_OF_GPUS) else f"`{name}`"
        bold = not case.keys and name in case.fault.trips
        found.setdefault(where, []).append(f"**{text}**" if bold else text)
    return "; ".join(
        (f"of {where}: " if where else "") + ", ".join(names) for where, names in found.items() if names
    )


def _late() -> Iterator[str]:
    """The cases that are late in the continuous stage, if their keys or criteria are not the fault's own."""
    continuous = next(stage.name for stage in KINDS if stage.duty == "continuous")
    for case in cases():
        keys = case.keys.removeprefix(f"stage={continuous},")
        if not keys.startswith("after=") or keys == case.keys:
            continue
        if keys != "after=80%" or not _as_made(case):
            by = "" if _as_made(case) else f" by {_named(case.criteria(ENDS[case.fault.ends]))}"
            yield f"- `{case.fault.name}:{keys}` is detected{by}: {case.why}"


def _as_made(case: Case) -> bool:
    """Whether a criterion that the fault is made for detects it."""
    return bool(set(case.fault.trips) & set(case.criteria(ENDS[case.fault.ends])))


def _by_stage() -> Iterator[str]:
    together = [stage.name for stage in KINDS if not stage.by_device]
    if together:
        yield (
            f"- In {', '.join(together)} devices work together, and no sensor of a single one is judged: a "
            "fault that only such sensors show is refused there."
        )
    for stage in KINDS:
        late = f"stage={stage.name},after=" if stage.duty == "continuous" else "-"
        for case in cases():
            if case.stage != stage.name or case.keys.startswith(late):
                continue
            if case.keys != f"stage={stage.name}" or not _as_made(case):
                by = [
                    f"{word}: {_named(case.criteria(one))}"
                    for word, one in ENDS.items()
                    if case.criteria(one)
                ]
                yield f"- `{case}`: {'; '.join(by)}." + (f" {case.why}" if case.why else "")
