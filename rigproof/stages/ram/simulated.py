"""Simulated RAM: copies, then patterns over a part of what is free."""

from rigproof.criteria.evidence.nodes import no_floor
from rigproof.records.measurements import GB, Labels, Phase
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.stage import Records, SimulatedForm
from rigproof.simulation.timetable import at_rest
from rigproof.simulation.work.task import Task
from rigproof.stages.ram.criteria import FLOOR_GBPS
from rigproof.stages.ram.patterns import Wrong, in_words
from rigproof.stages.ram.stage import COPY, FILL, PATTERNS, STAGE, VERIFY, RamSpec, RamTest

FAULTS = (
    FaultKind(
        "ram-bit",
        "a bit of the host's RAM does not keep its value",
        ("host.memory",),
        scope="node",
        keys=("stage",),
        stage=STAGE,
    ),
    FaultKind(
        "ram-slow",
        "the host's RAM is slower than that of its equals, as with an empty memory channel",
        ("host.memory",),
        scope="node",
        keys=("stage", "by"),
        defaults={"by": "25%"},
        stage=STAGE,
        host_lacks=no_floor(FLOOR_GBPS),
    ),
)


# Lead, by the figures of one server of two sockets: 8 GB/s a CPU until the channels are full.
CPU_GBPS, MOST_GBPS = 8.0, 400.0
PATTERN_SHARE = 0.5  # of the rate of copies
COPY_SHARE = 0.3  # of the stage's length
FREE_SHARE = 0.7  # of a simulated host's memory
ROUNDS, WARM_UP = 10, 1
NOISE = 0.01
STUCK = Wrong(0x547ABCFF, 0x2A3D5E7F80000000, 0x2A3D5E7F80020000)


def records(task: Task, spec: RamSpec) -> Records:
    """Rounds of copies, a pass for each pattern, and the test's own record."""
    slow, broken = task.host_fault("ram-slow"), task.host_fault("ram-bit")
    speed = 1.0 if slow is None else 1 - (slow.by or 0.0)
    rate_gbps = speed * min(CPU_GBPS * spec.threads, MOST_GBPS)
    labels: Labels = {"operation": COPY, "threads": spec.threads}
    t_s, seconds = task.start_s, COPY_SHARE * spec.duration_s / ROUNDS
    for number in range(ROUNDS):
        t_s += seconds
        phase: Phase = "warmup" if number < WARM_UP else "measure"
        work = rate_gbps * (1 + task.noise.gauss(0, NOISE)) * seconds
        yield task.round(t_s, phase, seconds, work, unit=GB, labels=labels)
    seconds = (1 - COPY_SHARE) * spec.duration_s / (2 * len(PATTERNS))
    total_mib = task.node.host.ram_gib() * 1024
    free_mib = FREE_SHARE * total_mib
    reserve_mib = max(spec.reserve_mib, spec.reserve_share * total_mib)
    tested_gb = min(PATTERN_SHARE * rate_gbps * seconds, (free_mib - reserve_mib) * 2**20 / 1e9)
    for content in PATTERNS:
        for operation in (FILL, VERIFY):
            t_s += seconds
            labels = {"operation": operation, "content": content, "threads": spec.threads}
            yield task.round(t_s, "measure", seconds, tested_gb, unit=GB, labels=labels)
        if broken is not None and content == PATTERNS[0]:
            words = [STUCK.entry(content, hard=True, physical=None)]
            yield task.event(t_s, "ram_error", in_words(1, words), {"count": 1, "words": words})
    yield RamTest(
        t_s=t_s,
        stage=spec.stage,
        worker=task.plan.worker,
        subject=task.subject,
        threads=spec.threads,
        total_mib=total_mib,
        available_mib=free_mib,
        reserve_mib=reserve_mib,
        cache_mib=32.0,
        tested_mib=tested_gb * 1e9 / 2**20,
        passes=len(PATTERNS),
        wrong=0 if broken is None else 1,
        cut_short="",
    )


SIMULATED = SimulatedForm(at_rest, records)
