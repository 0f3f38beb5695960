"""The disk stage: its settings, and what each worker is told."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from rigproof.devices.specs import Spec
from rigproof.profiles.kinds.stages import Label
from rigproof.profiles.lint.stated import rig_problem
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.planning.planning import MIB_PER_GIB
from rigproof.profiles.tables.base import Meaningful, Positive, Share, Table, optional
from rigproof.profiles.tables.levels import LevelName, SomeLevels
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.records.measurements import MB
from rigproof.stages.kind import StageKind, StageWork

STAGE = "disk"
WRITE, READ = "write", "read"  # operations


# Disks keep as much in caches of their own as they have DRAM: 0.06 to 0.5 GiB.
SIZES = Meaningful(0.25, 256, "measures the disk's own cache", "wears a disk out for no better measurement")


class LevelGib(Table):
    """GiB at each level."""

    quick: Positive = Field(default=1.0, description="GiB at the level quick.", json_schema_extra=SIZES)
    standard: Positive = Field(default=1.0, description="GiB at the level standard.", json_schema_extra=SIZES)
    extended: Positive = Field(default=1.0, description="GiB at the level extended.", json_schema_extra=SIZES)
    soak: Positive = Field(default=1.0, description="GiB at the level soak.", json_schema_extra=SIZES)

    def at(self, level: LevelName) -> float:
        """GiB at this level."""
        gib: float = getattr(self, level)
        return gib


class DiskSettings(OptionalSettings):
    """Each host writes a file where checkpoints are written, past the page cache, and reads it back."""

    length_s: SomeLevels = Field(
        description="Length of the stage, in s, by level. 0: the stage does not run at that level. What has "
        "not been written by half of it is not written."
    )
    path: str = Field(
        description="Folder in which checkpoints are written: an absolute path, or one that begins with ~, "
        "the home of the user who runs Ray on that host. The file has no name there, and is gone with the "
        "process that wrote it."
    )
    most_gib: LevelGib = Field(
        description="Size of the file at most, in GiB, by level: `{ standard = 1, extended = 8 }`. It never "
        "takes more than half of what is free beside reserve_gib."
    )
    reserve_gib: Positive = Field(
        description="Disk space that always remains free, in GiB.",
        json_schema_extra=Meaningful(lowest=0.25, below="may fill the disk that others write to meanwhile"),
    )
    free_warn_share: Share = Field(
        description="Less free space than this share of the disk warns.",
        json_schema_extra=Meaningful(highest=0.5, above="warns of a disk that is half empty"),
    )
    used_fail_share: Share = Field(
        description="A disk of which this share is in use, or more, is full: others have filled it, and the "
        "run ends INCOMPLETE.",
        json_schema_extra=Meaningful(lowest=0.5, below="takes a disk that is half empty for full"),
    )
    # Sound disks of a model differ by 15 % and more with their fill and age.
    peer_share: Share = Field(
        description="Smallest rate of writing and of reading, as a share of the median of the other hosts of "
        "this kind (CPU model, number of CPUs, RAM) with the same file system.",
        json_schema_extra=Meaningful(0.3, 0.95, "accepts a disk at a third of the rate", "fails sound disks"),
    )
    write_floor_mbps: Positive | None = optional(
        "Smallest rate of writing, in MB/s. It takes the place of peer_share. Left out: none.",
        Meaningful(lowest=10, below="is less than any disk writes"),
    )
    read_floor_mbps: Positive | None = optional(
        "Smallest rate of reading, in MB/s. It takes the place of peer_share. Left out: none.",
        Meaningful(lowest=10, below="is less than any disk reads"),
    )

    of_rig: ClassVar[frozenset[str]] = frozenset({"length_s", "most_gib"})


@dataclass(frozen=True, slots=True)
class DiskTest:
    """Where one host wrote its file, how, and how much of it was verified.

    `filesystem`: its type, such as "ext4"; `device`: what is mounted there, such as "/dev/nvme0n1p2".
    `free_gib`: what users may write of `total_gib`; `used_share`: as `df` shows it. `how`: "direct" past the
    page cache (O_DIRECT); "synced" through it, each chunk written to the disk (fdatasync) and dropped from
    the cache before it is read; "" if nothing was written. `wrong`: chunks that were not read as they were
    written. `trouble`: why it could not be measured, or not to its end, in words; empty if it was. `error`:
    the name of the system's error behind that, such as "ENOSPC"; empty if there is none.
    """

    t_s: float  # run time of its end
    stage: str
    worker: str
    subject: str
    path: str
    filesystem: str
    device: str
    how: Literal["direct", "synced", ""]
    total_gib: float
    free_gib: float
    used_share: float
    written_mib: float
    verified_mib: float
    wrong: int
    trouble: str
    error: str


@dataclass(frozen=True, slots=True)
class DiskSpec(Spec):
    """Write a file of at most `most_mib` in the folder `path`, and read it back."""

    path: str
    most_mib: float
    reserve_mib: float
    duration_s: float


def spec(work: StageWork, _worker: WorkerPlan, own: DiskSettings) -> Spec:
    """Any worker of a node can measure its disk."""
    return DiskSpec(
        stage=STAGE,
        path=own.path,
        most_mib=own.most_gib.at(work.plan.level) * MIB_PER_GIB,
        reserve_mib=own.reserve_gib * MIB_PER_GIB,
        duration_s=work.stage.measure_s,
    )


def problems(loaded: LoadedRig, _level: LevelName) -> Iterator[str]:
    """Folders that no absolute path names: the rig's, and those that a node states."""
    paths = {f"stages.{STAGE}.path": loaded.settings(DiskSettings).path}
    for node in loaded.rig.nodes:
        if getattr(node.stages, STAGE, None) is not None:
            own = loaded.settings_of(node.name, DiskSettings)
            paths[f"nodes.{node.name}.stages.{STAGE}.path"] = own.path
    for key, path in paths.items():
        if not path.startswith(("/", "~")):
            way_out = "write an absolute path such as /data/checkpoints, or one that begins with ~/"
            yield rig_problem(loaded, key, path, "not an absolute path", way_out)


KIND = StageKind(
    STAGE,
    "idle",
    DiskSettings,
    spec=spec,
    lint=problems,
    crew="nodes",
    unit=MB,
    labels=(Label("operation", str),),
    events={"disk_error": "a chunk was not read back as it was written; data.offset"},
)
