"""The champions of a rig, stored as files: the best accepted rates of each GPU, and of GPUs together.

    champions/<rig>/rig.json                 the best combined rates, and those of each team of GPUs
    champions/<rig>/gpus/<UUID>.json         one GPU's best rate in each figure
    champions/<rig>/profiles/<run>.toml      the resolved profile of each run named in these files

Rates under different power limits are kept side by side. A file that cannot be read is refused by name:
silently ignoring a champion would lower a floor.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar
from urllib.parse import quote

from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from rigproof.history.rounds import figure_title
from rigproof.judging.catalogue import CATALOGUE
from rigproof.profiles.planning.subjects import RIG
from rigproof.records.champions import ChampionRate, Champions, lowest_power, team_key
from rigproof.records.limits import CHAMPIONS_BYTES_MAX, FileRefusedError, read_document
from rigproof.records.measurements import Labels
from rigproof.records.message_text import first_problem, one_line
from rigproof.stages.registry import KINDS

SCHEMA_VERSION: Literal[1] = 1
RIG_FILE = "rig.json"

Rate = Annotated[float, Field(gt=0)]
_File = TypeVar("_File", "RigChampions", "GpuChampions")


class ChampionError(Exception):
    """A champion file that cannot be used. The message names the file, the problem and the way out."""


class _Stored(BaseModel):
    """Strict: a value that another program or an editor changed must not be taken for a measurement."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Software(_Stored):
    """Versions on one node; None if unknown."""

    driver: str | None
    torch: str | None
    cuda: str | None
    ray: str
    python: str


class ChampionRun(_Stored):
    """The run that a rate comes from, with everything needed to repeat it."""

    run_id: str
    started_at: str  # UTC, ISO 8601
    level: str
    folder: str  # of its files, relative to the folder of all reports
    command: str  # uses the file in `profiles`, the profile as it was resolved then
    rigproof_version: str
    software: dict[str, Software]  # by node
    profile: dict[str, Any]  # LoadedRig.dump()


class _Figure(_Stored):
    """A rate in the unit of its figure, or else of its criterion: in another one a floor would be, too."""

    @field_validator("unit", check_fields=False)
    @classmethod
    def _is_as_measured(cls, unit: str, known: ValidationInfo) -> str:
        figure, criterion = (known.data.get(name, "") for name in ("figure", "criterion"))
        measured = KINDS.figures.get(figure) or CATALOGUE.get(criterion)
        if measured is not None and unit != measured.unit:
            raise ValueError(f"its unit is {measured.unit}")
        return unit


class GpuFigure(_Figure):
    """A GPU's best rate in one figure, for the same work under one enforced power limit.

    `labels` and `workers` identify the work, as in FigureRate. Means are over the rounds of the rate.
    """

    criterion: str  # that accepted it
    figure: str  # FigureKind.name
    value: Rate
    unit: str
    power_limit_w: Rate | None
    subject: str  # where the GPU was then
    labels: dict[str, str | int]
    workers: Annotated[int, Field(gt=0)]
    sm_clock_mean_mhz: float | None
    memory_clock_mean_mhz: float | None
    core_temperature_mean_c: float | None
    power_mean_w: float | None
    run_id: str

    @property
    def title(self) -> str:
        """The criterion, and which of its figures this is if there are several."""
        return figure_title(self.criterion, KINDS.figures[self.figure])

    @field_validator("figure")
    @classmethod
    def _is_known(cls, figure: str) -> str:
        if figure not in KINDS.figures:
            raise ValueError("no stage measures such a figure")
        return figure

    def rate(self) -> ChampionRate:
        """The rate as criteria compare it."""
        return ChampionRate(**{one.name: getattr(self, one.name) for one in fields(ChampionRate)})


class Card(_Stored):
    """A GPU of the rig when the rig's rate was measured."""

    uuid: str
    name: str
    power_limit_w: Rate | None


class RigFigure(_Figure):
    """The best rate of several GPUs in a criterion, with these cards and power limits.

    The criterion sums those of all GPUs of the rig, or judges what a team of them does: the work is told by
    `labels` then.
    """

    criterion: str
    value: Rate
    unit: str
    subject: str = RIG
    labels: dict[str, str | int] = {}
    cards: dict[str, Card]  # by subject
    run_id: str

    @property
    def title(self) -> str:
        return f"{self.criterion} {label_words(self.labels)}".rstrip()

    @property
    def team(self) -> str:
        """Of which cards it is."""
        return team_key(one.uuid for one in self.cards.values())

    @field_validator("criterion")
    @classmethod
    def _is_of_several(cls, criterion: str) -> str:
        one = CATALOGUE.get(criterion)
        if one is None or not (one.sum_of or one.scope == "team"):
            raise ValueError("no criterion of this name judges what GPUs do together")
        return criterion

    def rate(self) -> ChampionRate:
        """The rate as criteria compare it."""
        power_w = lowest_power(one.power_limit_w for one in self.cards.values())
        return ChampionRate(self.value, self.unit, power_w, self.labels, len(self.cards), self.run_id)


def label_words(labels: Labels) -> str:
    """Such as `bf16, size 8192`."""
    return ", ".join(it if isinstance(it, str) else f"{name} {it}" for name, it in labels.items())


class _Champions(_Stored):
    """The content of a file: rates, and the runs that measured them."""

    schema_version: Literal[1]
    figures: tuple[Any, ...]
    runs: dict[str, ChampionRun]

    @model_validator(mode="after")
    def _every_run_is_there(self) -> Self:
        for figure in self.figures:
            if figure.run_id not in self.runs:
                raise ValueError(f"runs has no {figure.run_id}, which measured {figure.criterion}")
        return self


class GpuChampions(_Champions):
    """The content of a GPU's file."""

    gpu_uuid: str
    gpu_name: str
    sku: str | None
    figures: Annotated[tuple[GpuFigure, ...], FailFast()]


class RigChampions(_Champions):
    """The content of the rig's file."""

    figures: Annotated[tuple[RigFigure, ...], FailFast()]


@dataclass(frozen=True, slots=True)
class StoredChampions:
    """All champions of one rig."""

    rig: RigChampions | None = None
    gpus: Mapping[str, GpuChampions] = field(default_factory=dict)  # by UUID

    def rates(self) -> Champions:
        """The rates as criteria compare them."""
        every = [(uuid, one.figure, one.rate()) for uuid, gpu in self.gpus.items() for one in gpu.figures]
        together = () if self.rig is None else self.rig.figures
        every += [
            (one.team, one.criterion, one.rate()) for one in together if one.labels
        ]  # a sum is no floor
        found: dict[str, dict[str, tuple[ChampionRate, ...]]] = {}
        for key, figure, rate in every:
            own = found.setdefault(key, {})
            own[figure] = (*own.get(figure, ()), rate)
        return found


def champions_folder(report_dir: Path, rig_name: str) -> Path:
    """The folder of a rig's champions."""
    return Path(report_dir) / "champions" / rig_name


def gpu_file(folder: Path, uuid: str) -> Path:
    """The file of one GPU. NVML's UUIDs are letters, digits and dashes; anything else is escaped."""
    return folder / "gpus" / f"{quote(uuid, safe='')}.json"


def read_champions(folder: Path) -> StoredChampions:
    """All champions in a rig's folder; none if there is no such folder.

    Raises ChampionError for a file that is damaged, too large, of another GPU, or outside the folder.
    """
    try:
        if not folder.exists() and not folder.is_symlink():
            return StoredChampions()
        paths = sorted((folder / "gpus").glob("*.json"))
    except OSError as error:
        raise refusal(folder, error.strerror or str(error)) from None
    gpus = {}
    for path in paths:
        gpu = _read(folder, path, GpuChampions)
        if path != gpu_file(folder, gpu.gpu_uuid):
            uuid = one_line(gpu.gpu_uuid, 80)
            raise refusal(path, f"gpu_uuid = {uuid} is not the GPU that the file is named after")
        gpus[gpu.gpu_uuid] = gpu
    rig_path = folder / RIG_FILE
    rig = _read(folder, rig_path, RigChampions) if rig_path.exists() or rig_path.is_symlink() else None
    return StoredChampions(rig, gpus)


def require_inside(folder: Path, path: Path) -> None:
    """ChampionError if a symbolic link leads from the path out of the rig's folder, or out of `champions`."""
    try:
        inside = path.resolve().is_relative_to(folder.parent.resolve() / folder.name)
    except (OSError, RuntimeError) as error:
        raise refusal(path, str(error)) from None
    if not inside:
        raise refusal(path, f"a symbolic link leads out of {folder}")


def refusal(path: Path, wrong: str) -> ChampionError:
    """The sentence for a champion file that cannot be used: what is wrong, and what can be done."""
    way_out = "restore the file from a copy, or move it away"
    until_then = "without it floors come from the SKU files until an accepted run keeps its rates"
    return ChampionError(f"{path}: {wrong}; {way_out}: {until_then}")


def _read(folder: Path, path: Path, kind: type[_File]) -> _File:
    require_inside(folder, path)
    try:
        return kind.model_validate_json(read_document(path, CHAMPIONS_BYTES_MAX))
    except FileRefusedError as refused:
        raise refusal(path, refused.reason) from None
    except ValidationError as error:
        raise refusal(path, first_problem(error)) from None
