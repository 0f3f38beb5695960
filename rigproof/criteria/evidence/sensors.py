"""Whether a GPU's readings can be trusted. Readings that contradict the rest are not measured.

The rules, all of them about validity and none a limit of a rig:

1. A reading is possible: no negative temperature under load, no clock above what overclocking reaches.
2. Power does not stay constant under load. NVML counts milliwatts, and an H200 at its cap never gave the same
   value for more than 0.4 s. Ten seconds of one value mean a frozen sensor; so do three if the energy counter
   shows that the card drew a different power in that time.
3. Over ten seconds of measured work energy and power agree within 10 %. On H100 and H200: within 6.3 %. An
   energy counter that has ever counted also counts under load.
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
"""

import math
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.loads import Load, loads_of, piece_table
from rigproof.criteria.evidence.pieces import PieceReadings
from rigproof.criteria.evidence.readings import Floats, Readings
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.silicon import OVERCLOCK_RATIO
from rigproof.criteria.evidence.subjects import DeviceEvidence
from rigproof.criteria.evidence.windows import LONGEST_S, Window
from rigproof.profiles.kinds.stages import DUTIES

POWER = ("power_w", "power_average_w")
CORE = ("core_temperature_c", "power_w", "sm_clock_mhz")
FEWEST = 10  # readings that a rule needs; few enough for a rig that is sampled once a second
STILL_S, STILL_AGAINST_ENERGY_S = 10.0, 3.0
ENERGY_SHARE, ENERGY_BLOCK_S = 0.10, 10.0
STEP_SHARE, STEP_STILL_S = 0.30, 20.0  # of the highest power of the run; how long a temperature may ignore it
CHANGE_SHARE, CHANGE_MEAN_S = 0.50, 5  # of the highest mean over so long: pauses between stages are as short
CHANGE_STILL_S = 15.0
NEVER_MOVED_S = 30.0
BEFORE_STEP_S = 5  # a shorter pause does not change a warm card's temperature by a whole degree
RISE_S = 2  # of a step, from one level to the other
SHIFT_S = 2.0  # NVML's average lags by about one second
LONGEST_SHIFT_S = 10.0  # a card that draws nothing for longer is idle, which activity.gpu_active reports
LOAD_RATIO = 2.0  # power under load against before: with less, the step cannot be located
HIGHEST_C = 150.0  # silicon does not survive this
PEAK_RATIO = 3.0  # power against the enforced limit; an H200's instant power reached 1.37
SETTLING_S = 3.0
STOP_RATIO = 1.25  # power before the last round's end against the lowest after: with less, no stop is visible
UNITS = {
    "core_temperature_c": "°C",
    "memory_temperature_c": "°C",
    "power_w": "W",
    "power_average_w": "W",
    "sm_clock_mhz": "MHz",
    "utilization_percent": "%",
}


def moving_readings(device: DeviceEvidence, window: Window, field: str, what: str) -> Readings:
    """Enough readings inside the window of a sensor that is not frozen, else NotMeasured."""
    pairs = device.loaded_readings(window, field, what)
    _require_moving(device, window)
    reason = device.kept(("doubt", field), lambda: _doubt(device, field, what))
    if reason:
        raise NotMeasured(reason)
    return pairs


def readings_by_piece(
    device: DeviceEvidence, load: Load, field: str, what: str, shortest_s: float = 0.0
) -> PieceReadings:
    """The readings of each of the load's pieces of at least that length, none of them empty.

    NotMeasured if a piece has none, or the sensor cannot be trusted.
    """
    moving_readings(device, load.window, field, what)
    found = piece_readings(device, load, field, shortest_s)
    if not found.counts.all():
        span = found.pieces[int(np.argmin(found.counts))].span
        raise NotMeasured(f"no {what} was read from t={span.from_s:.0f} to {span.to_s:.0f} s")
    return found


def piece_readings(device: DeviceEvidence, load: Load, field: str, shortest_s: float = 0.0) -> PieceReadings:
    """The same, trusted or not; a piece may have none. NotMeasured if a reading is infinite."""
    found = PieceReadings(piece_table(device, shortest_s), (device.subject, load.stage), field)
    if not device.series.finite(field) and np.isinf(found.values).any():
        raise NotMeasured(f"a reading of {field} is not a finite number")
    return found


def require_possible(device: DeviceEvidence, field: str, what: str) -> None:
    """NotMeasured if any reading of the run is impossible: such a reading does not prove a fault either."""
    reason = _impossible(device, device.samples.readings(field), field, what)
    if reason:
        raise NotMeasured(reason)


def power_field(device: DeviceEvidence) -> str:
    """Instant power if the driver reports it, else the average over a second."""
    return POWER[0] if device.samples.readings(POWER[0]) else POWER[1]


def _require_moving(device: DeviceEvidence, window: Window) -> None:
    """Rule 6."""

    def all_still() -> bool:
        samples = device.loaded_samples(window)
        return all(_is_constant(samples.readings(name)) for name in CORE)

    if device.kept(("frozen", window), all_still):
        raise NotMeasured(
            "temperature, power and clock did not change at all under load: the sensors are frozen"
        )


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
    pairs = device.samples.readings(field)
    if len(pairs) < FEWEST:
        return ""  # too few to be a measurement anyway
    times_s, values = pairs.times_s, pairs.values
    doubt = _impossible(device, pairs, field, what)
    if not doubt and field in POWER:
        doubt = _still_power(device, times_s, values, field) or _against_energy(device, times_s, values)
    if not doubt and field.endswith("_temperature_c"):
        doubt = _still_temperature(device, times_s, values, what)
    return doubt or _out_of_time(device)


def _at(device: DeviceEvidence, t_s: float) -> str:
    """The latest stage begun by then, as the beginning of a reason; empty before the first one."""
    begun = [stage for stage in device.evidence.recording.stages.values() if stage.start_s <= t_s]
    return f"{max(begun, key=attrgetter('start_s')).name}: " if begun else ""


def _impossible(device: DeviceEvidence, pairs: Readings, field: str, what: str) -> str:
    """Rule 1."""
    limit_w, clock_mhz = device.identity.power_limit_w, device.identity.sm_clock_max_mhz
    highest = {
        "core_temperature_c": HIGHEST_C,
        "memory_temperature_c": HIGHEST_C,
        "power_w": None if limit_w is None else PEAK_RATIO * limit_w,
        "power_average_w": None if limit_w is None else PEAK_RATIO * limit_w,
        "sm_clock_mhz": None if clock_mhz is None else OVERCLOCK_RATIO * clock_mhz,
        "utilization_percent": 100.0,
    }.get(field)
    most = highest if highest is not None and highest > 0 else math.inf
    if not pairs or 0 <= pairs.lowest <= pairs.highest <= most:
        return ""
    t_s, value = next(pair for pair in pairs if not 0 <= pair[1] <= most)
    unit = UNITS.get(field, "")
    bound = f" (at most {most:g} {unit})" if value > most else ""
    return (
        f"{_at(device, t_s)}the {what} reads {value:g} {unit} at t={t_s:.0f} s, which is not possible{bound}"
    )


# Power


def _still_power(device: DeviceEvidence, times_s: Floats, values: Floats, field: str) -> str:
    """Rule 2, inside the windows of the stages."""
    what = "power" if field == POWER[0] else "power (1 s average)"
    for first, last in _repeated(values):
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


def _repeated(values: Floats) -> list[tuple[int, int]]:
    """The first and the last place of each value that was read at least three times in a row."""
    edges = np.concatenate(([0], np.flatnonzero(np.diff(values)) + 1, [len(values)]))
    long = np.diff(edges) > 2
    return list(zip(edges[:-1][long].tolist(), (edges[1:][long] - 1).tolist(), strict=True))


def _energy_differs(device: DeviceEvidence, from_s: float, to_s: float, power_w: float) -> bool:
    drawn_w = _mean_by_energy(device, from_s, to_s)
    return drawn_w is not None and drawn_w > 0 and abs(drawn_w - power_w) > ENERGY_SHARE / 2 * power_w


def _mean_by_energy(device: DeviceEvidence, from_s: float, to_s: float) -> float | None:
    """The mean power by the energy counter; None if it was not read there, or has never counted."""
    [mean_w] = _means_by_energy(device, np.asarray([from_s]), np.asarray([to_s])).tolist()
    return None if math.isnan(mean_w) else mean_w


def _means_by_energy(device: DeviceEvidence, from_s: Floats, to_s: Floats) -> Floats:
    """The same for several spans; NaN if it was not read there, or has never counted."""
    times_s, energy_j = _energy(device)
    first, last = np.searchsorted(times_s, from_s), np.searchsorted(times_s, to_s, "right") - 1
    means_w = np.full(len(from_s), np.nan)
    (known,) = (last > first).nonzero()
    first, last = first[known], last[known]
    means_w[known] = _means(energy_j[last] - energy_j[first], times_s[last] - times_s[first])
    return means_w


def _means(energy_j: Floats, length_s: Floats) -> Floats:
    """W; NaN where no time passed."""
    means_w = np.full(len(length_s), np.nan)
    np.divide(energy_j, length_s, out=means_w, where=length_s > 0)
    return means_w


def _energy(device: DeviceEvidence) -> tuple[Floats, Floats]:
    """The energy counter: run time and J; empty if it has never counted."""

    def counted() -> tuple[Floats, Floats]:
        pairs = device.samples.readings("energy_j")
        counted = pairs.highest > pairs.lowest
        return (pairs.times_s, pairs.values) if counted else (np.zeros(0), np.zeros(0))

    return device.kept("energy", counted)


def _against_energy(device: DeviceEvidence, times_s: Floats, values: Floats) -> str:
    """Rule 3, in blocks that cover each stretch completely."""
    from_s, to_s = _energy_blocks(device)
    by_energy_w = _means_by_energy(device, from_s, to_s)
    first, end = np.searchsorted(times_s, from_s), np.searchsorted(times_s, to_s, "right")
    enough = (end - first >= FEWEST) & ~np.isnan(by_energy_w)
    first, last, by_energy_w = first[enough], end[enough] - 1, by_energy_w[enough]
    read_j = np.concatenate(([0.0], np.cumsum(np.diff(times_s) * (values[1:] + values[:-1]) / 2)))
    read_w = _means(read_j[last] - read_j[first], times_s[last] - times_s[first])
    (apart,) = (np.abs(read_w - by_energy_w) > ENERGY_SHARE * by_energy_w).nonzero()
    if not len(apart):
        return ""
    begun_s = float(from_s[enough][apart[0]])
    return (
        f"{_at(device, begun_s)}from t={begun_s:.0f} s the power reads {read_w[apart[0]]:.0f} W, "
        f"and by the energy counter it was {by_energy_w[apart[0]]:.0f} W"
    )


def _energy_blocks(device: DeviceEvidence) -> tuple[Floats, Floats]:
    """When each block of rule 3 begins and ends."""

    def blocks() -> tuple[Floats, Floats]:
        found = [
            block
            for stretch in _stretches(device)
            if (number := int(stretch.length_s / ENERGY_BLOCK_S))
            for block in stretch.slices(stretch.length_s / number)
        ]
        return np.asarray([one.from_s for one in found]), np.asarray([one.to_s for one in found])

    return device.kept("energy blocks", blocks)


# Temperature


def _still_temperature(device: DeviceEvidence, times_s: Floats, values: Floats, what: str) -> str:
    """Rule 4."""
    power = device.samples.readings(power_field(device))
    if len(power) < FEWEST or not STEP_STILL_S <= times_s[-1] - times_s[0] <= LONGEST_S:
        return ""
    grid_s = np.arange(times_s[0], times_s[-1])
    power_w = np.interp(grid_s, power.times_s, power.values)
    never_moved = np.ptp(values) == 0 and np.ptp(times_s) >= NEVER_MOVED_S
    if never_moved and power_w.max() > LOAD_RATIO * power_w.min():
        return f"the {what} reads {values[0]:g} °C during the whole run: the sensor is frozen"
    ignored = _ignored_change(times_s, values, grid_s, power_w)
    if ignored:
        return f"{_at(device, ignored[0])}the {what} {ignored[1]}: the sensor is frozen"
    least_w = STEP_SHARE * float(power_w.max())
    after = int(STEP_STILL_S)
    steps = np.flatnonzero(np.abs(power_w[RISE_S:] - power_w[:-RISE_S]) >= least_w)
    for place in steps.tolist():
        begun = place + RISE_S
        before, lasting = power_w[place + 1 - BEFORE_STEP_S : place + 1], power_w[begun : begun + after]
        if len(before) < BEFORE_STEP_S or len(lasting) < after:
            continue
        from_w = float(before.mean())
        if not (np.abs(lasting[:, None] - before) >= least_w).all():
            continue
        inside = (times_s >= grid_s[begun]) & (times_s <= grid_s[begun] + STEP_STILL_S)
        if inside.sum() >= FEWEST and np.ptp(values[inside]) == 0:
            return (
                f"{_at(device, grid_s[begun])}the {what} reads {values[inside][0]:g} °C for "
                f"{STEP_STILL_S:.0f} s after the power went from {from_w:.0f} to {lasting.mean():.0f} W at "
                f"t={grid_s[begun]:.0f} s: the sensor is frozen"
            )
    return ""


def _ignored_change(
    times_s: Floats, values: Floats, grid_s: Floats, power_w: Floats
) -> tuple[float, str] | None:
    """When a value began that stayed constant although the mean power had changed, and what to report."""
    mean_w = np.convolve(power_w, np.full(CHANGE_MEAN_S, 1 / CHANGE_MEAN_S), "valid")  # from each second on
    for first, last in _repeated(values):
        from_s, to_s = float(times_s[first]), float(times_s[last])
        if to_s - from_s < CHANGE_MEAN_S + CHANGE_STILL_S:
            continue  # too short for a mean and a constant value after it
        during_w = mean_w[math.ceil(from_s - grid_s[0]) : math.floor(to_s - grid_s[0]) - CHANGE_MEAN_S + 1]
        spans_w = np.maximum.accumulate(during_w) - np.minimum.accumulate(during_w)
        changed = np.flatnonzero(spans_w >= CHANGE_SHARE * mean_w.max())
        if not len(changed):
            continue
        changed_s = math.ceil(from_s - grid_s[0]) + grid_s[0] + changed[0] + CHANGE_MEAN_S
        if to_s - changed_s >= CHANGE_STILL_S:
            least_w, most_w = during_w.min(), during_w.max()
            return from_s, (
                f"reads {values[first]:g} °C for {to_s - from_s:.0f} s from t={from_s:.0f} s on, while the "
                f"{CHANGE_MEAN_S} s mean of the power varied between {least_w:.0f} and {most_w:.0f} W"
            )
    return None


# Time


def _out_of_time(device: DeviceEvidence) -> str:
    """Rule 5; the same for all sensors of a card, since each sample has all of them."""
    return device.kept("time", lambda: _shift(device))


def _shift(device: DeviceEvidence) -> str:
    rounds = device.all_rounds
    rounds = rounds.only(rounds.same("device", None, device.device.gpu.device))
    power = device.samples.readings(power_field(device))
    if not len(rounds) or len(power) < FEWEST:
        return ""
    first_s, last_s = float(rounds.begins_s.min()), float(rounds.t_s.max())
    times_s, power_w = power.times_s, power.values
    # Late readings show the idle time before the load in place of the load's beginning.
    idle_w = float(power_w[times_s < first_s + LONGEST_SHIFT_S].min(initial=math.inf))
    first, last = (
        _high(rounds, place, times_s, power_w, idle_w)
        for place in (int(np.argmin(rounds.begins_s)), int(np.argmax(rounds.t_s)))
    )
    apart_s = _nearest(times_s[1:][first[1:] & ~first[:-1]], first_s)
    if times_s[0] <= first_s + SHIFT_S and not first[0] and SHIFT_S < abs(apart_s) <= LONGEST_SHIFT_S:
        return (
            f"its power rises at t={first_s + apart_s:.1f} s and its first round began at t={first_s:.1f} s: "
            "the readings are not from the time of the work"
        )
    apart_s = _nearest(times_s[:-1][last[:-1] & ~last[1:]], last_s)
    if times_s[-1] >= last_s and not last[-1] and -LONGEST_SHIFT_S <= apart_s < -SHIFT_S:
        slowed_w = float(np.median(power_w[(times_s > last_s + apart_s) & (times_s <= last_s)]))
        if slowed_w > STOP_RATIO * power_w[times_s > last_s].min(initial=math.inf):
            return ""
        return (
            f"its power falls at t={last_s + apart_s:.1f} s and its last round ended at t={last_s:.1f} s: "
            "the readings are not from the time of the work"
        )
    return ""


def _high(
    rounds: Rounds, place: int, times_s: Floats, power_w: Floats, idle_w: float
) -> npt.NDArray[np.bool_]:
    """The readings that are nearer to the power of a round's stage than to idle; none if both are similar."""
    own = rounds.only(rounds.same("stage", rounds.all("stage")[place]))
    loaded = power_w[(times_s >= own.begins_s.min() + SETTLING_S) & (times_s <= own.t_s.max())]
    loaded_w = float(np.median(loaded)) if len(loaded) >= FEWEST else 0.0
    return power_w > (idle_w + loaded_w) / 2 if loaded_w >= LOAD_RATIO * idle_w else power_w > math.inf


def _nearest(times_s: Floats, moment_s: float) -> float:
    """How far from a moment the nearest time is, s; infinity if there is none."""
    apart_s = times_s - moment_s
    return float(apart_s[np.argmin(np.abs(apart_s))]) if len(apart_s) else math.inf


# Where to look


def _windows(device: DeviceEvidence) -> list[Window]:
    found = []
    for stage in device.evidence.stages_with(*DUTIES):
        try:
            found.append(device.evidence.loaded_window(stage))
        except NotMeasured:  # a criterion that needs this stage reports it
            continue
    return found


def _stretches(device: DeviceEvidence) -> list[Window]:
    """The stretches of all loads, with adjacent ones joined."""
    found: list[Window] = []
    for load in loads_of(device):
        for stretch in load.stretches:
            if found and stretch.from_s - found[-1].to_s <= 1e-6:
                found[-1] = Window(found[-1].from_s, stretch.to_s)
            else:
                found.append(stretch)
    return found
