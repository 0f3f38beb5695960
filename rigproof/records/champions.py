"""The best rates that GPUs have kept, as criteria make floors of them and as a run records them."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from rigproof.records.measurements import Event

CHAMPIONS = "champions"  # the kind of the event that says which ones a run was judged by
SAME_POWER = 0.01  # enforced power limits that differ by less than this share are the same


@dataclass(frozen=True, slots=True)
class ChampionRate:
    """The best rate of one GPU in one criterion, at the same work under one enforced power limit."""

    tflops: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    power_limit_w: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None  # None: NVML did not tell it
    precision: str
    size: int  # M = N = K
    workers: int  # processes that did the work together
    run_id: str
    batch: int | None = None  # examples of a training step


Champions = Mapping[str, Mapping[str, tuple[ChampionRate, ...]]]  # GPU UUID -> criterion -> by power limit
_DATA = TypeAdapter(dict[str, dict[str, tuple[ChampionRate, ...]]])


def same_power(one_w: float | None, other_w: float | None) -> bool:
    """Whether two enforced power limits are the same; an unknown one is only like another unknown one."""
    if one_w is None or other_w is None:
        return one_w is other_w
    return abs(one_w - other_w) <= SAME_POWER * max(one_w, other_w)


def champions_event(champions: Champions, t_s: float) -> Event:
    """What a run records of the champions that it is judged by."""
    gpus = {
        uuid: {criterion: [asdict(rate) for rate in rates] for criterion, rates in criteria.items()}
        for uuid, criteria in champions.items()
    }
    runs = {rate.run_id for criteria in champions.values() for rates in criteria.values() for rate in rates}
    message = f"floors of {len(gpus)} GPUs come from champions of {', '.join(sorted(runs))}"
    return Event(t_s, CHAMPIONS, "rig", message, data={"gpus": gpus})


def recorded_champions(events: Iterable[Event]) -> Champions:
    """The champions that a run was judged by. ValueError (pydantic's is one) where its event is damaged."""
    found: dict[str, Any] = {}
    for event in events:
        if event.kind == CHAMPIONS:
            gpus = event.data.get("gpus")
            if not isinstance(gpus, dict):
                raise ValueError("gpus is no table")
            found |= gpus
    return _DATA.validate_python(found)
