"""The shape of a merged rig; a file may leave out what the files that it extends state.

Units are in the names: `_gib` (2^30 bytes), `_mib`, `_gbps` (10^9 bytes/s), `_tflops` (10^12 FLOP/s,
dense), `_c`, `_w`, `_s`, `_percent` (0 to 100), `_share` (0 to 1). Every value's source is in a
comment beside it in the TOML file.
"""

from typing import Annotated, cast

from pydantic import Field

from rigproof.profiles.tables.base import Meaningful, Name, Portion, Positive, Table, Wait, optional
from rigproof.profiles.tables.gpu import GpuDefaults, MemoryPolicy
from rigproof.profiles.tables.levels import Levels
from rigproof.profiles.tables.limits import Limits
from rigproof.profiles.tables.node import CpuLoad, Node, Responsiveness
from rigproof.profiles.tables.sku import Architecture
from rigproof.profiles.tables.stages import StageTables


class Sampling(Table):
    """How often the node agents read the sensors of hosts and GPUs."""

    # 1 Hz at least, because criteria judge windows of 1 s.
    rate_hz: Annotated[float, Field(ge=1, le=100, strict=True)] = Field(
        description="Readings per second of each sensor, except PCIe link and CPU temperature, which are "
        "read once a second."
    )


class Timeouts(Table):
    """Time limits. What takes longer is recorded, then ended or given up."""

    task_s: Wait = Field(
        description="Time, in s, by which a stage may exceed its planned length. Workers that still work "
        "are then killed."
    )
    stall_s: Wait = Field(
        description="Longest time, in s, for which a worker may finish no round (the first round: start_s, "
        "if that is longer), or an agent or worker may not answer."
    )
    start_s: Wait = Field(description="Longest time, in s, for nodes, agents and workers to start.")
    stop_s: Wait = Field(description="Longest time, in s, for workers, agents and rigproof's own Ray to end.")


Repeats = Annotated[int, Field(ge=3, le=100, strict=True)]  # two have no spread to speak of


class Calibration(Table):
    """How `rigproof calibrate` measures, and how far below the rates its floors are."""

    half_width_share: Portion = Field(
        description="Widest half of the confidence interval of a rate's mean, as a share of the mean.",
        json_schema_extra=Meaningful(highest=0.25, above="takes a rate for known that is not"),
    )
    false_alarm_share: Portion = Field(
        description="Share of an unchanged rig's runs that may fall below a floor, all floors together.",
        json_schema_extra=Meaningful(highest=0.1, above="rejects sound rigs"),
    )
    closest_share: Portion = Field(
        description="Highest floor, as a share of the mean: rates also differ from day to day.",
        json_schema_extra=Meaningful(0.5, 0.99, "lets a card lose half of its rate", "fails sound cards"),
    )
    fewest_runs: Repeats = Field(description="Smallest number of runs.")
    most_runs: Repeats = Field(description="Largest number of runs.")
    most_min: Positive = Field(description="No run begins that would end later than this, in min.")


class Rig(Table):
    """A whole rig, `hwprofiles/rigs/<name>.toml`, with the values of the rig it extends and the defaults."""

    name: Name = Field(
        description="Name of the rig, under which its history is kept: letters, digits, dots, dashes, "
        "underscores."
    )
    description: str = Field(default="", description="Text for the header of a run.")
    extends: str | None = optional(
        "Another rig whose values hold where this file states none: its name, or a path "
        "relative to this file."
    )
    nodes: tuple[Node, ...] = Field(
        default=(),
        description="The hosts that the rig promises. Those of the extended rig are merged by name.",
    )
    limits: Limits = Field(default=Limits(), description="Limits for all GPUs of the rig.")
    architectures: tuple[Architecture, ...] = Field(
        default=(), description="What the GPU architectures can do, by compute capability."
    )
    gpu_defaults: GpuDefaults = Field(description="Work of the GPUs that do not state their own.")
    memory: MemoryPolicy = Field(description="How workers take VRAM.")
    stages: StageTables = Field(description="Work, lengths and limits of each stage.")
    cpu: CpuLoad = Field(description="CPU load of every node beside the work of its GPUs.")
    responsiveness: Responsiveness = Field(description="How late the hosts may wake up under load.")
    sampling: Sampling = Field(description="How often sensors are read.")
    timeouts: Timeouts = Field(description="Time limits of starting, working and ending.")
    levels: Levels = Field(description="Settings of the levels that belong to no single stage.")
    calibration: Calibration = Field(
        default=cast(Calibration, None),  # of recordings from before there was this table
        description="How floors are measured.",
    )
