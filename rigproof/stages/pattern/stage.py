"""The pattern stage: its settings, what a wrong word is, and what each worker is told."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import and_
from typing import ClassVar, Literal, get_args

from pydantic import Field

from rigproof.devices.specs import Spec
from rigproof.profiles.kinds.stages import HeldAgainst, Label, Need, StagePlan
from rigproof.profiles.lint.stated import rig_problem
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import NO_POLICY, MemoryPlan, WorkerPlan
from rigproof.profiles.planning.planning import MIB_PER_GIB
from rigproof.profiles.tables.base import Meaningful, Positive, Share, optional
from rigproof.profiles.tables.levels import LevelName, SomeLevels
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.records.measurements import GB, Event
from rigproof.stages.kind import StageKind, StageWork

BITS_SHOWN = 4
FEWEST_WORDS = 3  # words: any two are at some distance from each other
WORD_BYTES = 8
STAGE = "pattern"

Operation = Literal["write", "invert", "check"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
COLD, HOT = "cold", "hot"

MEANINGS = {  # of the patterns, in the order of the passes
    "address": "each word holds its own address",
    "modulo-20": "every twentieth word differs from all others",
    "random": "random words, from a seed",
    "walking": "a single bit that moves on from word to word",
    "bit-fade": "all bits alike, compared after a pause",
}
FADE = "bit-fade"


class PatternSettings(OptionalSettings):
    """Whether memory keeps what it is given: nearly all that is free is filled, compared and inverted."""

    of_rig: ClassVar[frozenset[str]] = OptionalSettings.of_rig | {"fade_s"}

    length_s: SomeLevels = Field(
        description="Length of the passes, in s, by level; each pattern is done at least once. 0: the stage "
        "does not run at that level."
    )
    fade_s: SomeLevels = Field(
        description="Pause between writing and reading the pattern bit-fade, in s, by level; there are two, "
        "after the passes. 0: that pattern is left out at that level."
    )
    free_share: Share = Field(
        description="Share of the memory that is free when the stage begins, or of the cap of "
        "`memory.fraction_share` if that is less, that is filled. The rest is for the counts. Less is filled "
        "if otherwise `limits.headroom_gib` would not stay free, but not less than `tested_share`."
    )
    tested_share: Share = Field(
        description="Smallest share of that memory, and of what the GPU's workers fill in the sustained "
        "stage, that must have been tested.",
        json_schema_extra=Meaningful(lowest=0.5, below="passes a card half of whose memory is never tested"),
    )
    # GDDR6X that throttles loses a tenth and more; one card is within 1 % over runs.
    hot_share: Share = Field(
        description="Smallest rate of reading at the end of the passes, as a share of the rate at their "
        "beginning, for a card without a memory temperature sensor.",
        json_schema_extra=Meaningful(0.5, 0.98, "allows a rate that halves", "fails sound cards"),
    )
    own_share: Share | None = optional(
        "Smallest rate of the fastest passes, as a share of what follows from the card's own "
        "memory bandwidth."
    )
    # Operations of torch on the host: about 1 GiB/s on a single thread.
    cpu_mib: Positive = Field(
        description="Host memory that is tested if the CPU is the device, in MiB.",
        json_schema_extra=Meaningful(
            1, 4096, "tests nothing but the processor's caches", "takes a CPU minutes"
        ),
    )


def patterns_with(fade_s: float) -> tuple[str, ...]:
    """The patterns of a stage with these pauses."""
    return tuple(name for name in MEANINGS if name != FADE or fade_s)


@dataclass(frozen=True, slots=True)
class VramError:
    """A word of the memory that was not as written, and what reading it again gave.

    `hard`: it was wrong again; `soft`: it was right the second time, so that only the reading was wrong.
    `mended`: it was right once it had been written anew, so that its cell is not stuck. Words are 16
    hexadecimal digits; `bits` are those that differ, from 0 on.
    """

    t_s: float
    stage: str
    worker: str
    subject: str
    pattern: str
    operation: str
    chunk: int  # the allocation, from 0 on
    word: int  # its place in the chunk
    offset: int  # bytes from the beginning of the memory under test
    address: str  # the device's virtual address, hexadecimal
    expected: str
    read: str
    again: str
    bits: str
    kind: Literal["hard", "soft"]
    mended: bool


PAUSES = 2  # of bit-fade: one for set bits, one for cleared ones


def plan(settings: PatternSettings, level: LevelName, round_s: float) -> StagePlan | None:
    """The passes, then the pauses; a round is one pass, however long it takes."""
    passes_s = settings.length_s.at(level)
    if not passes_s:
        return None
    whole_s = passes_s + PAUSES * settings.fade_s.at(level)
    return StagePlan(STAGE, whole_s, settle_s=0.0, measure_s=passes_s, round_s=round_s)


def bits_of(differing: int) -> tuple[int, ...]:
    """The bits that are set, from 0 on; of a negative number those of its 64-bit form."""
    return tuple(bit for bit in range(64) if differing >> bit & 1)


def bits_in_words(bits: Sequence[int | str]) -> str:
    """`bit 17`, `bits 3, 17`, `60 bits`."""
    if len(bits) > BITS_SHOWN:
        return f"{len(bits)} bits"
    return f"bit{'' if len(bits) == 1 else 's'} {', '.join(map(str, bits))}"


def in_common(errors: Sequence[VramError]) -> str:
    """What several wrong words share: bits, and a regular distance. Empty for a single one."""
    if len(errors) < 2:
        return ""
    differing = [int(one.expected, 16) ^ int(one.read, 16) for one in errors]
    shared = bits_of(reduce(and_, differing))
    which = "in different bits"
    if shared:
        which = f"all {'with' if len(set(differing)) > 1 else 'in'} {bits_in_words(shared)}"
    distance = _distance(sorted({one.offset for one in errors}))
    return f"{which}, {distance}" if distance else which


def _distance(offsets: Sequence[int]) -> str:
    """How far apart, if that is regular: adjoining words, or multiples of a distance."""
    if len(offsets) < FEWEST_WORDS:
        return ""
    apart = [after - before for before, after in pairwise(offsets)]
    if set(apart) == {WORD_BYTES}:
        return "side by side"
    if len(set(apart)) == 1:
        return f"every {apart[0]} bytes"
    common = math.gcd(*apart)
    return f"multiples of {common} bytes apart" if common > WORD_BYTES else ""


@dataclass(frozen=True, slots=True)
class PatternSpec(Spec):
    """Fill `free_share` of what is free with each pattern in turn, for `duration_s`, and compare every word.

    At most `most_mib` is tested; None: no such limit. `reserve_mib` stay free, unless less than `least_share`
    could be filled then. `fade_s` is each of the two pauses of the last pattern;
    0: without it.
    """

    duration_s: float
    fade_s: float
    free_share: float
    most_mib: float | None = None
    memory: MemoryPlan = NO_POLICY
    least_share: float = 0.0
    reserve_mib: float = 0.0


def spec(work: StageWork, worker: WorkerPlan, own: PatternSettings) -> Spec:
    """One worker of each device tests its memory, with what all the device's workers may take."""
    return PatternSpec(
        stage=work.stage.name,
        duration_s=work.stage.measure_s,
        fade_s=own.fade_s.at(work.plan.level),
        free_share=own.free_share,
        most_mib=own.cpu_mib if worker.device == "cpu" else None,
        least_share=own.tested_share,
        reserve_mib=(work.devices[worker.subject].limits.headroom_gib or 0.0) * MIB_PER_GIB,
        memory=work.plan.memory_beside(worker),
    )


def problems(loaded: LoadedRig, _level: LevelName) -> Iterator[str]:
    """A share of the memory to be filled that is less than what must be tested."""
    tables = [("", loaded.settings(PatternSettings))]
    tables += [(f"{device.key}.", device.settings(PatternSettings)) for device in loaded.devices()]
    seen = set()
    for prefix, own in tables:
        if own.free_share < own.tested_share and (own.free_share, own.tested_share) not in seen:
            seen.add((own.free_share, own.tested_share))
            key = f"{prefix}stages.{STAGE}.free_share"
            wrong = f"under tested_share = {own.tested_share:g}, so that too little is always tested"
            yield rig_problem(loaded, key, own.free_share, wrong, f"write {own.tested_share:g} or more")


def _by_triton(events: Sequence[Event]) -> bool:
    """Whether its passes were Triton's: torch's operations take several times as long."""
    return any(one.kind == "pattern_kernels" and one.data.get("by") == "Triton" for one in events)


KIND = StageKind(
    STAGE,
    "bursts",
    PatternSettings,
    spec=spec,
    plan=plan,
    shortest_s=4.0,
    lint=problems,
    unit=GB,
    labels=(  # none separates work: a pass is too short for the sensors, but all of them together are not
        Label("pattern", str, rests=(FADE,)),
        Label("operation", str),
        Label("size", int, amount=True),  # MiB that each pass goes over
        Label("heat", str, optional=True),  # of passes that are compared with each other: "cold" or "hot"
    ),
    held_against=HeldAgainst("memory bandwidth", (Need(GB),), _by_triton, every=True),
    events={
        "pattern_kernels": "what does the passes over the memory; data.by, reason if it is not Triton",
        "pattern_unchecked": "a pass that proves nothing: it skipped words, or missed a wrong one",
        "pattern_result": "what all passes found; data.passes, bad_passes, most (wrong words of one), …",
    },
    quiet_events=("pattern_kernels", "pattern_result"),
)
