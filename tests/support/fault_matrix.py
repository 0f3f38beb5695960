"""The fault matrix: which verdicts each fault of the catalogue changes, and why it changes more than one.

Everything here is stated and compared with what a simulated rig really says: a case that changes any other
verdict than these is a failed test. `python -m support.fault_matrix > docs/faults.md` writes it down.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import judge_all, promised
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.records.verdict import Outcome, Verdict
from rigproof.run.simulated.trial import simulated_recording
from rigproof.simulation.faults.catalogue import BY_NAME, FIELDS, FaultKind
from rigproof.stages.registry import KINDS

PROFILE = Path(__file__).parent / "fault_matrix.toml"
LEVEL = "extended"  # the first one with every stage
FIRST, SECOND, OTHER = "n1/gpu0", "n1/gpu1", "n2/gpu0"

Key = tuple[str, str]  # criterion, subject

# Criteria that stand and fall together, by what they need.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "sensors": (
        "thermal.core_temperature",
        "thermal.memory_temperature",
        "thermal.throttle",
        "power.draw",
        "clock.ratio",
    ),
    "counters": ("memory.ecc", "memory.row_remap", "transfer.link"),
    "gemm": (
        "throughput.gemm_fp32",
        "throughput.gemm_tf32",
        "throughput.gemm_fp16",
        "throughput.gemm_bf16",
    ),
    "rate": ("throughput.sustained", "throughput.stability", "throughput.peer_outlier"),
    "later stages": (
        "precision.speedup",
        "training.step",
        "feeding.parallel_rewards",
        "feeding.idle_gaps",
        "scaling.sharing",
        "compute.exact",
    ),
}
REST = "all others"
SLOW = ("throughput.sustained", "throughput.peer_outlier", "throughput.combined")
STOPPED = ("activity.gpu_active", *SLOW, "memory.success_rate")


@dataclass(frozen=True)
class Case:
    """One fault, as it is written behind `--inject`, and what it changes.

    An entry is a criterion or a group, with `@SUBJECT` where that is not the fault's own; REST is every
    other criterion of the subject. None: what the fault's kind trips.
    """

    fault: str
    fails: tuple[str, ...] | None = None
    warns: tuple[str, ...] | None = None
    unmeasured: tuple[str, ...] | None = None
    why: str = ""

    @property
    def kind(self) -> FaultKind:
        """Its entry in the catalogue."""
        return BY_NAME[self.fault.partition(":")[0].partition("@")[0]]

    @property
    def subject(self) -> str:
        """What it hits."""
        written = self.fault.partition(":")[0].partition("@")[2]
        return written or (FIRST if self.kind.scope == "gpu" else "n1")

    def stated(self) -> "Changes":
        """What it says that it changes."""
        kind, subject = self.kind, self.subject
        own = {1: "fails", 0: "warns", 6: "unmeasured"}[kind.ends]
        told = {name: getattr(self, name) for name in ("fails", "warns", "unmeasured")}
        if not any(told.values()):
            told[own] = kind.trips
        fails = _keys(told["fails"] or (), subject, frozenset())
        warns = _keys(told["warns"] or (), subject, frozenset())
        return Changes(fails, warns, _keys(told["unmeasured"] or (), subject, fails | warns))


@dataclass(frozen=True)
class Changes:
    """Verdicts that are not good: criterion and subject. What does not apply is none of them."""

    fails: frozenset[Key] = field(default_factory=frozenset)
    warns: frozenset[Key] = field(default_factory=frozenset)
    unmeasured: frozenset[Key] = field(default_factory=frozenset)


def changes_of(verdicts: Iterable[Verdict]) -> Changes:
    """Those of a run."""
    found: dict[Outcome, set[Key]] = {outcome: set() for outcome in Outcome}
    for one in verdicts:
        found[one.outcome].add((one.criterion, one.subject))
    kinds = (Outcome.FAIL, Outcome.WARN, Outcome.NOT_MEASURED)
    return Changes(*(frozenset(found[outcome]) for outcome in kinds))


@cache
def rig() -> LoadedRig:
    """The matrix's rig."""
    return load_rig(str(PROFILE), KINDS)


def run(*faults: str, seed: int = 0) -> list[Verdict]:
    """All verdicts of the matrix's rig with these faults."""
    return judge_all(simulated_recording(rig(), LEVEL, faults, seed=seed))


def run_changes(*faults: str, seed: int = 0) -> Changes:
    """What these faults change."""
    return changes_of(run(*faults, seed=seed))


@cache
def _promised() -> dict[str, tuple[str, ...]]:
    """By subject, all criteria that are promised there."""
    found: dict[str, list[str]] = {}
    for criterion in CATALOGUE.values():
        for subject in promised(criterion, rig()):
            found.setdefault(subject, []).append(criterion.name)
    return {subject: tuple(names) for subject, names in found.items()}


def _keys(entries: Iterable[str], own: str, taken: frozenset[Key]) -> frozenset[Key]:
    found: set[Key] = set()
    for entry in entries:
        name, _, subject = entry.partition("@")
        if name == REST:
            found |= {(one, subject or own) for one in _promised()[subject or own]} - taken
            continue
        for criterion in GROUPS.get(name, (name,)):
            found.add((criterion, subject or _where(criterion, own)))
    return frozenset(found)


def _where(criterion: str, own: str) -> str:
    """The subject that a criterion judges a fault of `own` on."""
    scope = CATALOGUE[criterion].scope
    return "rig" if scope == "rig" else own.partition("/")[0] if scope == "node" else own


GONE = "What is not there cannot be measured, nor can a sum with it; "
KILLED = (
    "The card does no more work until its worker is replaced after the stage, so all that counts its work "
    "says so, and the rig's sum. Neither its stability nor its allocator can be told up to the end."
)
BY_POWER = (
    "Work alone does not show that a card was active: power has to say so too. Nor is the power cap a reason "
    "for a low clock where nobody knows what the card drew."
)
THEIRS = (
    "What a stranger explains is its doing, not the card's: it is named, and what it touched is not measured."
)
LEARNT = "Whoever is asked for a reading that does not come, or does not change, says so; nothing else does."

CASES: tuple[Case, ...] = (
    Case(
        "node-missing",
        fails=(
            "cluster.nodes_present",
            f"inventory.gpus_present@{FIRST}",
            f"inventory.gpus_present@{SECOND}",
        ),
        unmeasured=(
            REST,
            f"{REST}@{FIRST}",
            f"{REST}@{SECOND}",
            "throughput.combined",
            f"throughput.peer_outlier@{OTHER}",
        ),
        why=f"Its GPUs are missing with it. {GONE}and the other node's card has no peer left.",
    ),
    Case(
        "node-lost",
        fails=(
            "cluster.nodes_present",
            "cluster.no_timeouts",
            *(
                f"{criterion}@{subject}"
                for subject in (FIRST, SECOND)
                for criterion in ("activity.gpu_active", "rate", "memory.success_rate")
            ),
            "throughput.combined",
        ),
        unmeasured=(
            "health.reset",
            "host.cpu_band",
            "host.responsiveness",
            *(
                f"{entry}@{subject}"
                for subject in (FIRST, SECOND)
                for entry in (
                    *("sensors", "counters", "later stages"),
                    *("memory.no_oom", "health.xid", "activity.undisturbed"),
                )
            ),
        ),
        why="Its agent and workers are lost with it: their work ends in the middle of the stage, and nobody "
        "reads its sensors, counters, processes and Xids from then on.",
    ),
    Case(
        "reset",
        fails=(
            "health.reset",
            "cluster.nodes_present",
            "cluster.no_timeouts",
            *(
                f"{criterion}@{subject}"
                for subject in (FIRST, SECOND)
                for criterion in ("activity.gpu_active", "rate", "memory.success_rate")
            ),
            "throughput.combined",
        ),
        unmeasured=(
            "host.cpu_band",
            "host.responsiveness",
            *(
                f"{entry}@{subject}"
                for subject in (FIRST, SECOND)
                for entry in (
                    "sensors",
                    "counters",
                    "later stages",
                    "memory.no_oom",
                    "health.xid",
                    "activity.undisturbed",
                )
            ),
        ),
        why="The node is lost, with all that a lost node leaves unmeasured; once it is back, a new agent "
        "reads another boot id there.",
    ),
    Case("reset-before"),
    Case(
        "gpu-missing",
        fails=("inventory.gpus_present",),
        unmeasured=(REST, "throughput.combined"),
        why=f"{GONE}the other cards still have a peer.",
    ),
    Case(
        "gpu-hidden",
        fails=("inventory.gpus_present",),
        unmeasured=(REST, "throughput.combined"),
        why=f"{GONE}the other cards still have a peer.",
    ),
    Case(
        "gpu-lost",
        fails=(
            "inventory.gpus_present",
            "health.xid",
            "cluster.no_timeouts",
            "activity.gpu_active",
            "rate",
            "throughput.combined",
            "memory.success_rate",
        ),
        unmeasured=("sensors", "counters", "later stages", "memory.no_oom", "activity.undisturbed"),
        why="Its worker fails with a CUDA error, its work ends, and it is asked nothing more.",
    ),
    Case(
        "gpu-idle",
        fails=("activity.gpu_active", *SLOW, "feeding.idle_gaps", "clock.ratio", "transfer.link"),
        unmeasured=("gemm", "precision.speedup", "training.step", "scaling.sharing", "power.draw"),
        why="Little work is a low rate, and a low sum; a card that is idle lets its clock and its "
        "PCIe link go, also while it should generate. One round in eight is too little to measure a rate in "
        "seconds.",
    ),
    Case(
        "wrong-gpu",
        fails=(
            "distribution.workers_spread",
            f"distribution.workers_spread@{SECOND}",
            f"distribution.workers_spread@{OTHER}",
        ),
        why="Every other GPU lacks its workers. (Their rates stay: what they report is simulated, not how "
        "they slow each other down.)",
    ),
    Case(
        "straggler",
        fails=("throughput.peer_outlier", "training.step"),
        why="Its training step falls behind those of its peers too.",
    ),
    Case(
        "throughput-sag",
        fails=("throughput.stability", "training.step"),
        why="The card has not recovered when it trains, and its step falls behind those of its peers.",
    ),
    Case(
        "overheat",
        fails=("thermal.core_temperature", "thermal.throttle"),
        why="Over the highest temperature that its maker allows, a card lowers its clock.",
    ),
    Case("heat-spike"),
    Case("early-heat"),
    Case(f"temperature-out-of-range@{SECOND}"),
    Case(
        "memory-overheat",
        fails=("thermal.memory_temperature", "thermal.throttle"),
        why="Over the highest temperature that its maker allows, a card lowers its clock.",
    ),
    Case(
        "thermal-throttle",
        fails=("thermal.throttle", "gemm", *SLOW, "training.step"),
        why="By 40 % the rates fall under their floors and behind those of the peers.",
    ),
    Case(
        "thermal-throttle:after=50%,for=0.5",
        warns=("thermal.throttle",),
        why="A single short event warns.",
    ),
    Case("power-brake"),
    Case("power-capped"),
    Case(
        "power-capped:to=300",
        fails=("power.limit", "throughput.combined"),
        why="Under half of the default fails. The card's own floors are scaled to its cap, the sum's is not.",
    ),
    Case(f"power-limit-off@{OTHER}"),
    Case("power-over-limit"),
    Case(
        f"power-out-of-range@{SECOND}",
        fails=("power.draw", "thermal.core_temperature"),
        why="A card that draws half of what it should stays colder than it should.",
    ),
    Case(
        "clock-stuck",
        fails=("clock.ratio", "gemm", *SLOW, "training.step"),
        why="At half its clock a card has half its rate.",
    ),
    Case(
        "clock-locked",
        fails=("gemm", "throughput.sustained", "throughput.peer_outlier", "training.step"),
        warns=("clock.ratio",),
        why="Somebody wanted it; at half its clock the card is slow for all that.",
    ),
    Case("clock-drops-idle"),
    Case("pcie-degraded"),
    Case("pcie-replays"),
    Case(
        "ecc-uncorrected",
        fails=(
            "memory.ecc",
            "health.xid",
            "cluster.no_timeouts",
            "activity.gpu_active",
            "rate",
            "throughput.combined",
            "memory.success_rate",
        ),
        unmeasured=("clock.ratio", "power.draw", "transfer.link", "later stages", "memory.no_oom"),
        why="Its workers end with a CUDA error, and so does every later one until the card is reset; a card "
        "without work tells nothing by its clock.",
    ),
    Case("ecc-corrected-rate"),
    Case("row-remap-pending"),
    Case("row-remap-failed"),
    Case("xid"),
    Case("xid:code=63", warns=("health.xid",), why="A row that was remapped only warns."),
    Case("xid:code=171", why="An uncorrectable memory error, told beside Xid 48 by newer drivers."),
    Case("xid:code=92", warns=("health.xid",), why="NVIDIA says to ignore it."),
    Case("xid:code=31", warns=("health.xid",), why="Mostly the program's own error."),
    Case("xid:code=999", warns=("health.xid",), why="No catalogue has it."),
    Case("recovery-wanted"),
    Case(
        "nvml-hang",
        fails=("cluster.no_timeouts",),
        unmeasured=(
            *("sensors", "counters", "activity.gpu_active", "activity.undisturbed"),
            *("feeding.idle_gaps", "health.xid"),
        ),
        why="The card is not asked again: its sensors, counters, processes and Xids are not known from "
        "then on. Its work goes on.",
    ),
    Case(
        "driver-mismatch",
        fails=(
            "inventory.driver",
            f"inventory.gpus_present@{FIRST}",
            f"inventory.gpus_present@{SECOND}",
        ),
        unmeasured=(
            f"{REST}@{FIRST}",
            f"{REST}@{SECOND}",
            "throughput.combined",
            f"throughput.peer_outlier@{OTHER}",
        ),
        why=f"Without NVML no GPU of the node is found. {GONE}and the other node's card has no peer left.",
    ),
    Case("sensor-missing", why=LEARNT),
    *(
        Case(f"sensor-missing:field={sensor}", unmeasured=(FIELDS[sensor],), why=LEARNT)
        for sensor in ("memory_temperature", "sm_clock", "utilization")
    ),
    Case(
        "sensor-missing:field=clock_event_reasons",
        unmeasured=("thermal.throttle", "clock.ratio"),
        why="A clock that the power cap lowers needs the reason to explain it.",
    ),
    *(
        Case(
            f"{name}:field=power",
            unmeasured=("power.draw", "activity.gpu_active", "clock.ratio"),
            why=BY_POWER,
        )
        for name in ("sensor-missing", "sensor-frozen", "sensor-shifted", "sensor-impossible")
    ),
    *(
        Case(f"{name}:field={sensor}", unmeasured=(FIELDS[sensor],), why=LEARNT)
        for name in ("sensor-frozen", "sensor-impossible")
        for sensor in ("core_temperature", "memory_temperature")
    ),
    Case("sensor-impossible:field=sm_clock", unmeasured=("clock.ratio",), why=LEARNT),
    Case(
        "telemetry-gap",
        unmeasured=("sensors", "activity.gpu_active", "transfer.link"),
        why="Whatever is read of a card lacks the same stretch; its work goes on.",
    ),
    Case(
        "oom",
        fails=("memory.no_oom", "memory.success_rate"),
        why="Each allocation that failed counts as a failed task, although the policy recovered from it.",
    ),
    Case("oom-retry"),
    Case(
        "cpu-fallback",
        fails=("memory.success_rate", "memory.no_oom", "activity.gpu_active"),
        unmeasured=(
            "rate",
            "throughput.combined",
            "clock.ratio",
            "power.draw",
            "transfer.link",
            "compute.exact",
        ),
        why="It begins with allocations that fail; what the CPU does in a card's place is no work of "
        "the card, so that it has no rate and nothing to compare.",
    ),
    Case(
        "foreign-memory",
        fails=("inventory.foreign_memory",),
        unmeasured=(
            *("distribution.workers_spread", "activity.gpu_active"),
            "gemm",
            "rate",
            "throughput.combined",
            "later stages",
            "memory.no_oom",
            "memory.success_rate",
            "memory.headroom",
            "clock.ratio",
            "power.draw",
            "transfer.link",
        ),
        why="A card on which the plan does not fit is left alone: it gets no work, and whatever asks for "
        "some is not measured.",
    ),
    Case(
        "foreign-memory:to=41500",
        warns=("inventory.foreign_memory", "memory.headroom"),
        why="The plan fits beside so much; the headroom is missing for what others hold alone.",
    ),
    Case("memory-taken"),
    Case("half-filled"),
    Case("wrong-arithmetic"),
    Case(
        "stranger-computes",
        fails=("activity.undisturbed",),
        unmeasured=(
            "throughput.sustained",
            "throughput.stability",
            "throughput.peer_outlier",
            "training.step",
            "scaling.sharing",
        ),
        why=THEIRS,
    ),
    Case(
        "stranger-computes:after=5%",
        fails=("activity.undisturbed",),
        unmeasured=(
            "throughput.sustained",
            "throughput.peer_outlier",
            "throughput.combined",
            "training.step",
        ),
        why=THEIRS,
    ),
    Case(
        "stranger-takes-memory",
        fails=("activity.undisturbed",),
        unmeasured=("memory.no_oom", "memory.success_rate", "memory.headroom"),
        why=THEIRS,
    ),
    Case("stranger-crashes", fails=("activity.undisturbed",), unmeasured=("health.xid",), why=THEIRS),
    Case(
        "bit-flip",
        fails=(
            "activity.gpu_active",
            "memory.success_rate",
            "compute.exact",
            "rate",
        ),
        why="A round with a wrong result is no work: the rate lacks it, and the windows that have none fall.",
    ),
    Case(
        "hung-kernel",
        fails=("cluster.no_timeouts", *STOPPED),
        unmeasured=("throughput.stability", "memory.no_oom"),
        why=KILLED,
    ),
    Case(
        "worker-killed",
        fails=("cluster.no_timeouts", *STOPPED),
        unmeasured=("throughput.stability", "memory.no_oom"),
        why=KILLED,
    ),
    Case(
        "worker-frozen",
        fails=("cluster.no_timeouts", *STOPPED),
        unmeasured=("throughput.stability", "memory.no_oom"),
        why=KILLED,
    ),
    Case(
        "timeout",
        fails=("cluster.no_timeouts", "memory.success_rate"),
        unmeasured=("memory.no_oom",),
        why="A worker that does not end is killed: its task failed, its allocator's last word is missing.",
    ),
    Case("cpu-saturated"),
    Case("cpu-starved"),
    Case(
        "host-frozen",
        fails=("host.responsiveness",),
        unmeasured=(
            "host.cpu_band",
            *(
                f"{entry}@{subject}"
                for subject in (FIRST, SECOND)
                for entry in ("sensors", "activity.gpu_active", "transfer.link")
            ),
        ),
        why="For so long nobody reads the sensors of its cards, either.",
    ),
    Case("host-frozen:for=0.5", warns=("host.responsiveness",), why="A single short freeze warns."),
    Case("tensor-cores-unused"),
    Case("rewards-slow"),
    Case("rewards-differ"),
    Case("rewards-crash"),
    Case("gpu-starved"),
    Case("gpu-half-used"),
    Case("sharing-collapse"),
)

# What begins in the last fifth of the sustained stage and is noticed by another criterion than its own.
LATE: Mapping[str, tuple[str, str]] = {
    "straggler": (
        "throughput.stability",
        "10 % for a fifth of the time is 2 % of its rate, which is within what equal cards differ by; but "
        "its own rate falls inside the run",
    ),
}
# What has to last longer to be noticed.
LONGER: Mapping[str, tuple[str, str]] = {
    "cpu-starved": ("75%", "`cpu.in_band_share` allows a fifth of the windows out of the band"),
}

INTRODUCTION = """\
# Faults

Written by `PYTHONPATH=.:tests python -m support.fault_matrix > docs/faults.md`; a test keeps it current. Do
not edit it by hand.

A simulated rig can have every fault below: `pytest -m hardware --simulate --hwprofile RIG --inject
FAULT[@SUBJECT][:key=value,…]`, repeatable, several at once. Without a subject a fault hits the first GPU or
node. `rigproof lint --faults` prints this list too.

- `stage=`: in which stage it acts (`stage=training`), and in no other; `after=` and `for=` count in that one.
  Without it they count from the begin of the sustained stage, or of the only stage in which it can act, and
  a fault of which only the begin is said lasts to the end of the run.
- `after=`, `for=`: when it begins, and how long it lasts; seconds, or a share of the stage (`after=80%`).
- `by=`: a share (`by=15%`); of `sensor-shifted` a delay too (`by=5s`). `to=`: a value, in the unit of what it
  changes.
- `code=`: an Xid. `field=`: a sensor.
"""
MATRIX = """\
## What each changes

On the rig of `tests/support/fault_matrix.toml` (two nodes, three H200), all stages, each fault changes these
verdicts and no other. `tests/simulation/test_fault_matrix.py` runs all of them.
In bold what the fault is there for; a subject in brackets where it is not the fault's own.
"""
BACK = """\
## What each criterion is shown to notice
"""
LATE_TEXT = """\
## From 80 % of the sustained stage on

Every fault with `after=` is noticed by the criterion that it is there for, if it begins in the last fifth of
the stage and lasts to its end; but for these:
"""


def markdown() -> str:
    """The whole page."""
    from rigproof.simulation.faults.document import fault_table  # noqa: PLC0415 - for the page alone

    groups = [f"- *{name}*: {', '.join(f'`{one}`' for one in members)}" for name, members in GROUPS.items()]
    parts = [
        INTRODUCTION,
        fault_table(),
        "",
        MATRIX,
        *groups,
        f"- *{REST}*: every other criterion of that subject",
        "",
        "| Fault | Fails | Warns | Not measured | Why |",
        "|---|---|---|---|---|",
        *map(_row, CASES),
        "",
        LATE_TEXT,
        *(f"- `{name}` is noticed by `{criterion}`: {why}." for name, (criterion, why) in LATE.items()),
        *(f"- `{name}` is noticed from {after} on: {why}." for name, (after, why) in LONGER.items()),
        "",
        BACK,
        "| Criterion | Fails on | Warns on |",
        "|---|---|---|",
        *map(_noticed, CATALOGUE),
    ]
    return "\n".join(parts) + "\n"


def _row(case: Case) -> str:
    told = [case.fails, case.warns, case.unmeasured]
    if not any(told):
        told[{1: 0, 0: 1, 6: 2}[case.kind.ends]] = case.kind.trips
    cells = [", ".join(_shown(case, entry) for entry in entries or ()) for entries in told]
    return f"| `{case.fault}` | {' | '.join(cells)} | {case.why} |"


def _shown(case: Case, entry: str) -> str:
    name, _, subject = entry.partition("@")
    text = f"*{name}*" if name in (*GROUPS, REST) else f"`{name}`"
    if name in case.kind.trips and not subject:
        text = f"**{text}**"
    return text + (f" ({subject})" if subject else "")


def _noticed(criterion: str) -> str:
    cells = []
    for outcome in ("fails", "warns"):
        names = dict.fromkeys(
            case.fault
            for case in CASES
            if any(name == criterion for name, _ in getattr(case.stated(), outcome))
        )
        cells.append(", ".join(f"`{name}`" for name in names))
    return f"| `{criterion}` | {' | '.join(cells)} |"


__all__ = [
    "CASES",
    "LATE",
    "LONGER",
    "Case",
    "Changes",
    "changes_of",
    "markdown",
    "rig",
    "run",
    "run_changes",
]

if __name__ == "__main__":
    print(markdown(), end="")  # noqa: T201
