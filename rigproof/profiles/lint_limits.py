"""Limits that cannot trip, or that trip on every sound rig.

The bounds here are no limits of a rig: they are how far a limit can go before it says nothing any more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rigproof.profiles.errors import problem
from rigproof.profiles.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.models import Limits

ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Bound:
    """Between which values a limit means something."""

    lowest: float | None = None
    highest: float | None = None
    below: str = "cannot fail"  # what a limit under `lowest` does
    above: str = "cannot fail"  # what a limit over `highest` does


MEANINGFUL = {
    "throttle_share": Bound(highest=0.5, above="lets a card throttle half the time"),
    "clock_ratio_share": Bound(lowest=0.2, below="is the clock of an idle card"),
    "power_over_limit_share": Bound(
        1.0, 1.5, "fails a card that is merely at its limit", "is past what a supply gives before it trips"
    ),
    "active_power_share": Bound(lowest=0.15, below="is what an idle card draws"),
    "active_work_share": Bound(lowest=0.5, below="calls a card active that idles most of the time"),
    "stability_drop_share": Bound(lowest=0.5, below="allows a rate that halves"),
    "stability_worst_window_share": Bound(lowest=0.3, below="allows a rate that all but stops"),
    "success_share": Bound(lowest=0.5, below="allows every other task to fail"),
    "sample_coverage_share": Bound(lowest=0.2, below="calls a few samples a measurement"),
    "remapped_rows_fail": Bound(highest=512, above="is more rows than a card can remap"),
    "retired_pages_fail": Bound(highest=64, above="is more pages than a card can retire"),
}


def limit_problems(loaded: LoadedRig) -> list[str]:
    """Limits of a rig, of its GPUs and of its hosts that could never be passed over."""
    found = list(_table_problems(loaded, loaded.rig.limits, "limits"))
    for device in loaded.devices():
        found += _table_problems(loaded, device.gpu.limits, f"{device.key}.limits")
        found += _device_problems(loaded, device)
    found += _cpu_problems(loaded)
    return found


def _told(loaded: LoadedRig, key: str, value: object, wrong: str, way_out: str) -> str:
    return problem(loaded.source_of(key), loaded.written(key), value, wrong, way_out)


def _table_problems(loaded: LoadedRig, limits: Limits, prefix: str) -> Iterator[str]:
    for name, bound in MEANINGFUL.items():
        value = getattr(limits, name)
        if value is None:
            continue
        key = f"{prefix}.{name}"
        if bound.lowest is not None and value < bound.lowest - ROUNDING:
            yield _told(loaded, key, value, bound.below, f"write {bound.lowest:g} or more")
        if bound.highest is not None and value > bound.highest + ROUNDING:
            yield _told(loaded, key, value, bound.above, f"write {bound.highest:g} or less")
    if limits.xid_fail is not None and not limits.xid_fail:
        yield _told(
            loaded, f"{prefix}.xid_fail", [], "no Xid could fail the rig", "list them, such as [48, 79]"
        )
    warn, fail = limits.retired_pages_warn, limits.retired_pages_fail
    if warn is not None and fail is not None and warn >= fail:
        wrong = f"never warns before retired_pages_fail = {fail}"
        yield _told(loaded, f"{prefix}.retired_pages_warn", warn, wrong, f"write less than {fail}")


def _device_problems(loaded: LoadedRig, device: PromisedDevice) -> Iterator[str]:
    """What a limit means on this very card."""
    if device.sku is None:
        return
    card, limits = device.sku.temperature, device.limits
    core_c = limits.core_temperature_c
    trip_c = card.shutdown_c or card.slowdown_c
    if core_c is not None and trip_c is not None and core_c >= trip_c:
        what = "shuts down" if card.shutdown_c else "slows down"
        yield _on_device(
            loaded,
            device,
            "core_temperature_c",
            core_c,
            f"{device.subject} {what} at {trip_c:g} °C, before this limit trips",
            f"write less than {trip_c:g}",
        )
    elif core_c is not None and trip_c is None and (card.max_operating_c or core_c) < core_c:
        yield _on_device(
            loaded,
            device,
            "core_temperature_c",
            core_c,
            f"over the {card.max_operating_c:g} °C that {device.subject} may run at",
            f"write {card.max_operating_c:g} or less",
        )
    memory_c = limits.memory_temperature_c
    if memory_c is not None and card.memory_max_c is not None and memory_c > card.memory_max_c:
        yield _on_device(
            loaded,
            device,
            "memory_temperature_c",
            memory_c,
            f"over the {card.memory_max_c:g} °C that the memory of {device.subject} may run at",
            f"write {card.memory_max_c:g} or less",
        )


def _on_device(loaded: LoadedRig, device: PromisedDevice, name: str, *rest: Any) -> str:
    own = f"{device.key}.limits.{name}"
    return _told(loaded, own if own in loaded.sources else f"limits.{name}", *rest)


def _cpu_problems(loaded: LoadedRig) -> Iterator[str]:
    tables = [("cpu", loaded.rig.cpu), *((f"nodes.{node.name}.cpu", node.cpu) for node in loaded.rig.nodes)]
    for prefix, cpu in tables:
        if cpu.band_percent is not None and cpu.band_percent[1] - cpu.band_percent[0] >= 100:
            wrong = "no load is outside this band"
            yield _told(loaded, f"{prefix}.band_percent", [0, 100], wrong, "write e.g. [70, 85]")
        if cpu.warn_percent is not None and cpu.warn_percent >= 100:
            wrong = "no load is over this"
            yield _told(loaded, f"{prefix}.warn_percent", cpu.warn_percent, wrong, "write less than 100")
        if cpu.in_band_share is not None and cpu.in_band_share < 0.3:
            wrong = "a load that is hardly ever in its band would pass"
            yield _told(loaded, f"{prefix}.in_band_share", cpu.in_band_share, wrong, "write 0.3 or more")
    p99_ms, max_ms = loaded.rig.responsiveness.p99_ms, loaded.rig.responsiveness.max_ms
    if p99_ms is not None and max_ms is not None and max_ms < p99_ms:
        wrong = f"under p99_ms = {p99_ms:g}, so p99 says nothing"
        yield _told(loaded, "responsiveness.max_ms", max_ms, wrong, f"write {p99_ms:g} or more")
