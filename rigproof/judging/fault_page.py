"""The faults for readers: docs/faults.md, and `rigproof lint --faults`."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rigproof.judging.catalogue import CATALOGUE, FAULTS
from rigproof.judging.expected_outcomes import ENDS, OTHERS, OTHERS_OF_GPUS, Case, cases, whole_runs
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.stages.registry import KINDS

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
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
        "[runs before and after](histories.md)",
    ),
)


def filled(page: Path, parts: Mapping[str, Iterable[str]]) -> str:
    """The page with these lines between the marks of each part: `<!-- made: NAME -->` and `<!-- end -->`.

    ValueError if it lacks the marks of one.
    """
    text = page.read_text(encoding="utf-8")
    for name, lines in parts.items():
        before, begin, rest = text.partition(f"<!-- made: {name} -->\n\n")
        _, end, after = rest.partition("\n\n<!-- end -->")
        if not (begin and end):
            raise ValueError(f"{page} lacks the marks of its part {name}")
        text = "".join([before, begin, "\n".join(lines), end, after])
    return text


def faults_page() -> str:
    """The text of docs/faults.md."""
    parts = {
        "symptoms": _symptoms(),
        "faults": _table(),
        "changes": _changes(),
        "late": _late(),
        "by_stage": _by_stage(),
    }
    return filled(PAGE, parts)


def listing() -> Iterator[str]:
    """Plain lines: each fault with its keys and their defaults, its description, and what it trips."""
    for fault in FAULTS.values():
        keys = f":{','.join(_keys(fault))}" if fault.keys else ""
        yield f"{fault.name}[@{_hits(fault)}]{keys}"
        yield f"    {fault.what}"
        yield f"    {fault.ends}: {', '.join(fault.trips)}"


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


def _changes() -> Iterator[str]:
    yield "| Fault | Fails | Warns | Not measured | Why |"
    yield "|---|---|---|---|---|"
    yield from map(_row, whole_runs())


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
