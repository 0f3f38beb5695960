"""Do all devices train together with the same gradients, and does it pay?"""

from collections.abc import Iterator

from rigproof.criteria.criterion import Criterion, Disturbed, Finding, Limit, pass_or_fail
from rigproof.criteria.evidence.comparable import UNDECIDED
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.set_apart import of_the_others
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.criteria.evidence.slowed import rate_slowed_by
from rigproof.profiles.planning.subjects import subjects
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, figure
from rigproof.stages.ddp.evidence import EXCHANGE_SHARE, Team, differences, halt_in, require_reported, team_of
from rigproof.stages.ddp.stage import KIND, STAGE
from rigproof.stages.tables import NO_RATE, StageTable

OWN_SHARE = KIND.key(lambda own: own.own_share)
NORM_SHARE = KIND.key(lambda own: own.norm_share)

UNIT = "×"
LITTLE = 0.25  # of a step: the exchange costs no more with as many accumulated gradients as a remedy names
MOST_SHARES = 8  # devices whose examples a sentence names
WRONG = "do not train on this device; run it in another slot, and replace it if it is wrong there"


@Criterion(
    "collective.training",
    title="trained together",
    scope="rig",
    unit=UNIT,
    direction="at_least",
    limit="as fast as each device's steps by itself and an exchange of the gradients alone would be, one "
    "after another, times `stages.ddp.own_share` (none where a CPU is the device: whoever else uses it slows "
    "some of the steps); an exchange at less than `stages.ddp.exchange_share` of "
    "the rate of the run's all-reduces is not taken as given. After it all ranks must hold the same bits; of "
    "a micro-batch that up to three ranks compute by themselves, equal GPUs must get the same bits (two that "
    "agree outvote the third), all others norms within `stages.ddp.norm_share`; losses and, but for fp16, "
    "norms are finite",
    limits=(OWN_SHARE, EXCHANGE_SHARE, NORM_SHARE),
    severity="isolate",
    remedy="see lan.bandwidth, transfer.peer, collective.all_reduce and `top`",
    unmeasured="a promised device did not take part, or did not report its steps or its gradients; or a "
    "signal ended or stopped a rank, or others kept it from the CPU",
    key_figure=True,
    headline=True,
    idling="not measured",
    stages=(STAGE,),
    caused_by_others=rate_slowed_by,
)
def training(rig: Evidence) -> Finding:
    """Training steps with DistributedDataParallel over all devices, as a multiple of the fastest one's alone.

    A faster device gets more of the examples. The verdict says what the exchange of gradients costs; if the
    devices are slower together than the fastest one alone, also how many steps to accumulate before each
    exchange. Equal gradients prove nothing by themselves: an all-reduce spreads one rank's error to all.
    """
    (every,) = subjects(rig.loaded, "rig")
    return of_the_others(SharedEvidence(rig, every), STAGE, UNIT, _of_all)


def _of_all(trained: SharedEvidence) -> Finding:
    """The same of all devices that were not set apart."""
    rig = trained.evidence
    norm_share, _ = rig.loaded.stated(NORM_SHARE)
    wrong = differences(rig, norm_share)
    if wrong:  # whatever ended the ranks later
        first = wrong[0]
        return Finding(
            Outcome.FAIL,
            detail=f"{first.what}: {first.device} {first.how}",
            source="the same examples and weights",
            remedy=UNDECIDED if first.undecided else WRONG,
            from_s=first.t_s,
        )
    if (halted := halt_in(trained)) is not None:
        if halted.by_others:
            raise Disturbed(halted.words, halted.next_step, halted.t_s)
        return Finding(
            Outcome.FAIL,
            detail=halted.words,
            source="every rank gets through",
            remedy=halted.next_step,
            from_s=halted.t_s,
        )
    team = team_of(trained)
    require_reported(rig, team)
    share, file = rig.loaded.stated(OWN_SHARE)
    if share is None or any(one.is_cpu for one in rig.devices):
        return Finding(Outcome.NO_LIMIT, team.times_alone, detail=in_words(team))
    source = f"{share:g} ({file}) of what steps and an exchange take one after the other"
    limit = Limit(share * team.expected_times_alone, source)
    good = team.times_alone >= limit.value
    return pass_or_fail(team.times_alone, limit, good=good, detail=in_words(team))


def in_words(team: Team) -> str:
    """`together 1.3 × pc1/gpu0 alone (20 + 12 examples); the LAN costs 38 % of each step`."""
    unlike = len({one.batch for one in team.ranks}) > 1 and len(team.ranks) <= MOST_SHARES
    examples = f" ({' + '.join(str(one.batch) for one in team.ranks)} examples)" if unlike else ""
    pays = team.times_alone >= 1
    verb = "together" if pays else "slower together:"
    text = f"{verb} {team.times_alone:.2g} × {team.fastest.device} alone{examples}"
    what = "the LAN" if len({one.device.partition("/")[0] for one in team.ranks}) > 1 else "the exchange"
    text += f"; {what} costs {100 * team.exchange_share:.0f} % of each step"
    if not pays and team.exchange_share > LITTLE:
        steps, percent = team.accumulated(LITTLE), 100 * LITTLE
        text += f", but {percent:.0f} % with gradient_accumulation_steps={steps}"
    if team.exchange_s > team.most_exchange_s:
        allowed = figure(team.most_exchange_s, "s")
        text += f"; alone it takes {figure(team.exchange_s, 's')}, by the run's all-reduces {allowed} at most"
    return text


CRITERIA = (training,)


def tables(recording: Recording) -> Iterator[StageTable]:
    """Each rank's examples and rates."""
    events = [one for one in recording.events if one.stage == STAGE and one.kind == "ddp_rank"]
    rows = []
    for event in {str(one.data.get("device")): one for one in events if recording.is_last(one)}.values():
        data = event.data
        numbers = [data.get(name) for name in ("rank", "batch", "gradients_mib", "exchange_s")]
        shown = (figure(one) if isinstance(one, int | float) else NO_RATE for one in numbers)
        rows.append((str(data.get("device")), *shown))
    yield StageTable(
        "Training together",
        "A model on all devices, with DistributedDataParallel",
        ("Device", "rank", "examples", "gradients, MiB", "exchange alone, s"),
        tuple(rows),
        note="What it gains and costs is in the verdict of collective.training.",
    )
