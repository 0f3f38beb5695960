"""Can a host's disk take checkpoints: is there room, is it fast, and does it keep what is written to it?"""

from collections.abc import Iterator
from contextlib import suppress
from statistics import median

from rigproof.criteria.criterion import Criterion, Disturbed, Finding, Limit, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.nodes import NodeEvidence, host_floor
from rigproof.criteria.evidence.rounds import FEWEST_ROUNDS, Rounds
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, count_of, figure
from rigproof.stages.disk.stage import KIND, READ, STAGE, WRITE, DiskTest
from rigproof.stages.tables import NO_RATE, StageTable

UNIT = "MB/s"
FULL = "make room: delete old checkpoints and logs, or use a larger disk (`stages.disk.path`)"
KEPT = "the data that were written"
CORRUPT = "keep no checkpoints there; look at `sudo dmesg`, `smartctl -a`, the cable"
NO_ROOM = ("ENOSPC", "EDQUOT")  # the system's errors of a disk that others have filled; EIO is its own
ELSEWHERE = "point `stages.disk.path` to the folder in which checkpoints are written"
FREE_WARN_SHARE = KIND.key(lambda own: own.free_warn_share)
USED_FAIL_SHARE = KIND.key(lambda own: own.used_fail_share)
PEER_SHARE = KIND.key(lambda own: own.peer_share)
WRITE_FLOOR_MBPS = KIND.key(lambda own: own.write_floor_mbps)
READ_FLOOR_MBPS = KIND.key(lambda own: own.read_floor_mbps)
FLOORS = {WRITE: WRITE_FLOOR_MBPS, READ: READ_FLOOR_MBPS}
HOW = {
    "direct": "past the page cache",
    "synced": "synced, and dropped from the page cache",
    "": "not written",
}


@Criterion(
    "host.disk",
    title="checkpoint disk",
    scope="node",
    unit=UNIT,
    direction="at_least",
    limit="what is read back is what was written; it warns under `stages.disk.free_warn_share` free; median "
    "rates of writing and reading of at least `stages.disk.write_floor_mbps` and "
    "`stages.disk.read_floor_mbps`, where the rig states them, else `stages.disk.peer_share` of the "
    "median of the other hosts of this kind (the same CPU model, as many CPUs, as much RAM) with the same "
    "file system, else none. The rate that is lowest relative to its floor is shown",
    limits=(FREE_WARN_SHARE, WRITE_FLOOR_MBPS, READ_FLOOR_MBPS, PEER_SHARE, USED_FAIL_SHARE),
    severity="isolate",
    remedy="end other programs that use this disk, and see its health (`smartctl -a`)",
    unmeasured="the disk is full: `stages.disk.used_fail_share` of it is in use; there is no such folder, or "
    "it may not be written to; its file system keeps files in memory (tmpfs); there is too little room to "
    "write beside `stages.disk.reserve_gib`; too few chunks were written and read, more was read back than "
    "was written, or wrong chunks were counted of which no event tells",
    stages=(STAGE,),
    rate=True,
)
def disk(node: NodeEvidence) -> Finding:
    """A file without a name is written where checkpoints are, past the page cache, and read back.

    The verdict says where that was, on which file system and device, and how the cache was avoided. Rates
    are medians of chunks of 16 MiB.
    """
    if (wrong := _wrong(node)) is not None:  # even if the test did not end
        return wrong
    test = tested_by(node)
    where = in_words(test)
    if test.wrong:
        raise NotMeasured(
            f"the test counted {count_of(test.wrong, 'wrong chunks')}, and no event tells of one"
        )
    if test.error == "EIO":
        detail, usable = f"{test.trouble}; {where}", "a disk that can be written to"
        return Finding(Outcome.FAIL, detail=detail, remedy=CORRUPT, source=usable)
    if test.error in NO_ROOM:
        raise Disturbed(f"{test.trouble}; {where}", FULL)
    most = node.limit(USED_FAIL_SHARE)
    used = f"{100 * test.used_share:.0f} % in use, {test.free_gib:.1f} GiB free"
    if test.filesystem != "unknown" and test.used_share >= most.value:
        raise Disturbed(f"{used}, limit {100 * most.value:g} %; {where}", FULL)
    if test.trouble:
        raise NotMeasured(f"{test.trouble} ({where}); {ELSEWHERE}")
    if not 0 < test.verified_mib <= test.written_mib or not test.how:
        how = "" if test.how else " in a way that is not known"
        read = f"{test.verified_mib:.0f} MiB were read back of the {test.written_mib:.0f} MiB written{how}"
        raise NotMeasured(f"{read} ({where})")
    if not (0 <= test.used_share <= 1 and test.free_gib <= test.total_gib):
        raise NotMeasured(f"{used}, of {test.total_gib:.1f} GiB ({where})")
    found = _rates(node, f"{used}; {where}")
    least = node.limit(FREE_WARN_SHARE)
    if found.outcome is Outcome.FAIL or 1 - test.used_share >= least.value:
        return found
    detail = f"under {100 * least.value:g} % free ({least.source}): {found.detail}"
    return found._replace(outcome=Outcome.WARN, detail=detail, remedy=FULL)


def tested_by(node: NodeEvidence) -> DiskTest:
    """The host's test. Raises NotMeasured if it did not come to its end."""
    return node.record(DiskTest, STAGE, "the disk was not measured")


def _wrong(node: NodeEvidence) -> Finding | None:
    """The failure if a chunk was read otherwise than it was written."""
    events, unverified = node.events("disk_error"), node.unverified(STAGE)
    if not events and not len(unverified):
        return None
    if events:
        detail, from_s = events[0].message, events[0].t_s
        detail += f" ({len(events)} chunks)" if len(events) > 1 else ""
    else:
        detail = f"read otherwise than it was written, in {len(unverified)} of the chunks"
        from_s = float(unverified.t_s[0])
    with suppress(NotMeasured):
        detail += f"; {in_words(tested_by(node))}"
    return Finding(Outcome.FAIL, detail=detail, remedy=CORRUPT, source=KEPT, from_s=from_s)


def in_words(test: DiskTest) -> str:
    """Where the file was: `/data on ext4 (/dev/nvme0n1p2), past the page cache`."""
    on = f"{test.path} on {test.filesystem} ({test.device})" if test.filesystem != "unknown" else test.path
    return f"{on}, {HOW[test.how]}" if test.how else on


def _rates(node: NodeEvidence, detail: str) -> Finding:
    rates = {operation: _median_rate(node, operation) for operation in FLOORS}
    words = {operation: f"{operation} {figure(rate, UNIT)}" for operation, rate in rates.items()}
    floors = {one: floor for one in rates if (floor := _floor(node, one)) is not None}
    if not floors:
        detail = f"{', '.join(words.values())}; {detail}; no other such host to compare with"
        return Finding(Outcome.NO_LIMIT, rates[WRITE], detail=detail)
    lowest = min(floors, key=lambda one: rates[one] / floors[one].value)
    rate, floor = rates[lowest], floors[lowest]
    others = ", ".join(text for one, text in words.items() if one != lowest)
    return pass_or_fail(rate, floor, good=rate >= floor.value, detail=f"{lowest}, {others}; {detail}")


def _floor(node: NodeEvidence, operation: str) -> Limit | None:
    own = tested_by(node)

    def rate_of(other: NodeEvidence) -> float:
        its = tested_by(other)
        if (its.filesystem, its.how) != (own.filesystem, own.how):
            raise NotMeasured("it has another file system")
        return _median_rate(other, operation)

    return host_floor(node, FLOORS[operation], PEER_SHARE, rate_of)


def _median_rate(node: NodeEvidence, operation: str) -> float:
    """MB/s, of the measured, verified chunks. Raises NotMeasured if there are too few."""
    done = node.rounds(STAGE).having(operation=operation).verified.measured
    if len(done) < FEWEST_ROUNDS:
        few = f"{count_of(len(done), 'verified chunks')} to {operation}"
        raise NotMeasured(few, node.cause(STAGE))
    rates: list[float] = done.rates.tolist()
    return median(rates)


CRITERIA = (disk,)


def tables(recording: Recording) -> Iterator[StageTable]:
    """One row per host: where its file was, its rates and its room; a dash for what was not measured."""
    rows = []
    for subject in recording.nodes:
        rounds = Rounds.of_subject(recording.rounds, subject)
        own = rounds.only(rounds.same("stage", STAGE)).verified.measured
        for test in recording.of(DiskTest).of(subject)[-1:]:
            where = (subject, test.path, f"{test.filesystem} ({test.device})", HOW.get(test.how, test.how))
            rates = (own.having(operation=operation).rates.tolist() for operation in FLOORS)
            room = (f"{test.written_mib:.0f}", f"{test.free_gib:.1f}", f"{100 * test.used_share:.0f}")
            rows.append((*where, *(figure(median(one)) if one else NO_RATE for one in rates), *room))
    if rows:
        yield StageTable(
            section="Hosts",
            title="Checkpoint disk",
            columns=(
                *("Host", "folder", "file system", "how"),
                *(f"{operation}, {UNIT}" for operation in FLOORS),
                *("written, MiB", "free, GiB", "in use, %"),
            ),
            rows=tuple(rows),
            labels=4,
            note="Medians of chunks of 16 MiB, which were compared when they were read back; the file has no "
            "name, and was gone with the process that wrote it.",
        )
