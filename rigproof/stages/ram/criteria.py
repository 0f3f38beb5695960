"""Does a host's RAM keep what is written to it, and is it as fast as that of its equals?"""

from collections.abc import Iterator

from rigproof.criteria.criterion import Criterion, Finding, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.nodes import NodeEvidence, host_floor
from rigproof.criteria.evidence.rounds import FEWEST_ROUNDS, Rounds
from rigproof.profiles.planning.planning import MIB_PER_GIB
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, count_of
from rigproof.stages.ram.stage import COPY, FILL, KIND, LEAST_CACHES, STAGE, VERIFY, RamTest
from rigproof.stages.tables import NO_RATE, StageTable, rate_of

LEAST_GIB = KIND.key(lambda own: own.least_gib)
FLOOR_GBPS = KIND.key(lambda own: own.floor_gbps)
PEER_SHARE = KIND.key(lambda own: own.peer_share)

UNIT = "GB/s"
BROKEN = "do not train on this host: find the module with memtest86+; replace it, or lower its clock"


@Criterion(
    "host.memory",
    title="RAM",
    scope="node",
    unit=UNIT,
    direction="at_least",
    limit="no wrong word in any round, and copies at no less than `stages.ram.floor_gbps`, if the rig states "
    "it, else `stages.ram.peer_share` of the median of the other hosts of this kind (the same CPU model, as "
    "many CPUs, as much RAM), else none",
    limits=(FLOOR_GBPS, PEER_SHARE, LEAST_GIB),
    severity="isolate",
    remedy="end other programs on this host, and check that every memory channel has its module, at the same "
    "clock (`sudo dmidecode -t memory`)",
    unmeasured="less than `stages.ram.least_gib`, or than twice the CPU's caches, was free beside the "
    "reserve, or could be tested; too few copies; wrong words were counted of which no event tells; or the "
    "test says otherwise than its rounds",
    stages=(STAGE,),
    rate=True,
)
def memory(node: NodeEvidence) -> Finding:
    """Copies in RAM by a thread on each CPU, and patterns over what is free beside a reserve.

    The rate counts bytes read and written. Patterns (own address, random, complement) are written and
    verified as far as the time of the level allows; the verdict says how much that was.
    """
    source = "every word is read as it was written"
    if wrong := node.events("ram_error"):
        detail, from_s = wrong[0].message, wrong[0].t_s
        return Finding(Outcome.FAIL, detail=detail, remedy=BROKEN, source=source, from_s=from_s)
    if len(unverified := node.unverified(STAGE)):
        detail = f"wrong words in a round of {unverified.labels('operation')[0]} ({len(unverified)} in all)"
        from_s = float(unverified.t_s[0])
        return Finding(Outcome.FAIL, detail=detail, remedy=BROKEN, source=source, from_s=from_s)
    rate, test = copy_rate(node), tested_by(node)
    if test.wrong:
        raise NotMeasured(f"the test counted {test.wrong} wrong words, and no event tells of one")
    _require_same(test, node.rounds(STAGE))
    floor = host_floor(node, FLOOR_GBPS, PEER_SHARE, copy_rate)
    if floor is None:
        detail = f"{in_words(test)}; no other host of this kind to compare with"
        return Finding(Outcome.NO_LIMIT, rate, detail=detail)
    return pass_or_fail(rate, floor, good=rate >= floor.value, detail=in_words(test))


def copy_rate(node: NodeEvidence) -> float:
    """GB/s, of the measured, verified rounds of copies. Raises NotMeasured if there are too few."""
    done = node.rounds(STAGE).having(operation=COPY).verified.measured
    if len(done) < FEWEST_ROUNDS:
        why = [event.message for event in node.events("ram_short")] or [node.cause(STAGE)]
        raise NotMeasured("; ".join(filter(None, [f"{len(done)} verified rounds of copies", *why])))
    return done.rate()


def tested_by(node: NodeEvidence) -> RamTest:
    """The test with patterns. Raises NotMeasured if it tested too little, or did not come to its end."""
    test = node.record(RamTest, STAGE, "the test with patterns did not end")
    least_gib = max(node.limit(LEAST_GIB).value, LEAST_CACHES * test.cache_mib / MIB_PER_GIB)
    if test.passes < 1 or not test.tested_mib >= MIB_PER_GIB * least_gib:
        free = f"{_gib(test.available_mib)} GiB were free, and {_gib(test.reserve_mib)} GiB stay free"
        tested = f"{test.tested_mib / MIB_PER_GIB:.2f} GiB were tested with patterns"
        raise NotMeasured(f"{tested}, of at least {least_gib:g}; {free}", test.cut_short)
    return test


def _require_same(test: RamTest, rounds: Rounds) -> None:
    """NotMeasured if the test says otherwise than its own rounds, or tested more than was free."""
    verified = int(rounds.labelled("operation", VERIFY).sum())
    threads = rounds.distinct_labels("threads")
    if test.passes > verified:
        raise NotMeasured(f"{test.passes} patterns are said to have been verified, and {verified} were")
    if threads != {test.threads}:
        done = " and ".join(sorted(map(str, threads)))
        raise NotMeasured(f"it was tested by {test.threads} threads, and its rounds are of {done}")
    if not test.tested_mib <= min(test.available_mib, test.total_mib):
        free = f"{_gib(test.available_mib)} GiB free and {_gib(test.total_mib)} in all"
        raise NotMeasured(f"{_gib(test.tested_mib)} GiB are said to have been tested, of {free}")


def in_words(test: RamTest) -> str:
    """How much was tested, and of how much."""
    share = 100 * test.tested_mib / test.total_mib
    tested = f"{_gib(test.tested_mib)} of {_gib(test.total_mib)} GiB ({share:.0f} %)"
    text = f"{tested} tested with {count_of(test.passes, 'patterns')}"
    return f"{text}; {test.cut_short}" if test.cut_short else text


def _gib(mib: float) -> str:
    return f"{mib / MIB_PER_GIB:.1f}"


CRITERIA = (memory,)


def tables(recording: Recording) -> Iterator[StageTable]:
    """One row per host: its rates, and how much was tested; a dash for what was not measured."""
    operations = (COPY, FILL, VERIFY)
    rows = []
    for subject in recording.nodes:
        rounds = Rounds.of_subject(recording.rounds, subject)
        own = rounds.only(rounds.same("stage", STAGE)).verified.measured
        rates = [rate_of(own, operation=one) for one in operations]
        tests = recording.of(RamTest).of(subject)
        if tests or any(rate != NO_RATE for rate in rates):
            tested = [(_gib(one.tested_mib), _gib(one.total_mib), str(one.wrong)) for one in tests]
            rows.append((subject, *rates, *(tested[-1] if tested else 3 * (NO_RATE,))))
    if rows:
        yield StageTable(
            section="Hosts",
            title="RAM",
            columns=(
                "Host",
                *(f"{one}, {UNIT}" for one in operations),
                *("tested, GiB", "of, GiB", "wrong words"),
            ),
            rows=tuple(rows),
            note="Copies count bytes read and written, by a thread on each CPU; patterns are written (fill) "
            "and read back (verify).",
        )
