"""Limits that cannot trip, or that trip on every sound rig.

The bounds here are no limits of a rig: they say how far a limit can go before it becomes meaningless.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from rigproof.profiles.errors import problem, shown
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.base import Table
from rigproof.profiles.tables.limits import Limits

ROUNDING = 1e-9
WIDEST_BAND = 60.0  # points of CPU use: the load is steered to a few points, so it never deviates this much
BUSIEST_PERCENT = 98.0  # a host without an idle CPU reads 98 to 100 %
P99_HIGHEST_MS = 1_000.0  # a second is where people lose their train of thought (Nielsen, Response Times)
MAX_HIGHEST_MS = 10_000.0  # after ten they give up (as above); a frozen host is no worse


@dataclass(frozen=True, slots=True)
class Bound:
    """The range in which a limit is meaningful."""

    lowest: float | None = None
    highest: float | None = None
    below: str = "cannot fail"  # what a limit under `lowest` does
    above: str = "cannot fail"  # what a limit over `highest` does


MEANINGFUL = {
    # A limit of half the samples passes a card that cools down as long as it works.
    "throttle_share": Bound(highest=0.5, above="lets a card throttle half the time"),
    # Two stretches are no coincidence any more; a card with ten throttles repeatedly.
    "throttle_events": Bound(highest=10, above="lets a card throttle repeatedly"),
    "throttle_event_s": Bound(highest=10, above="is no longer a short slowdown"),
    # Idle clocks are 210 to 345 MHz of 1700 to 2600.
    "clock_ratio_share": Bound(lowest=0.2, below="passes the clock of an idle card"),
    "clock_unknown_share": Bound(lowest=0.2, below="passes the clock of an idle card"),
    # A card at its cap draws 97 % of it; one at 60 % has room for a higher clock.
    "clock_capped_power_share": Bound(
        0.6, 0.97, "treats a card as capped that is not at its cap", "is more than a capped card draws"
    ),
    # GeForce drivers allow 30 to 45 % of the default at the lowest.
    "power_cap_fail_share": Bound(lowest=0.3, below="is lower than any card can be capped"),
    # A card that waits half of the time shows 50 %.
    "active_utilization_share": Bound(lowest=0.5, below="calls a card active that idles most of the time"),
    # The overload protection of a supply trips at 1.1 to 1.5 times what it is rated for.
    "power_over_limit_share": Bound(
        1.0, 1.5, "fails a card that is merely at its limit", "is more than a supply gives before it trips"
    ),
    # An idle card draws 5 to 15 % of its limit.
    "active_power_share": Bound(lowest=0.15, below="passes what an idle card draws"),
    # Readings come twice a second and are kept for 10 s; a step of training waits for seconds at most.
    "idle_beside_s": Bound(5, 600, "marks a card that waits for its next step", "marks no card that matters"),
    # Half of the windows empty is a card that waits for its host.
    "active_work_share": Bound(lowest=0.5, below="calls a card active that idles most of the time"),
    # Sound cards pause for 0.13 s at most; a stage measures for a few seconds.
    "pause_s": Bound(0.5, 5, "fails sound cards", "passes a card that stops for a whole stage"),
    # One window of 5 s may contain a hiccup; under a third it contained almost no work.
    "stability_worst_window_share": Bound(lowest=0.3, below="allows a rate that almost stops"),
    # A card at half its clock does half the work; sound ones keep 0.83 of their best quarter at least.
    "best_quarter_share": Bound(0.5, 0.95, "accepts a card that falls to half its rate", "fails sound cards"),
    # Rounds that are all half as fast are no rare hiccups; sound cards keep 0.85 where small batches wait.
    "slow_fifth_share": Bound(0.3, 0.85, "accepts a card that works by fits and starts", "fails sound cards"),
    # Rates may lack 15 % at most.
    "standstill_share": Bound(highest=0.15, above="calls a card slow whose host stood still"),
    # The known stragglers lack 8 to 15 %; sound cards of a model are within 3 %, so half of them lack some.
    "peer_share": Bound(0.5, 0.99, "accepts a card that works at half the rate", "fails sound cards"),
    # The known stragglers lack 8 to 15 %.
    "marginal_share": Bound(highest=0.08, above="gives stragglers a second chance"),
    # A card is full where the next matrix does not fit: 128 MiB in 16-bit at the usual size of 8192.
    "headroom_gib": Bound(lowest=0.125, below="passes a card that is full"),
    # A rig that fails at every other task trains nothing.
    "success_share": Bound(lowest=0.5, below="allows every other task to fail"),
    # SuperBench and Megatron call 5 to 10 % a regression.
    "champion_share": Bound(lowest=0.5, below="lets a card lose half of its best rate"),
    # The same for a SKU's figures: a floor of half of what others reached is meaningless.
    "floor_measured_share": Bound(0.5, 0.99, "lets a card lose half of its rate", "fails sound cards"),
    "floor_similar_share": Bound(0.5, 0.97, "lets a card lose half of its rate", "fails sound cards"),
    "floor_printed_share": Bound(
        0.4, 0.95, "lets a card lose more than half of its rate", "fails sound cards"
    ),
    # Large GEMMs reach 0.66 to 0.87 of what the silicon does at its clock.
    "floor_unknown_share": Bound(0.3, 0.85, "accepts a card that hardly works", "fails sound cards"),
    # Sharing left 0.90 of the rate with 2 processes and 0.92 with 3, as measured.
    "floor_sharing_share": Bound(lowest=0.5, below="allows sharing that halves the rate"),
    "floor_cards": Bound(
        highest=100, above="is more cards than are ever measured, so that no floor is tight"
    ),
    # Boost clocks give 1.10 of the printed peak, a maximum clock up to 1.3 of it.
    "ceiling_share": Bound(
        1.0, 2.0, "calls a sound card's rate an error", "accepts twice the peak as a rate"
    ),
    # A worker gives up after 8 tries to fill its memory: a plan that fails this often does not fit.
    "ooms": Bound(highest=10, above="passes even a plan that does not fit"),
    # The first error ends the process that meets it (Xid 48); a card falls off the bus before it has many
    # (Xid 79).
    "ecc_uncorrected": Bound(highest=10, above="passes more errors than a broken card survives"),
    # At 10 Hz one reading in five is 2 Hz: a spike of a second is still seen.
    "sample_coverage_share": Bound(lowest=0.2, below="accepts a few samples as a measurement"),
    # NVIDIA, Memory Error Management: 512 spare rows, and 64 pages before row remapping.
    "remapped_rows_fail": Bound(highest=512, above="is more rows than a card can remap"),
    "retired_pages_fail": Bound(highest=64, above="is more pages than a card can retire"),
    # A sound link stays below 1e-12 by its specification. 1e-10 allows a Gen5 x16 link 3072 replays a minute.
    "pcie_bit_error_rate": Bound(
        1e-15, 1e-10, "warns of a single replay", "never warns, not even of fifty packets resent a second"
    ),
    # As above: a Gen5 x16 link within its specification has 31 a minute.
    "pcie_correctable_minute": Bound(highest=3000, above="passes a link that repairs fifty errors a second"),
    # The first one loses data or resets the link.
    "pcie_uncorrected": Bound(highest=10, above="passes more errors than a broken link survives"),
    # A CUDA context without any work holds 0.3 to 0.6 GiB.
    # A card of the same model with half of its memory is another card.
    "gpu_memory_share": Bound(0.6, 0.99, "accepts a card with half of its memory", "fails sound cards"),
    "foreign_memory_warn_mib": Bound(highest=1024, above="lets another job hold memory without a warning"),
    # Two programs that both keep a GPU busy get half of it each; a third of that shows in any rate.
    "stranger_sm_percent": Bound(
        highest=15, above="lets a foreign process take a sixth of the card and more"
    ),
    # A program that takes a GiB leaves less than any level's headroom on a card that the plan fills.
    "stranger_growth_mib": Bound(highest=4096, above="lets a job take memory as if it were a desktop"),
    # A GPU that is idle a third of the time is starved; half is no longer a matter of taste.
    "idle_share": Bound(highest=0.5, above="accepts a card that waits half the time as fed"),
    # Idle clocks as above; the fastest cards boost to 3000 MHz, overclocked ones to 3300.
    "working_clock_mhz": Bound(400, 3500, "is the clock of an idle card", "is more than any card reaches"),
}
OF_THE_CPU = {
    "warn_percent": Bound(highest=BUSIEST_PERCENT, above="no load ever exceeds this"),
    "warn_windows_share": Bound(highest=0.5, above="only warns about a host that is busy most of the time"),
    "in_band_share": Bound(lowest=0.3, below="a load that is hardly ever in its band would pass"),
    # A quick run has eleven windows: six outside happen by chance once in 85 runs, all of them never.
    "false_alarm_share": Bound(
        1e-6, 0.05, "needs a minute outside the band to fail", "fails sound hosts by chance"
    ),
    # Twice the share at which the CPU load misses its band.
    "stolen_warn_percent": Bound(highest=30, above="is silent about a host of which a third is taken away"),
    # Work takes three times as long with a third of the CPU; the deadlines are far wider.
    "starved_percent": Bound(highest=30, above="excuses hangs on hosts that left enough of the CPU"),
}
RANGES = {"working_power_w": [100, 150], "working_temperature_c": [60, 65], "power_limit_w": [350, 420]}


def limit_problems(loaded: LoadedRig) -> list[str]:
    """Limits of a rig, of its GPUs and of its hosts that could never be exceeded."""
    found = list(_table_problems(loaded, loaded.rig.limits, "limits"))
    for device in loaded.devices():
        own = cast(Limits, device.gpu.limits)  # it lacks those of_rig alone, which have no bounds
        found += _table_problems(loaded, own, f"{device.key}.limits")
    found += _cpu_problems(loaded)
    found += _responsiveness_problems(loaded)
    return found


def rig_problem(loaded: LoadedRig, key: str, value: object, wrong: str, way_out: str) -> str:
    """A problem at the dotted `key` of a merged rig; it names the file and the key as the user wrote it."""
    return problem(loaded.source_of(key), loaded.written(key), value, wrong, way_out)


def stage_limit_problems(loaded: LoadedRig, stage: str, bounds: Mapping[str, Bound]) -> Iterator[str]:
    """Problems of one stage's limits that could never be exceeded: the rig's, and those of a GPU or node.

    `bounds` gives the meaningful range of each of its limits, by key.
    """
    yield from _out_of_bounds(loaded, loaded.stages[stage], f"stages.{stage}", bounds)
    owners = [(f"nodes.{node.name}", node.stages) for node in loaded.rig.nodes]
    owners += [(device.key, device.gpu.stages) for device in loaded.devices()]
    for key, stages in owners:
        own = getattr(stages, stage, None)
        if own is not None:
            yield from _out_of_bounds(loaded, own, f"{key}.stages.{stage}", bounds)


def _out_of_bounds(
    loaded: LoadedRig, table: Table, prefix: str, bounds: Mapping[str, Bound]
) -> Iterator[str]:
    for name, bound in bounds.items():
        value = getattr(table, name, None)  # a GPU's own table does not have all of them
        if value is None:
            continue
        key = f"{prefix}.{name}"
        if bound.lowest is not None and value < bound.lowest * (1 - ROUNDING):
            yield rig_problem(loaded, key, value, bound.below, f"write {bound.lowest:g} or more")
        if bound.highest is not None and value > bound.highest * (1 + ROUNDING):
            yield rig_problem(loaded, key, value, bound.above, f"write {bound.highest:g} or less")


def _table_problems(loaded: LoadedRig, limits: Limits, prefix: str) -> Iterator[str]:
    yield from _out_of_bounds(loaded, limits, prefix, MEANINGFUL)
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
        wrong, way_out = (
            "no Xid could fail the rig",
            "take out those of a broken card, such as 79",
        )
        yield rig_problem(loaded, f"{prefix}.xid_warn", list(warn), wrong, way_out)


def _cpu_problems(loaded: LoadedRig) -> Iterator[str]:
    yield from _load_problems(loaded, loaded.rig.cpu, "cpu")
    for node in loaded.rig.nodes:
        own = node.cpu
        if own.model_fields_set:
            yield from _load_problems(loaded, own, f"nodes.{node.name}.cpu")


def _load_problems(loaded: LoadedRig, cpu: Table, prefix: str) -> Iterator[str]:
    """Problems of a table of the CPU load: the rig's complete one, or the keys that a node states itself."""
    band = getattr(cpu, "band_percent", None)
    if band is not None and band[1] - band[0] > WIDEST_BAND:
        wrong = f"{band[1] - band[0]:g} points wide, so that no load is outside"
        way_out = f"make it {WIDEST_BAND:g} points at most, such as [70, 85]"
        yield rig_problem(loaded, f"{prefix}.band_percent", list(band), wrong, way_out)
    yield from _out_of_bounds(loaded, cpu, prefix, OF_THE_CPU)


def _responsiveness_problems(loaded: LoadedRig) -> Iterator[str]:
    p99_ms, max_ms = loaded.rig.responsiveness.p99_ms, loaded.rig.responsiveness.max_ms
    for key, value, highest in (("p99_ms", p99_ms, P99_HIGHEST_MS), ("max_ms", max_ms, MAX_HIGHEST_MS)):
        if value > highest:
            wrong = "a host that is as slow as this is frozen"
            yield rig_problem(loaded, f"responsiveness.{key}", value, wrong, f"write {highest:g} or less")
    if max_ms < p99_ms:
        wrong = f"under p99_ms = {p99_ms:g}, so p99 says nothing"
        yield rig_problem(loaded, "responsiveness.max_ms", max_ms, wrong, f"write {p99_ms:g} or more")
