"""By how much a card's error counters grew during the run."""

from rigproof.criteria.criterion import NotRead
from rigproof.records.measurements import GpuCounters


def growth(before: GpuCounters | None, after: GpuCounters | None, field: str, what: str) -> int:
    """By how much a counter grew during the run. NotRead if either reading is missing or it went down."""
    values = []
    for moment, one in (("before", before), ("after", after)):
        value = None if one is None else getattr(one, field)
        if value is None:
            raise NotRead(f"{what} were not counted {moment} the load")
        values.append(int(value))
    if values[1] < values[0]:
        raise NotRead(
            f"the counter of {what} went back from {values[0]} to {values[1]}: it was reset during the run"
        )
    return values[1] - values[0]
