"""Limits that cannot trip, or that trip on every sound rig."""

from collections.abc import Iterator
from typing import cast

from rigproof.profiles.errors import problem, shown
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.base import Meaningful, Table
from rigproof.profiles.tables.limits import Limits

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


def rig_problem(loaded: LoadedRig, key: str, value: object, wrong: str, way_out: str) -> str:
    """A problem at the dotted `key` of a merged rig; it names the file and the key as the user wrote it."""
    return problem(loaded.source_of(key), loaded.written(key), value, wrong, way_out)


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
    if warn and all(loaded.xids.outcome(code, limits) != "fail" for code in (*loaded.xids.xids, *fail)):
        way_out = "take out those of a broken card, such as 79"
        yield rig_problem(loaded, f"{prefix}.xid_warn", list(warn), "no Xid could fail the rig", way_out)


def _band_problems(loaded: LoadedRig, cpu: Table, prefix: str) -> Iterator[str]:
    """A CPU band that is too wide, in the rig's complete table or among the keys that a node states."""
    band = getattr(cpu, "band_percent", None)
    if band is not None and band[1] - band[0] > WIDEST_BAND:
        wrong = f"{band[1] - band[0]:g} points wide, so that no load is outside"
        way_out = f"make it {WIDEST_BAND:g} points at most, such as [70, 85]"
        yield rig_problem(loaded, f"{prefix}.band_percent", list(band), wrong, way_out)
