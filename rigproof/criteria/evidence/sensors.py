"""Whether a GPU's readings can be trusted. Readings that contradict the rest are not measured.

The rules, all of them about validity and none a limit of a rig:

1. A reading is possible: no core at 0 °C or less, no clock above what overclocking reaches, no power limit
   under a tenth of the card's default, or of three times its own.
2. Power does not stay constant under load. NVML counts milliwatts, and an H200 at its cap never gave the same
   value for more than 0.4 s. Ten seconds of one value mean a frozen sensor; so do three if the energy counter
   shows that the card drew a different power in that time.
3. Over ten seconds of measured work energy and power agree within 10 %, and three standard errors of the mean
   of the readings more where the load is not continuous. On H100 and H200, read ten times a second: within
   6.3 %; once a second within 19 % while the card waited for its data now and then, under a continuous load
   within 10 %. An energy counter that has ever counted also counts under load.
4. A temperature follows the power. A frozen sensor is: 20 s of one value after a lasting power step of 30 %;
   15 s of one value after the 5 s mean has changed by half of the highest, however briefly; one value in a
   whole run whose power more than doubled. On H100 and H200 the memory temperature stayed constant for 10 s
   around such a change, the core temperature not at all. Under constant load a healthy one stayed constant
   for 102 of 110 s, so that alone says nothing; nor does a constant clock, since a card that reaches its
   highest clock stays there.
5. The load shows when it happens: power rises with the first round and does not fall before the last one.
   Other rises and falls say nothing: a window that opens, a stage that needs little, a card that slows down
   but stops with the last round.
6. Temperature, power and clock do not all stay constant together.
7. Two cards of a node do not draw the same power at every moment, to the last digit, nor for 50 readings.
"""

import math
from operator import attrgetter

import numpy as np

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.loads import Load, PieceReadings
from rigproof.criteria.evidence.sensor_rules import (
    EARLY_S,
    ENERGY_SHARE,
    SHIFT_S,
    SHORTEST_STILL_S,
    STEP_STILL_S,
    Drawn,
    against_energy,
    mean_by_energy,
    out_of_time,
    still_since,
)
from rigproof.criteria.evidence.series import FEWEST, Floats, Readings, require_finite
from rigproof.criteria.evidence.silicon import OVERCLOCK_RATIO
from rigproof.criteria.evidence.windows import LONGEST_S, Window
from rigproof.profiles.kinds.stages import DUTIES

POWER = ("power_w", "power_average_w")
CORE = ("core_temperature_c", "power_w", "sm_clock_mhz")
STILL_S, STILL_AGAINST_ENERGY_S = 10.0, 3.0
HIGHEST_C = 150.0  # silicon does not survive this
PEAK_RATIO = 3.0  # power against the enforced limit; an H200's instant power reached 1.37
LOWEST = {"core_temperature_c": 1.0, "power_limit_w": 1.0}  # all other readings may be 0
LEAST_LIMIT_SHARE = 0.1  # of the card's default power limit; drivers allow a quarter to a third of it
# Of power: so many values that follow each other are no chance. NVML counts milliwatts, some cards watts.
FEWEST_CHANGES, MOST_COMPARED, COMPARED = 20, 1000, 50
UNITS = {
    "core_temperature_c": "°C",
    "memory_temperature_c": "°C",
    "power_w": "W",
    "power_average_w": "W",
    "power_limit_w": "W",
    "sm_clock_mhz": "MHz",
    "utilization_percent": "%",
}


def moving_readings(device: DeviceEvidence, window: Window, field: str, what: str) -> Readings:
    """Enough readings inside the window of a sensor that is not frozen, else NotMeasured."""
    require_moving(device, window, field, what)
    return device.readings(field, window)


def require_moving(device: DeviceEvidence, window: Window, field: str, what: str) -> None:
    """NotMeasured if there are not enough such readings."""
    device.require_readings(window, field, what)
    if _all_still(device, window):
        raise NotMeasured(
            "temperature, power and clock did not change at all under load: the sensors are frozen"
        )
    reason = device.cached(("doubt", field), lambda: _doubt(device, field, what))
    if reason:
        raise NotMeasured(reason)


def readings_by_piece(
    device: DeviceEvidence, load: Load, field: str, what: str, shortest_s: float = 0.0
) -> PieceReadings:
    """The readings of each of the load's pieces of at least that length, none of them empty.

    NotMeasured if a piece has none, or the sensor cannot be trusted.
    """
    require_moving(device, load.window, field, what)
    found = piece_readings(device, load, field, shortest_s)
    if not found.counts.min():
        span = found.pieces[int(np.argmin(found.counts))].span
        raise NotMeasured(f"no {what} was read from t={span.from_s:.0f} to {span.to_s:.0f} s")
    return found


def piece_readings(device: DeviceEvidence, load: Load, field: str, shortest_s: float = 0.0) -> PieceReadings:
    """The readings of each piece, whether the sensor can be trusted or not; a piece may have none.

    NotMeasured if a reading is infinite.
    """
    found = PieceReadings(load.pieces_of(shortest_s), device.samples, field)
    require_finite(field, np.concatenate(found.parts))
    return found


def require_possible(device: DeviceEvidence, field: str, what: str) -> None:
    """NotMeasured if any reading of the run is impossible: such a reading does not prove a fault either."""
    limit_w, lowest_w = device.identity.power_limit_w, _range(device, "power_limit_w")[0]
    if field == "power_limit_w" and limit_w is not None and limit_w < lowest_w:
        raise NotMeasured(f"the {what} at the start is {limit_w:g} W, which is not possible")
    reason = _impossible(device, device.readings(field), field, what)
    if reason:
        raise NotMeasured(reason)


def power_field(device: DeviceEvidence) -> str:
    """Instant power if the driver reports it, else the average over a second."""
    return device.cached("power field", lambda: POWER[0] if device.readings(POWER[0]) else POWER[1])


def _all_still(device: DeviceEvidence, window: Window) -> bool:
    """Whether power, core temperature and clock were all frozen (rule 6)."""

    def constant() -> bool:
        return all(_is_constant(device.readings(name, window)) for name in CORE)

    return device.cached(("frozen", window), constant)


def _is_constant(pairs: Readings) -> bool:
    """Whether all readings have the same value, over at least STILL_S."""
    return (
        len(pairs) >= FEWEST
        and pairs.values[0] == pairs.values[-1]
        and pairs.times_s[-1] - pairs.times_s[0] >= STILL_S
        and bool((pairs.values == pairs.values[0]).all())
    )


def _doubt(device: DeviceEvidence, field: str, what: str) -> str:
    """Why this sensor's readings cannot be trusted; empty if they can."""
    pairs = device.readings(field)
    if len(pairs) < FEWEST:
        return ""  # too few to be a measurement anyway
    doubt = _impossible(device, pairs, field, what)
    if not doubt and field in POWER:
        doubt = _still_power(device, pairs, field) or _against_energy(device, field)
    if not doubt and field.endswith("_temperature_c"):
        doubt = _still_temperature(device, pairs, what)
    return doubt or _out_of_time(device) or _same_as_another(device)


def _at(device: DeviceEvidence, t_s: float) -> str:
    """The latest stage begun by then, as the beginning of a reason; empty before the first one."""
    begun = [stage for stage in device.evidence.recording.stages.values() if stage.start_s <= t_s]
    return f"{max(begun, key=attrgetter('start_s')).name}: " if begun else ""


def _range(device: DeviceEvidence, field: str) -> tuple[float, float]:
    """The lowest and the highest possible reading; the latter is infinite if it is not known."""
    limit_w, clock_mhz = device.identity.power_limit_w, device.identity.sm_clock_max_mhz
    default_w = device.identity.power_limit_default_w
    limits_w = [one for one in (limit_w, default_w) if one is not None]
    highest = {
        "core_temperature_c": HIGHEST_C,
        "memory_temperature_c": HIGHEST_C,
        "power_w": None if limit_w is None else PEAK_RATIO * limit_w,
        "power_average_w": None if limit_w is None else PEAK_RATIO * limit_w,
        "power_limit_w": PEAK_RATIO * max(limits_w) if limits_w else None,
        "sm_clock_mhz": None if clock_mhz is None else OVERCLOCK_RATIO * clock_mhz,
        "utilization_percent": 100.0,
    }.get(field)
    lowest = LOWEST.get(field, 0.0)
    if field == "power_limit_w" and default_w is not None:
        lowest = max(lowest, LEAST_LIMIT_SHARE * default_w)
    return lowest, highest if highest is not None and highest > 0 else math.inf


def _impossible(device: DeviceEvidence, pairs: Readings, field: str, what: str) -> str:
    """Why a reading cannot be: outside its sensor's range (rule 1). Empty if all are possible."""
    least, most = _range(device, field)
    if not pairs or least <= pairs.lowest <= pairs.highest <= most:
        return ""
    t_s, value = next(pair for pair in pairs if not least <= pair[1] <= most)
    unit = UNITS.get(field, "")
    bound = f" (at most {most:g} {unit})" if value > most else ""
    return (
        f"{_at(device, t_s)}the {what} reads {value:g} {unit} at t={t_s:.0f} s, which is not possible{bound}"
    )


# Power


def _still_power(device: DeviceEvidence, pairs: Readings, field: str) -> str:
    """Why the power is frozen: it did not change inside a stage's window (rule 2). Empty if it did."""
    what = "power" if field == POWER[0] else "power (1 s average)"
    times_s, values = pairs.times_s, pairs.values
    for first, last in pairs.repeated(STILL_AGAINST_ENERGY_S):
        for window in _windows(device):
            from_s, to_s = max(times_s[first], window.from_s), min(times_s[last], window.to_s)
            held_s = to_s - from_s
            against = held_s >= STILL_AGAINST_ENERGY_S and _energy_differs(
                device, from_s, to_s, float(values[first])
            )
            if held_s >= STILL_S or against:
                proof = ", though its energy counter says otherwise" if against else ""
                return (
                    f"{_at(device, from_s)}the {what} reads {values[first]:g} W for {held_s:.0f} s under "
                    f"load{proof}: the sensor is frozen"
                )
    return ""


def _energy_differs(device: DeviceEvidence, from_s: float, to_s: float, power_w: float) -> bool:
    drawn_w = mean_by_energy(device, from_s, to_s)
    return drawn_w > 0 and abs(drawn_w - power_w) > ENERGY_SHARE / 2 * power_w


def _against_energy(device: DeviceEvidence, field: str) -> str:
    """Why the power cannot be right: the energy counter says otherwise (rule 3). Empty if it agrees."""
    apart = against_energy(device, field)
    if apart is None:
        return ""
    begun_s, read_w, by_energy_w = apart
    return (
        f"{_at(device, begun_s)}from t={begun_s:.0f} s the power reads {read_w:.0f} W, "
        f"and by the energy counter it was {by_energy_w:.0f} W"
    )


# Temperature


def _still_temperature(device: DeviceEvidence, pairs: Readings, what: str) -> str:
    """Why the temperature is frozen: it did not follow the power (rule 4). Empty if it did."""
    power = device.readings(power_field(device))
    from_s, to_s = float(pairs.times_s[0]), float(pairs.times_s[-1])
    if len(power) < FEWEST or not STEP_STILL_S <= to_s - from_s <= LONGEST_S:
        return ""
    drawn = device.cached(("drawn", from_s, to_s), lambda: Drawn(power, from_s, to_s))
    still = still_since(pairs, pairs.repeated(SHORTEST_STILL_S), drawn)
    return "" if still is None else f"{_at(device, still[0])}the {what} {still[1]}: the sensor is frozen"


# Time


def require_in_time(device: DeviceEvidence) -> None:
    """NotMeasured if a card's readings are a little early: then they do not show that it was idle."""
    reason = _out_of_time(device, EARLY_S)
    if reason:
        raise NotMeasured(reason)


def _out_of_time(device: DeviceEvidence, early_s: float = SHIFT_S) -> str:
    """Why the samples are dated wrongly (rule 5), all sensors of the card alike. Empty if they are not."""

    def found() -> str:
        own = device.all_rounds.only(device.own)
        return out_of_time(own, device.readings(power_field(device)), early_s)

    return device.cached(("time", early_s), found)


# Another card


def _same_as_another(device: DeviceEvidence) -> str:
    """Why the readings are those of another card of the host (rule 7). Empty if they are its own."""

    def found() -> str:
        own = device.readings(power_field(device)).values
        if len(np.unique(own[:MOST_COMPARED])) < FEWEST_CHANGES:
            return ""
        for other in device.neighbours:
            theirs = other.recorded(power_field(device)).values
            if np.array_equal(own, theirs):
                return (
                    f"every reading of its power is also that of {other.subject}: one was read as the other"
                )
            if len(own) == len(theirs) and (place := _equal_for_long(own, theirs)) is not None:
                from_s = device.readings(power_field(device)).times_s[place]
                return (
                    f"{_at(device, from_s)}from t={from_s:.0f} s its power is that of {other.subject} in "
                    "every digit: one was read as the other"
                )
        return ""

    return device.cached("same as another", found)


def _equal_for_long(own: Floats, theirs: Floats) -> int | None:
    """The place from which COMPARED readings of both are equal and not constant; None if there is none."""
    number = len(own) // COMPARED
    equal = (own == theirs)[: number * COMPARED].reshape(number, COMPARED).all(axis=1)
    starts = (COMPARED * equal.nonzero()[0]).tolist()
    moving = (one for one in starts if len(np.unique(own[one : one + COMPARED])) >= FEWEST_CHANGES)
    return next(moving, None)


# Where to look


def _windows(device: DeviceEvidence) -> list[Window]:
    found = []
    for stage in device.evidence.stages_with(*DUTIES):
        try:
            found.append(device.evidence.loaded_window(stage))
        except NotMeasured:  # a criterion that needs this stage reports it
            continue
    return found
