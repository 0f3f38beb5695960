"""The best rates that GPUs, alone and in teams, have shown: floors come from them, and a run records them."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from rigproof.records.measurements import Event, Labels

CHAMPIONS = "champions"  # the kind of the event that says which ones a run was judged by
SAME_POWER = 0.01  # enforced power limits that differ by less than this share are the same


@dataclass(frozen=True, slots=True)
class ChampionRate:
    """The best rate of one GPU, or team, in one figure, of the same work under one enforced power limit.

    `labels` and `workers` identify the work, as in FigureRate. The power limit of a team is its lowest one.
    """

    value: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    unit: str
    power_limit_w: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None  # None: NVML reports none
    labels: Labels
    workers: int
    run_id: str


# GPU UUID -> FigureKind.name -> rates; of a team: `team_key` -> the criterion's name -> rates
Champions = Mapping[str, Mapping[str, tuple[ChampionRate, ...]]]
_DATA = TypeAdapter(dict[str, dict[str, tuple[ChampionRate, ...]]])


def same_power(one_w: float | None, other_w: float | None) -> bool:
    """Whether two enforced power limits are the same; an unknown one only equals another unknown one."""
    if one_w is None or other_w is None:
        return one_w is other_w
    return abs(one_w - other_w) <= SAME_POWER * max(one_w, other_w)


def team_key(uuids: Iterable[str]) -> str:
    """What the champions of these GPUs together are found by, whatever slots they are in."""
    return " ".join(sorted(uuids))


def lowest_power(limits_w: Iterable[float | None]) -> float | None:
    """The power limit that a team's rate is of: it is as fast as its slowest GPU. None if one is unknown."""
    known_w = [*limits_w]
    return None if None in known_w else min(filter(None, known_w), default=None)


def champions_event(champions: Champions, t_s: float) -> Event:
    """The event that records the champions by which a run is judged."""
    gpus = {
        key: {figure: [asdict(rate) for rate in rates] for figure, rates in figures.items()}
        for key, figures in champions.items()
    }
    runs = {rate.run_id for figures in champions.values() for rates in figures.values() for rate in rates}
    message = f"floors come from champions of {', '.join(sorted(runs))}"
    return Event(t_s, CHAMPIONS, "rig", message, data={"gpus": gpus})


def recorded_champions(events: Iterable[Event]) -> Champions:
    """The champions by which a run was judged. Raises ValueError (or pydantic's) if its event is damaged."""
    found: dict[str, Any] = {}
    for event in events:
        if event.kind == CHAMPIONS:
            gpus = event.data.get("gpus")
            if not isinstance(gpus, dict):
                raise ValueError("gpus is not a table")
            found |= gpus
    return _DATA.validate_python(found)
