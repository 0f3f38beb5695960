"""The sensors that a fault can name with `field=`."""

from collections.abc import Mapping
from dataclasses import dataclass

from rigproof.profiles.kinds.stages import DUTIES, Duty


@dataclass(frozen=True, slots=True)
class Sensor:
    """One sensor of a card.

    `impossible`: a reading that it cannot have; None for a bit mask. `steady`: a healthy card's reading
    may stay the same for long. `duties`: of the stages in which it is judged.
    """

    impossible: float | None
    steady: bool = False
    duties: tuple[Duty, ...] = DUTIES


SENSORS: Mapping[str, Sensor] = {
    "core_temperature": Sensor(300.0),
    "memory_temperature": Sensor(300.0),
    "power": Sensor(9999.0),
    "sm_clock": Sensor(30000.0, steady=True),
    "utilization": Sensor(250.0, steady=True, duties=("fed",)),
    "clock_event_reasons": Sensor(None, steady=True),
}
