"""Does a host's RAM keep what is written to it, and is it as fast as that of its equals?"""

from collections.abc import Iterator

from rigproof.criteria.criterion import Criterion, Finding, Limit, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.hosts import peer_floor
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, figure
from rigproof.stages.ram.stage import COPY, FILL, LEAST_CACHES, STAGE, VERIFY, RamSettings, RamTest
from rigproof.stages.tables import StageTable

FEWEST_ROUNDS = 3  # fewer would be single readings
UNIT = "GB/s"
MIB_PER_GIB = 1024
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
    wrong, source = node.events("ram_error"), "every word is read as it was written"
    if wrong:
        first = wrong[0]
        return Finding(Outcome.FAIL, detail=first.message, remedy=BROKEN, source=source, from_s=first.t_s)
    unverified = node.unverified(STAGE)
    if len(unverified):
        detail = f"wrong words in a round of {unverified.labels('operation')[0]} ({len(unverified)} in all)"
        from_s = float(unverified.t_s[0])
        return Finding(Outcome.FAIL, detail=detail, remedy=BROKEN, source=source, from_s=from_s)
    copies, test = copy_rounds(node), tested_by(node)
    if test.wrong:
        raise NotMeasured(f"the test counted {test.wrong} wrong words, and no event tells of one")
    _require_same(test, node.rounds(STAGE))
    rate, detail = copies.rate(), in_words(test)
    floor = _floor(node)
    if floor is None:
        detail = f"{detail}; no other host of this kind to compare with"
        return Finding(Outcome.NO_LIMIT, rate, detail=detail)
    return pass_or_fail(rate, floor, good=rate >= floor.value, detail=detail)


def copy_rounds(node: NodeEvidence) -> Rounds:
    """The measured, verified rounds of copies. Raises NotMeasured if there are too few."""
    done = node.rounds(STAGE)
    done = done.only(done.labelled("operation", COPY)).verified.measured
    if len(done) < FEWEST_ROUNDS:
        why = [event.message for event in node.events("ram_short")] or [node.cause(STAGE)]
        raise NotMeasured("; ".join(filter(None, [f"{len(done)} verified rounds of copies", *why])))
    return done


def tested_by(node: NodeEvidence) -> RamTest:
    """The test with patterns. Raises NotMeasured if it tested too little, or did not come to its end."""
    test = node.record(RamTest, STAGE)
    if test is None:
        cause = node.cause(STAGE)
        raise NotMeasured("the test with patterns did not end" + (f": {cause}" if cause else ""))
    least = node.stage_limit(RamSettings, STAGE, "least_gib")
    assert least is not None
    least_mib = max(MIB_PER_GIB * least.value, LEAST_CACHES * test.cache_mib)
    if test.passes < 1 or not test.tested_mib >= least_mib:
        why = f": {test.cut_short}" if test.cut_short else ""
        raise NotMeasured(
            f"{test.tested_mib / MIB_PER_GIB:.2f} GiB were tested with patterns, of at least "
            f"{least_mib / MIB_PER_GIB:g}; {test.available_mib / MIB_PER_GIB:.1f} GiB were free, and "
            f"{test.reserve_mib / MIB_PER_GIB:.1f} GiB stay free{why}"
        )
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
        sizes = (test.tested_mib, test.available_mib, test.total_mib)
        tested, free, total = (f"{one / MIB_PER_GIB:.1f}" for one in sizes)
        raise NotMeasured(f"{tested} GiB are said to have been tested, of {free} GiB free and {total} in all")


def in_words(test: RamTest) -> str:
    """How much was tested, and of how much."""
    share = 100 * test.tested_mib / max(test.total_mib, 1.0)
    patterns = "1 pattern" if test.passes == 1 else f"{test.passes} patterns"
    text = (
        f"{test.tested_mib / MIB_PER_GIB:.1f} of {test.total_mib / MIB_PER_GIB:.1f} GiB ({share:.0f} %) "
        f"tested with {patterns}"
    )
    return f"{text}; {test.cut_short}" if test.cut_short else text


def _floor(node: NodeEvidence) -> Limit | None:
    stated = node.stage_limit(RamSettings, STAGE, "floor_gbps")
    if stated is not None:
        return stated
    share = node.stage_limit(RamSettings, STAGE, "peer_share")
    assert share is not None
    return peer_floor(node, lambda other: copy_rounds(other).rate(), share)


CRITERIA = (memory,)


OPERATIONS = (COPY, FILL, VERIFY)


def tables(recording: Recording) -> Iterator[StageTable]:
    """One row per host: its rates, and how much was tested; a dash for what was not measured."""
    rows = []
    for subject in recording.nodes:
        rounds = Rounds.of_subject(recording.rounds, subject)
        rounds = rounds.only(rounds.same("stage", STAGE) & rounds.same("phase", "measure")).verified
        tests = recording.of(RamTest).of(subject)
        if len(rounds) or tests:
            rows.append((subject, *(_rate(rounds, one) for one in OPERATIONS), *_tested(tests)))
    if rows:
        yield StageTable(
            section="Hosts",
            title="RAM",
            columns=(
                "Host",
                *(f"{one}, {UNIT}" for one in OPERATIONS),
                "tested, GiB",
                "of, GiB",
                "wrong words",
            ),
            rows=tuple(rows),
            note="Copies count bytes read and written, by a thread on each CPU; patterns are written (fill) "
            "and read back (verify).",
        )


def _rate(rounds: Rounds, operation: str) -> str:
    own = rounds.only(rounds.labelled("operation", operation))
    return figure(own.rate()) if len(own) else "–"


def _tested(tests: list[RamTest]) -> tuple[str, str, str]:
    if not tests:
        return "–", "–", "–"
    last = tests[-1]
    return f"{last.tested_mib / 1024:.1f}", f"{last.total_mib / 1024:.1f}", str(last.wrong)
