"""Finds limits that have no effect on their card, or on any card if theirs has no SKU file."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from rigproof.profiles.lint.limits import rig_problem
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.tables.sku import TemperatureLimits

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
