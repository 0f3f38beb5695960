"""The champions of a rig: the best accepted rates of each of its GPUs and of all together, in files.

    champions/<rig>/rig.json                 the rig's best combined sustained rate
    champions/<rig>/gpus/<UUID>.json         each GPU's best rate in each criterion
    champions/<rig>/profiles/<run>.toml      the resolved profile of each run that is named there

Figures under different power limits stand beside each other. A file that cannot be read is refused by name: a
champion that is lost in silence would lower a floor.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError, model_validator

from rigproof.records.champions import ChampionRate, Champions
from rigproof.records.limits import CHAMPIONS_BYTES_MAX, FileRefusedError, read_document
from rigproof.records.telling import first_problem, shortened

SCHEMA_VERSION: Literal[1] = 1
RIG_FILE = "rig.json"
COMBINED: Literal["throughput.combined"] = "throughput.combined"

Rate = Annotated[float, Field(gt=0)]
_File = TypeVar("_File", "RigChampions", "GpuChampions")


class ChampionError(Exception):
    """A champion's file that cannot be used; the message names it, what is wrong, and the way out."""


class _Stored(BaseModel):
    """Strict: what another program or an editor changed must not be taken for a measurement."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Software(_Stored):
    """Versions on one node; None where nothing told them."""

    driver: str | None
    torch: str | None
    cuda: str | None
    ray: str
    python: str


class ChampionRun(_Stored):
    """The run that a figure comes from, with what it takes to do it again."""

    run_id: str
    started_at: str  # UTC, ISO 8601
    level: str
    folder: str  # of its files, from the folder of all reports
    command: str  # with the profile as it was resolved then, by the file in `profiles`
    rigproof_version: str
    software: dict[str, Software]  # by node
    profile: dict[str, Any]  # LoadedRig.dump()


class GpuFigure(_Stored):
    """A GPU's best rate at one work under one enforced power limit. Means are of its rounds."""

    criterion: str
    value: Rate
    unit: Literal["TFLOP/s"]
    power_limit_w: Rate | None
    subject: str  # where the GPU was then
    precision: str
    size: Annotated[int, Field(gt=0)]  # M = N = K, or the trained model's width
    workers: Annotated[int, Field(gt=0)]  # processes that did it together
    batch: Annotated[int, Field(gt=0)] | None = None  # examples of a training step
    sm_clock_mean_mhz: float | None
    memory_clock_mean_mhz: float | None
    core_temperature_mean_c: float | None
    power_mean_w: float | None
    run_id: str

    def rate(self) -> ChampionRate:
        """As criteria use it."""
        return ChampionRate(
            tflops=self.value,
            power_limit_w=self.power_limit_w,
            precision=self.precision,
            size=self.size,
            workers=self.workers,
            run_id=self.run_id,
            batch=self.batch,
        )


class Card(_Stored):
    """A GPU of the rig while its figure was measured."""

    uuid: str
    name: str
    power_limit_w: Rate | None


class RigFigure(_Stored):
    """The rig's best combined sustained rate with these cards, under these power limits."""

    criterion: Literal["throughput.combined"]
    value: Rate
    unit: Literal["TFLOP/s"]
    cards: dict[str, Card]  # by subject
    run_id: str


class GpuChampions(_Stored):
    """One GPU's file."""

    schema_version: Literal[1]
    gpu_uuid: str
    gpu_name: str
    sku: str | None
    figures: Annotated[tuple[GpuFigure, ...], FailFast()]
    runs: dict[str, ChampionRun]

    @model_validator(mode="after")
    def _every_run_is_there(self) -> "GpuChampions":
        return _with_runs(self)


class RigChampions(_Stored):
    """The rig's file."""

    schema_version: Literal[1]
    figures: Annotated[tuple[RigFigure, ...], FailFast()]
    runs: dict[str, ChampionRun]

    @model_validator(mode="after")
    def _every_run_is_there(self) -> "RigChampions":
        return _with_runs(self)


def _with_runs(file: _File) -> _File:
    for figure in file.figures:
        if figure.run_id not in file.runs:
            raise ValueError(f"runs has no {figure.run_id}, which {figure.criterion} comes from")
    return file


@dataclass(frozen=True, slots=True)
class KeptChampions:
    """All champions of one rig."""

    rig: RigChampions | None = None
    gpus: Mapping[str, GpuChampions] = field(default_factory=dict)  # by UUID

    def rates(self) -> Champions:
        """As criteria use them."""
        found: dict[str, dict[str, tuple[ChampionRate, ...]]] = {}
        for uuid, gpu in self.gpus.items():
            criteria = found.setdefault(uuid, {})
            for figure in gpu.figures:
                criteria[figure.criterion] = (*criteria.get(figure.criterion, ()), figure.rate())
        return found


def champions_folder(report_dir: Path, rig_name: str) -> Path:
    """Where the champions of a rig are."""
    return Path(report_dir) / "champions" / rig_name


def gpu_file(folder: Path, uuid: str) -> Path:
    """The file of one GPU. NVML's UUIDs are letters, digits and dashes; anything else is escaped."""
    return folder / "gpus" / f"{quote(uuid, safe='')}.json"


def read_champions(folder: Path) -> KeptChampions:
    """All champions in a rig's folder; none where there is no such folder.

    Raises ChampionError for a file that is damaged, too large, another GPU's, or outside of the folder.
    """
    try:
        if not folder.exists() and not folder.is_symlink():
            return KeptChampions()
        paths = sorted((folder / "gpus").glob("*.json"))
    except OSError as error:
        raise refusal(folder, error.strerror or str(error)) from None
    gpus = {}
    for path in paths:
        gpu = _read(folder, path, GpuChampions)
        if path != gpu_file(folder, gpu.gpu_uuid):
            raise refusal(
                path, f"gpu_uuid = {shortened(gpu.gpu_uuid, 80)} is not the GPU that the file is named after"
            )
        gpus[gpu.gpu_uuid] = gpu
    rig_path = folder / RIG_FILE
    rig = _read(folder, rig_path, RigChampions) if rig_path.exists() or rig_path.is_symlink() else None
    return KeptChampions(rig, gpus)


def require_inside(folder: Path, path: Path) -> None:
    """Refuse a path that a symbolic link leads out of the rig's folder, or that folder out of `champions`."""
    try:
        inside = path.resolve().is_relative_to(folder.parent.resolve() / folder.name)
    except (OSError, RuntimeError) as error:
        raise refusal(path, str(error)) from None
    if not inside:
        raise refusal(path, f"a symbolic link leads out of {folder}")


def refusal(path: Path, wrong: str) -> ChampionError:
    """What is wrong with a champion's file, and what can be done."""
    return ChampionError(
        f"{path}: {wrong}; restore the file from a copy, or move it away: without it floors come from the "
        "SKU files until an accepted run keeps its rates"
    )


def _read(folder: Path, path: Path, kind: type[_File]) -> _File:
    require_inside(folder, path)
    try:
        return kind.model_validate_json(read_document(path, CHAMPIONS_BYTES_MAX))
    except FileRefusedError as refused:
        raise refusal(path, refused.reason) from None
    except ValidationError as error:
        raise refusal(path, first_problem(error)) from None
