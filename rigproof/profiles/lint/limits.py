"""Limits that cannot trip, or that trip on every sound rig; and stages that are too short to be judged."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

from rigproof.profiles.errors import shown
from rigproof.profiles.lint.stated import rig_problem
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.tables.base import Meaningful, Table
from rigproof.profiles.tables.levels import LevelName
from rigproof.profiles.tables.limits import Limits
from rigproof.profiles.tables.sku import TemperatureLimits
from rigproof.profiles.tables.stages import OptionalSettings

WIDEST_BAND = 60.0  # points of CPU use: the load is steered to a few points, so it never deviates this much
RANGES = {"working_power_w": [100, 150], "working_temperature_c": [60, 65], "power_limit_w": [350, 420]}


def limit_problems(loaded: LoadedRig) -> Iterator[str]:
    """Settings and limits of a rig, of its GPUs and of its hosts that are beyond what is meaningful."""
    yield from _meaningless(loaded, loaded.rig)
    yield from _limit_problems(loaded, loaded.rig.limits, "limits")
    for device in loaded.devices():
        own = cast(Limits, device.gpu.limits)  # it lacks those of_rig alone, which are not looked at here
        yield from _limit_problems(loaded, own, f"{device.key}.limits")
    yield from _band_problems(loaded, loaded.rig.cpu, "cpu")
    for node in loaded.rig.nodes:
        yield from _band_problems(loaded, node.cpu, f"nodes.{node.name}.cpu")
    p99_ms, max_ms = loaded.rig.responsiveness.p99_ms, loaded.rig.responsiveness.max_ms
    if max_ms < p99_ms:
        wrong = f"under p99_ms = {p99_ms:g}, so p99 says nothing"
        yield rig_problem(loaded, "responsiveness.max_ms", max_ms, wrong, f"write {p99_ms:g} or more")
    runs = loaded.rig.calibration
    if runs and runs.fewest_runs > runs.most_runs:  # a recorded rig may have none
        wrong = f"more than most_runs = {runs.most_runs}"
        yield rig_problem(
            loaded, "calibration.fewest_runs", runs.fewest_runs, wrong, "correct one of the two"
        )


def _meaningless(loaded: LoadedRig, table: Table, prefix: str = "") -> Iterator[str]:
    """Values of a table, and of the tables in it, that are outside of the range that their field states."""
    for name, field in type(table).model_fields.items():
        value, key = getattr(table, name), f"{prefix}{name}"
        if isinstance(value, Table):
            yield from _meaningless(loaded, value, f"{key}.")
        elif isinstance(value, tuple):
            for number, one in enumerate(value):
                if isinstance(one, Table):
                    yield from _meaningless(loaded, one, f"{key}.{getattr(one, 'name', number)}.")
        elif isinstance(field.json_schema_extra, Meaningful) and value is not None:
            wrong = field.json_schema_extra.wrong(value)
            if wrong is not None:
                yield rig_problem(loaded, key, value, *wrong)


def _limit_problems(loaded: LoadedRig, limits: Limits, prefix: str) -> Iterator[str]:
    yield from _xid_problems(loaded, limits, prefix)
    for name, example in RANGES.items():
        ends = getattr(limits, name)
        if ends is not None and ends[0] > ends[1]:
            way_out = f"write e.g. {shown(example)}"
            yield rig_problem(loaded, f"{prefix}.{name}", list(ends), "low end above high end", way_out)
    warn, fail = limits.retired_pages_warn, limits.retired_pages_fail
    if warn is not None and fail is not None and warn >= fail:
        wrong = f"never warns before retired_pages_fail = {fail}"
        yield rig_problem(loaded, f"{prefix}.retired_pages_warn", warn, wrong, f"write less than {fail}")


def _xid_problems(loaded: LoadedRig, limits: Limits, prefix: str) -> Iterator[str]:
    """Numbers that are listed both to fail and to warn, and lists with which no Xid fails."""
    fail, warn = limits.xid_fail or (), limits.xid_warn or ()
    both = sorted(set(fail) & set(warn))
    if both:
        yield rig_problem(
            loaded, f"{prefix}.xid_warn", both, "also in xid_fail", "leave them in one of the lists"
        )
    if warn and all(loaded.xids.outcome(code, fail, warn) != "fail" for code in (*loaded.xids.xids, *fail)):
        way_out = "take out those of a broken card, such as 79"
        yield rig_problem(loaded, f"{prefix}.xid_warn", list(warn), "no Xid could fail the rig", way_out)


def _band_problems(loaded: LoadedRig, cpu: Table, prefix: str) -> Iterator[str]:
    """A CPU band that is too wide, in the rig's complete table or among the keys that a node states."""
    band = getattr(cpu, "band_percent", None)
    if band is not None and band[1] - band[0] > WIDEST_BAND:
        wrong = f"{band[1] - band[0]:g} points wide, so that no load is outside"
        way_out = f"make it {WIDEST_BAND:g} points at most, such as [70, 85]"
        yield rig_problem(loaded, f"{prefix}.band_percent", list(band), wrong, way_out)


OWN_KEYS = ("least_share", "least_work_share")


def level_problems(loaded: LoadedRig) -> list[str]:
    """Problems of a rig that states how much of a level must be done: only the defaults' values are used."""
    return [
        rig_problem(
            loaded, key, getattr(loaded.rig.levels, name), "not a setting of a rig", "delete this line"
        )
        for name in OWN_KEYS
        if loaded.states(key := f"levels.{name}")
    ]


def length_problems(loaded: LoadedRig, level: LevelName) -> Iterator[str]:
    """Lengths at a level that leave nothing to judge of a GPU. A CPU has no sensors to wait for."""
    if not any(device.gpu.device == "cuda" for device in loaded.devices()):
        return
    for kind in loaded.kinds:
        settings = loaded.settings(kind.settings)
        if not 0 < (length_s := kind.length_s(settings, level)) < kind.shortest_s:
            continue
        wrong = f"too short to judge a GPU's clock, power and rates in the {kind.name} stage"
        way_out = f"write {kind.shortest_s:g} or more" + (
            ", or 0 to leave the stage out" if isinstance(settings, OptionalSettings) else ""
        )
        yield rig_problem(loaded, f"stages.{kind.name}.length_s.{level}", length_s, wrong, way_out)


SHUTDOWN_C = 105.0  # core: no NVIDIA GPU is rated to run there; NVML reports shutdowns of 90 to 105 °C
MEMORY_MAX_C = 110.0  # GDDR6X, the hottest memory on any card, is cut off here; HBM at 95 to 105 °C
# Of the default power limit: the least that drivers set is 0.29 (100 of 350 W, 200 of 700 W); BIOSes made for
# overclocking end at 1.4.
POWER_LOWEST, POWER_HIGHEST = 0.25, 1.5
# In the order in which they have to trip.
CORE_LIMITS = ("core_temperature_warn_c", "core_temperature_c", "core_temperature_never_c")


def card_limit_problems(loaded: LoadedRig, device: PromisedDevice) -> Iterator[str]:
    """Problems of temperature and power limits that this card cannot reach, or that contradict each other."""
    if device.gpu.device == "cpu":
        return
    yield from _temperature_problems(loaded, device)
    yield from _order_problems(loaded, device)
    yield from _power_problems(loaded, device)


def _temperature_problems(loaded: LoadedRig, device: PromisedDevice) -> Iterator[str]:
    card = TemperatureLimits() if device.sku is None else device.sku.temperature
    for name in CORE_LIMITS:
        core_c = getattr(device.limits, name)
        wrong = None if core_c is None else _core_problem(device.subject, card, core_c)
        if wrong is not None:
            yield _on_device(loaded, device, name, core_c, *wrong)
    memory_c = device.limits.memory_temperature_c
    if memory_c is not None and memory_c > (card.memory_max_c or MEMORY_MAX_C):
        which = f"the memory of {device.subject}" if card.memory_max_c else "any card's memory"
        most = f"{card.memory_max_c or MEMORY_MAX_C:g}"
        wrong = f"over the {most} °C that {which} may run at", f"write {most} or less"
        yield _on_device(loaded, device, "memory_temperature_c", memory_c, *wrong)


def _core_problem(subject: str, card: TemperatureLimits, core_c: float) -> tuple[str, str] | None:
    """The reason why a limit of the core's temperature cannot trip, and the remedy; None if it can."""
    trip_c = card.shutdown_c or card.slowdown_c
    if trip_c is not None:
        what = "shuts down" if card.shutdown_c else "slows down"
        wrong = f"{subject} {what} at {trip_c:g} °C, before this limit trips"
        return (wrong, f"write less than {trip_c:g}") if core_c >= trip_c else None
    if card.max_operating_c is not None:
        wrong = f"over the {card.max_operating_c:g} °C that {subject} may run at"
        return (wrong, f"write {card.max_operating_c:g} or less") if core_c > card.max_operating_c else None
    wrong = f"any card shuts down at {SHUTDOWN_C:g} °C or before, and this limit never trips"
    return (wrong, f"write less than {SHUTDOWN_C:g}") if core_c >= SHUTDOWN_C else None


def _order_problems(loaded: LoadedRig, device: PromisedDevice) -> Iterator[str]:
    """Core temperatures that are out of order.

    The warning has to trip before the limit, and the limit before the temperature that is never allowed. The
    range in which the card works has to begin below the limit.
    """
    limits = device.limits
    known = [(name, value) for name in CORE_LIMITS if (value := getattr(limits, name)) is not None]
    for (low_name, low_c), (high_name, high_c) in pairwise(known):
        warning = low_name == "core_temperature_warn_c"
        if low_c > high_c or (warning and low_c == high_c):
            wrong, most = f"cannot trip before {high_name} = {high_c:g}", f"{high_c:g}"
            way_out = f"write less than {most}" if warning else f"write {most} or less"
            yield _on_device(loaded, device, low_name, low_c, wrong, way_out)
    working_c = limits.working_temperature_c
    highest_c = limits.core_temperature_c or limits.core_temperature_never_c
    if working_c is not None and highest_c is not None and working_c[0] >= highest_c:
        wrong = f"begins at {highest_c:g} °C, where the core is too hot"
        yield _on_device(
            loaded, device, "working_temperature_c", list(working_c), wrong, f"begin under {highest_c:g}"
        )


def _power_problems(loaded: LoadedRig, device: PromisedDevice) -> Iterator[str]:
    if device.sku is None:
        return
    default_w, allowed_w = device.sku.power_limit_w, device.limits.power_limit_w
    least_w, most_w = POWER_LOWEST * default_w, POWER_HIGHEST * default_w
    if allowed_w is not None and not (least_w <= allowed_w[0] and allowed_w[1] <= most_w):
        wrong = f"{device.subject} has {default_w:g} W by default, and no card can be set so far from it"
        way_out = f"keep it within [{least_w:g}, {most_w:g}]"
        yield _on_device(loaded, device, "power_limit_w", list(allowed_w), wrong, way_out)
    working_w = device.limits.working_power_w
    highest_w = max(default_w, allowed_w[1]) if allowed_w is not None else default_w
    if working_w is not None and working_w[0] >= highest_w:
        wrong = f"begins at the power limit of {device.subject}, {highest_w:g} W, so no work is inside"
        yield _on_device(
            loaded, device, "working_power_w", list(working_w), wrong, f"begin under {highest_w:g}"
        )


def _on_device(loaded: LoadedRig, device: PromisedDevice, name: str, *rest: Any) -> str:
    own = f"{device.key}.limits.{name}"
    return rig_problem(loaded, own if own in loaded.sources else f"limits.{name}", *rest)
