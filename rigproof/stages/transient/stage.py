"""The transient stage: its settings, when each GPU begins its bursts, and what each worker is told."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from rigproof.devices.specs import Spec
from rigproof.profiles.kinds.stages import Label
from rigproof.profiles.lint.stated import rig_problem
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.tables.base import Flag, Meaningful, Positive, Share
from rigproof.profiles.tables.levels import LevelName
from rigproof.profiles.tables.sku import PRECISIONS
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.records.grouping import grouped
from rigproof.records.identity import GpuIdentity
from rigproof.records.message_text import some
from rigproof.stages.kind import StageKind, StageWork

# Until the first wave: each GPU makes its operands and their references, and learns how long a product takes.
PREPARE_S, PREPARE_SHARE = 6.0, 0.15  # at most that share of the stage
REST_S = 0.3  # without load, before each frequency
HALF = 0.5  # of a period a wave is on
EDGE = 1e-6
# Of the shortest burst: with fewer products a burst could not be half a period long. Smaller matrices then.
LEAST_PRODUCTS = 4


@dataclass(frozen=True, slots=True)
class Arm:
    """Waves of one frequency over the host's first `gpus` GPUs. `from_s`: seconds into the stage."""

    gpus: int
    hz: int
    from_s: float
    waves: int

    def due_s(self, wave: int) -> float:
        """When a wave begins, seconds into the stage."""
        return self.from_s + wave / self.hz

    @property
    def to_s(self) -> float:
        """When the last wave is over, seconds into the stage."""
        return self.due_s(self.waves)


def arms_of(gpus: int, settings: "TransientSettings", length_s: float) -> tuple[Arm, ...]:
    """All arms of a host with so many GPUs: one GPU more at each step, each step with every frequency.

    Every frequency gets its fewest waves, and an equal part of the time that is left. If the time does not
    suffice, the fewest waves take longer than `length_s` (`least_length_s`).
    """
    steps, frequencies = steps_of(gpus, settings.most_steps), sorted(set(settings.frequencies_hz))
    if not steps or not frequencies:
        return ()
    prepare_s = min(PREPARE_S, PREPARE_SHARE * length_s)
    least_s = _least_step_s(settings, frequencies)
    spare_s = max(0.0, (length_s - prepare_s) / len(steps) - least_s) / len(frequencies)
    found = []
    from_s = prepare_s
    for step in steps:
        for hz in frequencies:
            waves = settings.least_waves + math.floor(spare_s * hz + EDGE)
            found.append(Arm(step, hz, from_s + REST_S, waves))
            from_s += REST_S + settings.least_waves / hz + spare_s
    return tuple(found)


def steps_of(gpus: int, most: int) -> tuple[int, ...]:
    """How many GPUs take part at each step: 1, 2, 3, …; fewer, even steps if there are more than `most`."""
    number = min(gpus, most)
    return tuple(math.ceil(gpus * (step + 1) / number) for step in range(number))


def least_length_s(gpus: int, settings: "TransientSettings") -> float:
    """The shortest stage, s, in which a host with so many GPUs makes the fewest waves of each frequency."""
    steps = len(steps_of(gpus, settings.most_steps))
    waves_s = steps * _least_step_s(settings, sorted(set(settings.frequencies_hz)))
    return waves_s + min(PREPARE_S, waves_s * PREPARE_SHARE / (1 - PREPARE_SHARE))


def _least_step_s(settings: "TransientSettings", frequencies: Sequence[int]) -> float:
    return sum(REST_S + settings.least_waves / hz for hz in frequencies)


STAGE = "transient"
Frequency = Annotated[int, Field(ge=1, le=20, strict=True)]  # Hz


class TransientSettings(OptionalSettings):
    """Whether a host stands the load of its GPUs switching on and off together: square waves, in phase."""

    of_rig: ClassVar[frozenset[str]] = frozenset(
        {
            "length_s",
            "frequencies_hz",
            "most_steps",
            "least_waves",
            "wave_share",
            "phase_ms",
            "phase_share",
            "duty_share",
            "others_share",
            "fall_share",
            "psu_share",
        }
    )

    frequencies_hz: tuple[Frequency, ...] = Field(
        description="Frequencies of the waves, in Hz; each wave is on for half of its period."
    )
    most_steps: Annotated[int, Field(ge=1, le=64, strict=True)] = Field(
        description="Largest number of steps in which the GPUs of a host join the waves: one GPU more at "
        "each step, or several on a host with more GPUs."
    )
    with_display: Flag = Field(
        description="true: a GPU takes part although a display is active on it, or NVML does not say whether "
        "one is. A desktop there stutters, and a reset ends it. false: it is left out."
    )
    # The first wave of a frequency warms up, and a third of the others is compared with another third.
    least_waves: Annotated[int, Field(ge=1, le=1000, strict=True)] = Field(
        description="Fewest waves of each frequency at each step.",
        json_schema_extra=Meaningful(
            lowest=4, below="leaves too few bursts to compare the first with the last"
        ),
    )
    wave_share: Share = Field(
        description="Smallest share of the waves of each frequency at each step that all their GPUs must "
        "have made: verified, square and in phase. With fewer, nothing was measured; but one may always be "
        "missing.",
        json_schema_extra=Meaningful(lowest=0.5, below="calls a host tested that made half of its waves"),
    )
    phase_ms: Positive = Field(
        description="The bursts of a wave are in phase if they begin within this time of each other, in ms.",
        json_schema_extra=Meaningful(highest=50, above="calls bursts in phase that overlap by half at 5 Hz"),
    )
    # A quarter of a period apart, one GPU's burst begins in the middle of another's.
    phase_share: Share = Field(
        description="The same, as a share of the period. Of both limits the smaller one holds.",
        json_schema_extra=Meaningful(highest=0.25, above="calls bursts in phase that overlap by half"),
    )
    duty_share: tuple[Share, Share] = Field(
        description="A wave is square if its bursts last at least and at most these shares of its period."
    )
    # A power brake halves the clock.
    others_share: Share = Field(
        description="Smallest rate of a GPU in its bursts, as a share of its rate before more GPUs took "
        "part, of that at a lower frequency, and of that in the sustained stage.",
        json_schema_extra=Meaningful(
            0.5, 0.99, "allows others to lose half of their rate", "fails sound hosts"
        ),
    )
    fall_share: Share = Field(
        description="Smallest rate of a GPU in the last third of its bursts of a frequency and step, as a "
        "share of that in the first third; and of all but the slowest fifth of "
        "them, as a share of their median.",
        json_schema_extra=Meaningful(
            0.5, 0.99, "allows a card to lose half of its rate", "fails sound hosts"
        ),
    )
    psu_share: Share = Field(
        description="Largest sum of what all cards of a node draw at a moment, as sampled, as a share of the "
        "node's psu_w. More warns.",
        json_schema_extra=Meaningful(lowest=0.3, below="warns of a supply that is hardly used"),
    )


INCLUDE = "`stages.transient.with_display = true` lets it take part"


@dataclass(frozen=True, slots=True)
class TransientSpec(Spec):
    """Make the bursts of those `arms` that the GPU of this `rank` (from 0) of its host takes part in.

    `size`: the largest matrices to multiply. `left_out`: why the GPU takes part in none; empty if it does.
    """

    size: int
    rank: int
    arms: tuple[Arm, ...]
    left_out: str = ""


def spec(work: StageWork, worker: WorkerPlan, _own: TransientSettings) -> Spec | None:
    """One worker of each GPU, in its turn among those of its host that take part."""
    if worker.device == "cpu":
        return None
    gpus = [one.subject for one in work.on_host[worker.node] if one.device == "cuda"]
    left_out = {one: why_left_out(work.devices[one], work.gpus.get(one)) for one in gpus}
    taking_part = [one for one in gpus if not left_out[one]]
    settings = work.loaded.settings(TransientSettings)
    why = left_out[worker.subject]
    arms = () if why else arms_of(len(taking_part), settings, work.stage.measure_s)
    rank = sum(not left_out[one] for one in gpus[: gpus.index(worker.subject)])
    return TransientSpec(work.stage.name, worker.gemm_size, rank, arms, left_out=why)


def why_left_out(device: PromisedDevice, found: GpuIdentity | None) -> str:
    """Why a card takes no part in the waves; empty if it does. `found`: the card, None if it is not known."""
    if found is None or found.display_active is False or device.settings(TransientSettings).with_display:
        return ""
    if found.display_active is None:
        return f"NVML does not say whether a display is active on it; {INCLUDE}"
    return f"a display is active on it, which would stutter, and which a reset would end; {INCLUDE}"


def remarks(loaded: LoadedRig, _level: LevelName, found: Mapping[str, GpuIdentity]) -> Iterator[str]:
    """The steps of each host, and the cards that are, or would be, left out."""
    settings = loaded.settings(TransientSettings)
    gpus = [device for device in loaded.devices() if device.gpu.device == "cuda"]
    left_out = {one.subject: why for one in gpus if (why := why_left_out(one, found.get(one.subject)))}
    frequencies = ", ".join(map(str, sorted(set(settings.frequencies_hz))))
    yield f"the load of all GPUs of a host is switched on and off at once, at {frequencies} Hz;"
    yield "a weak power supply may reset the host"
    hosts = Counter(device.node for device in gpus if device.subject not in left_out)
    for count, nodes in grouped(hosts, lambda node: hosts[node]).items():
        yield f"{some(nodes)}: {_steps(steps_of(count, settings.most_steps))}"
    for subject, why in left_out.items():
        yield f"{subject} is left out: {why}"
    unknown = [one for one in gpus if one.subject not in found]
    if any(not one.settings(TransientSettings).with_display for one in unknown):
        yield "a card with an active display will be left out (stages.transient.with_display)"


def _steps(steps: tuple[int, ...]) -> str:
    if len(steps) < 2:
        return "its GPU" if steps == (1,) else f"{steps[0]} GPUs"
    if steps == tuple(range(1, len(steps) + 1)):
        return f"1 to {steps[-1]} GPUs, one more at each step"
    return f"{', '.join(map(str, steps))} GPUs"


def problems(loaded: LoadedRig, level: LevelName) -> Iterator[str]:
    """Problems with the frequencies, the duty and the length of the stage."""
    settings = loaded.settings(TransientSettings)
    frequencies = settings.frequencies_hz
    key = "stages.transient.frequencies_hz"
    if not frequencies or len(set(frequencies)) < len(frequencies):
        wrong = "names a frequency twice" if frequencies else "names no frequency"
        yield rig_problem(loaded, key, list(frequencies), wrong, "write e.g. [1, 5, 20]")
        return
    shortest, longest = settings.duty_share
    if not shortest < 0.5 < longest <= 0.75:
        wrong = "waves that are on for half of their period are not within it, or are no longer waves"
        key = "stages.transient.duty_share"
        yield rig_problem(loaded, key, list(settings.duty_share), wrong, "write e.g. [0.3, 0.6]")
    length_s = settings.length_s.at(level)
    hosts = Counter(device.node for device in loaded.devices() if device.gpu.device == "cuda")
    if length_s and hosts:
        node, gpus = hosts.most_common(1)[0]
        least_s = least_length_s(gpus, settings)
        if length_s < least_s:
            wrong = f"too short for {settings.least_waves} waves of each frequency on {gpus} GPUs of {node}"
            way_out = f"write {least_s:.0f} or more, or fewer or higher frequencies"
            yield rig_problem(loaded, f"stages.transient.length_s.{level}", length_s, wrong, way_out)


KIND = StageKind(
    STAGE,
    "arms",
    TransientSettings,
    spec=spec,
    lint=problems,
    remarks=remarks,
    crew="hosts",
    labels=(
        Label("precision", str, PRECISIONS),
        Label("size", int, told=True, may_shrink=True),  # `Waves.require_size`
        Label("gpus", int, work=True),  # of the host that take part
        Label("hz", int, work=True),
    ),
    events={"waves_left_out": "a GPU takes no part in the waves of its host; the message says why"},
    quiet_events=("waves_left_out",),
)
