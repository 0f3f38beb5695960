"""Reads a rig's history: pytest-benchmark's files. A damaged or foreign one is left out and named."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, FailFast, Field, StringConstraints, ValidationError

from rigproof.history.champions import ChampionError, read_champions
from rigproof.history.names import SIMULATED
from rigproof.records.limits import HISTORY_BYTES_MAX, FileRefusedError, read_document, require_inside
from rigproof.records.message_text import first_problem

STYLES = {"bold": "1", "slower": "31", "faster": "32"}  # of a terminal: red and green
# It is printed to a terminal, which would execute control characters.
Text = Annotated[str, StringConstraints(max_length=1000, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
Known = Annotated[float, Field(ge=-1e15, le=1e15)] | None


class _Stored(BaseModel):
    """The part of pytest-benchmark's files that is shown. Strict: what was not measured is refused."""

    model_config = ConfigDict(strict=True)


class _Stats(_Stored):
    rounds: Annotated[int, Field(ge=0)]


class Kept(_Stored):
    """A figure of a card, as a run kept it: `rate` in `unit`, and what it was measured under."""

    run_id: Text | None = None
    title: Text
    figure: Text | None = None
    rate: Annotated[float, Field(ge=1e-9, le=1e15)]
    unit: Text
    subject: Text
    gpu_uuid: Text | None
    gpu_name: Text | None = None
    driver: Text | None = None
    torch: Text | None = None
    cuda: Text | None = None
    level: Text | None = None
    simulated: bool = False
    imported: bool = False
    accepted: bool = True  # its run, as far as is known
    tags: list[Text] = []
    shortened: Text = ""
    length_s: Known = None  # planned, of its stage
    workers: int | None = None
    power_limit_w: Known = None
    sm_clock_mean_mhz: Known = None
    core_temperature_mean_c: Known = None
    labels: dict[Text, list[Text | int]] = {}


class _Benchmark(_Stored):
    extra_info: Kept
    stats: _Stats


class StoredFile(_Stored):
    """A run, as the history keeps it."""

    datetime: Text
    benchmarks: Annotated[tuple[_Benchmark, ...], FailFast()]  # the first problem is reported


@dataclass(frozen=True, slots=True)
class StoredRate:
    """A stored measurement, `measured_at` (UTC, ISO 8601) by a run."""

    rig: str
    file: str  # its number, an underscore and the run's id
    measured_at: str
    kept: Kept

    @property
    def number(self) -> str:
        """The run's number in the rig's history: `0001`."""
        return self.file.partition("_")[0]

    @property
    def run(self) -> dict[str, str]:
        """Its run, for programs."""
        return {"number": self.number, "measured_at": self.measured_at}

    @property
    def mark(self) -> str:
        """What stands before its rig and card where they are shown, if it was simulated."""
        return "SIMULATED " if self.kept.simulated else ""

    @property
    def card(self) -> str:
        """The card by its slot, model and UUID."""
        return " ".join(filter(None, (self.kept.subject, self.kept.gpu_name, self.kept.gpu_uuid)))


def painter(color: bool) -> Callable[[str, str], str]:
    """A function that gives a text a style of STYLES; by any other name, or without `color`, none."""
    return lambda text, name: f"\x1b[{STYLES[name]}m{text}\x1b[0m" if color and name in STYLES else text


def heading(mark: str, card: str) -> str:
    """A card above its figures; behind the mark there is no room for its maker in 80 columns."""
    return mark + card.replace("NVIDIA ", "", 1) if mark else card


Key = tuple[str, str, str]  # title, unit, labels


def figure_key(one: StoredRate) -> Key:
    """What has to be alike in rates that are compared: the figure and its work."""
    labels = (f"{name} {'/'.join(map(str, values))}" for name, values in one.kept.labels.items())
    return one.kept.title, one.kept.unit, ", ".join(labels)


def once(rates: Iterable[StoredRate]) -> list[StoredRate]:
    """One rate of each run and figure: a copied folder, or a figure twice in a file, is no other run."""
    found: dict[tuple[str, str, str | None, Key], StoredRate] = {}
    for one in rates:
        found.setdefault((one.file, one.measured_at, one.kept.gpu_uuid, figure_key(one)), one)
    return list(found.values())


CONDITIONS: dict[str, Callable[[StoredRate], str | None]] = {
    "rig": lambda one: one.rig,
    "card": lambda one: one.kept.gpu_name,
    "driver": lambda one: one.kept.driver,
    "torch": lambda one: one.kept.torch,
    "CUDA": lambda one: one.kept.cuda,
    "power limit": lambda one: None if (limit := one.kept.power_limit_w) is None else f"{limit:.0f} W",
    "level": lambda one: one.kept.level,
    "shortened": lambda one: one.kept.shortened or None,
    "slot": lambda one: one.kept.subject,
    "imported": lambda one: "yes" if one.kept.imported else None,
    "tags": lambda one: ", ".join(sorted(one.kept.tags)) or None,
}


def in_words(name: str, value: str | None) -> str:
    """A condition's value, also where there is none."""
    return value or {"shortened": "no", "imported": "no", "tags": "none"}.get(name, "unknown")


@dataclass(frozen=True, slots=True)
class History:
    """A rig's measurements in the order of their files, and a line for each unreadable file (`problems`).

    `rates` are those of its own good runs, `imported` what was added from elsewhere, by which none is judged.
    """

    rig: str
    rates: tuple[StoredRate, ...]
    problems: tuple[str, ...]
    imported: tuple[StoredRate, ...] = ()

    @property
    def everything(self) -> tuple[StoredRate, ...]:
        """Both, the oldest first."""
        if not self.imported:
            return self.rates
        return tuple(sorted((*self.rates, *self.imported), key=lambda one: (one.measured_at, one.file)))


def read_history(folder: Path) -> History:
    """Everything in a rig's folder. A damaged or foreign file is left out and listed in `problems`."""
    rates: list[StoredRate] = []
    problems: list[str] = []
    simulated = folder.absolute().parent.name == SIMULATED
    for path in sorted(folder.glob("*.json")):
        try:
            require_inside(path, folder)
            content = StoredFile.model_validate_json(read_document(path, HISTORY_BYTES_MAX))
            kept = [one.extra_info for one in content.benchmarks]
            if any(one.simulated is not simulated for one in kept):
                raise FileRefusedError(path, "simulated and real rates are kept apart")
        except (FileRefusedError, ValidationError) as error:
            reason = error.reason if isinstance(error, FileRefusedError) else first_problem(error)
            problems.append(f"{path}: left out: {reason}; move it out of this folder")
        else:
            rates += [StoredRate(folder.name, path.name, content.datetime, one) for one in kept]
    own, imported = (tuple(one for one in rates if one.kept.imported is foreign) for foreign in (False, True))
    return History(folder.name, own, tuple(problems), imported)


def read_histories(folder: Path, rig: str | None = None) -> list[History]:
    """Those of all rigs, or of one, in the folder that holds one folder for each."""
    folders = (path for path in sorted(folder.glob("*")) if path.is_dir() and rig in (None, path.name))
    return [read_history(path) for path in folders]


def unreadable(histories: Iterable[History], champions: Path, rig: str | None = None) -> bool:
    """Whether a file of the histories, or of the champions of one rig or of all, cannot be read."""
    try:
        for path in champions.glob("*"):
            if path.is_dir() and rig in (None, path.name):
                read_champions(path)
    except ChampionError:
        return True
    return any(one.problems for one in histories)
