"""Did the test have the card to itself?"""

from rigproof.criteria.criterion import Criterion, Disturbed, Finding, Limit, pass_or_fail
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.strangers import (
    STRANGER_GROWTH_MIB,
    STRANGER_SM_PERCENT,
    Stranger,
    require_watched,
    strangers_of,
)
from rigproof.profiles.kinds.stages import DUTIES
from rigproof.records.processes import NAMED
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import MID, TIMES, FaultKind

END_IT = "end that process, or run again when the card is free"


@Criterion(
    "activity.undisturbed",
    title="foreign processes",
    unit="strangers",
    direction="at_most",
    limit="no foreign process that starts during the run and computes. One that was there before, or draws a "
    "desktop, may use at most `limits.stranger_sm_percent` of the SMs and grow by at most "
    "`limits.stranger_growth_mib`. One that draws, or whose context holds no memory and uses no SM, only "
    "warns: its effect on a rate is judged there",
    limits=(STRANGER_SM_PERCENT, STRANGER_GROWTH_MIB),
    severity="config",
    remedy=END_IT,
    surroundings=True,
    unmeasured="a stranger was there; or the card's processes were not watched for a while, or not up to the "
    "end of the load; not required if the driver does not list them, does not report which of those that "
    "were there before the run compute, or (in a container) reports pids that do not distinguish ours from "
    "others",
    applies_to_cpu=False,
    duties=("continuous", "fed", "bursts", "arms"),
)
def undisturbed(device: DeviceEvidence) -> Finding:
    """No foreign process computed on the card, or took its memory, while it was under test.

    Its processes are read about once a second. A worker's own are those with its pid and their descendants.
    Failures that a foreign process explains (a low rate, memory that ran out, an Xid) are not measured.
    What it did not cause is judged as if it had not been there.
    """
    strangers = strangers_of(device)
    none = Limit(0, device.limit(STRANGER_SM_PERCENT).source)
    if not strangers:
        require_watched(device)
        return pass_or_fail(0, none, good=True)
    named = [_in_words(one) for one in strangers[:NAMED]]
    more = [f"and {len(strangers) - NAMED} more"] if len(strangers) > NAMED else []
    detail = "; ".join([*named, *more])
    if not all(one.only_warns for one in strangers):
        raise Disturbed(detail, END_IT, strangers[0].from_s)
    require_watched(device)
    return Finding(Outcome.WARN, len(strangers), none, detail, from_s=strangers[0].from_s)


def _in_words(stranger: Stranger) -> str:
    return ", ".join(filter(None, (f"{stranger.who} was there {stranger.when}", stranger.took)))


FAULTS = (
    FaultKind(
        "stranger-computes",
        "a foreign process starts and computes; by= is its share of the card",
        ("activity.undisturbed",),
        ends="not measured",
        keys=(*TIMES, "by"),
        defaults={"by": "45%", **MID},
        duties=DUTIES,
    ),
    FaultKind(
        "stranger-takes-memory",
        "a foreign process starts and takes free memory; to= is in MiB",
        ("activity.undisturbed",),
        ends="not measured",
        keys=(*TIMES, "to"),
        defaults=MID,
        duties=DUTIES,
    ),
    FaultKind(
        "stranger-crashes",
        "a foreign process starts and crashes with an illegal access, which the driver reports as Xid 31",
        ("activity.undisturbed",),
        ends="not measured",
        keys=TIMES,
        defaults={**MID, "for": "5"},
        duties=DUTIES,
        brief=True,
    ),
)
