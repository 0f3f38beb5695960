"""Each range of a setting is shown refusing what is just past it, and quiet on its end."""

import dataclasses
from collections.abc import Iterator

import pytest

from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.tables.base import Meaningful, Table
from rigproof.profiles.tables.limits import Limits
from rigproof.profiles.tables.node import CpuLoad, Responsiveness
from rigproof.profiles.tables.rig import Timeouts
from rigproof.stages.registry import KINDS

RIG = 'name = "lab"\n[[nodes]]\nname = "a"\ncpus = 16\nram_gib = 64\n[[nodes.gpus]]\n'
KNOWN = RIG + 'sku = "rtx-3090"\n'
H200 = RIG + 'sku = "h200-sxm"\n'
UNKNOWN = RIG + 'sku = "unknown"\n'  # to be found on this machine
CPU = UNKNOWN + 'device = "cpu"\n'


def meaningful(table: type[Table], place: str) -> Iterator[tuple[str, str, Meaningful]]:
    """Where a table stands, a key of it, and the range that its field states."""
    for name, field in table.model_fields.items():
        if isinstance(field.json_schema_extra, Meaningful):
            yield place, name, field.json_schema_extra
        elif isinstance(field.annotation, type) and issubclass(field.annotation, Table):
            yield from meaningful(field.annotation, f"{place}.{name}")


RANGES = [
    *meaningful(Limits, "limits"),
    *meaningful(CpuLoad, "cpu"),
    *meaningful(Responsiveness, "responsiveness"),
    *(one for kind in KINDS for one in meaningful(kind.settings, f"stages.{kind.name}")),
]
WHOLE = {
    "stages.transient.least_waves",
    "stages.transfer.buffer_mib",
    "stages.peer.buffer_mib",
    "stages.collective.large_mib",
} | {f"limits.{name}" for name, field in Limits.model_fields.items() if "int" in str(field.annotation)}
FIRST = {  # what else such a value would contradict
    "limits.retired_pages_fail": "retired_pages_warn = 1\n",
    "responsiveness.p99_ms": "max_ms = 10000\n",
}


@pytest.mark.parametrize("beyond", ["below", "above"])
@pytest.mark.parametrize(
    ("place", "name", "bound"), RANGES, ids=lambda one: one if isinstance(one, str) else ""
)
def test_a_value_that_means_nothing_is_refused_with_what_it_would_do(desk, place, name, bound, beyond):
    end = bound.lowest if beyond == "below" else bound.highest
    wrong = getattr(bound, beyond)
    assert (end is None) == (wrong == "")
    if end is None:
        return
    key, sign = f"{place}.{name}", -1 if beyond == "below" else 1
    at, over = (int(end), int(end) + sign) if key in WHOLE else (end, end * (1 + sign / 100))

    def stated(value: float) -> list[str]:
        return desk.lint(f"{KNOWN}[{place}]\n{FIRST.get(key, '')}{name} = {value}\n")

    assert stated(at) == []
    (line,) = stated(over)
    assert line.startswith(f"{key} = ")
    assert line.endswith(f": {wrong}; write {end:g} or {'more' if beyond == 'below' else 'less'}")


@pytest.mark.parametrize(
    ("key", "value"),
    [("limits.ooms", 1000), ("limits.headroom_gib", 0), ("stages.feeding.reward_loss_share", 0.51)],
)
def test_a_gpus_own_values_are_held_against_the_same_ranges(desk, key, value):
    (line,) = desk.lint(f"{KNOWN}{key} = {value}\n")
    assert line.startswith(f"nodes[0].gpus[0].{key} = {value}: ")


@pytest.mark.parametrize(
    ("rig", "key", "lowest_refused", "wrong"),
    [
        (H200, "core", 95, "a/gpu0 shuts down at 95 °C, before this limit trips; write less than 95"),
        (KNOWN, "core", 94, "over the 93 °C that a/gpu0 may run at; write 93 or less"),
        (UNKNOWN, "core", 105, "any card shuts down at 105 °C or before, and this limit never trips; "),
        (H200, "memory", 111, "over the 110 °C that any card's memory may run at; write 110 or less"),
        (UNKNOWN, "memory", 111, "over the 110 °C that any card's memory may run at; write 110 or less"),
    ],
)
def test_a_temperature_that_no_card_reaches_is_refused(desk, rig, key, lowest_refused, wrong):
    def limited(degrees: float) -> list[str]:
        return desk.lint(f"{rig}[limits]\n{key}_temperature_c = {degrees}\n")

    for degrees in (lowest_refused, 500):
        (line,) = limited(degrees)
        assert line.startswith(f"limits.{key}_temperature_c = {degrees}: {wrong}")
    assert limited(lowest_refused - 1) == []


def test_a_memory_temperature_is_held_against_the_skus_own_where_it_is_known(desk):
    loaded = desk.load(f"{H200}[limits]\nmemory_temperature_c = 106\n")
    sku = loaded.skus["h200-sxm"]
    card = sku.temperature.model_copy(update={"memory_max_c": 105.0})
    known = dataclasses.replace(loaded, skus={"h200-sxm": sku.model_copy(update={"temperature": card})})
    assert lint_rig(loaded) == []
    assert lint_rig(known) == [
        "lab.toml: limits.memory_temperature_c = 106: over the 105 °C that the memory of a/gpu0 may run at; "
        "write 105 or less"
    ]


def test_the_cpu_as_the_device_has_no_temperature_limit_to_check(desk):
    assert desk.lint(CPU + "limits.core_temperature_c = 500\n") == []


@pytest.mark.parametrize(
    ("band", "width"), [("[0, 97.9]", "97.9"), ("[0, 61]", "61"), ("[10, 70.5]", "60.5")]
)
def test_a_band_that_no_load_leaves_is_refused(desk, band, width):
    for place in ("[cpu]\n", "[nodes.cpu]\n"):
        (line,) = desk.lint(f"{KNOWN}{place}band_percent = {band}\nwarn_percent = 98\n")
        assert f"band_percent = {band}: {width} points wide, so that no load is outside; " in line
    assert desk.lint(f"{KNOWN}[cpu]\nband_percent = [20, 80]\n") == []


@pytest.mark.parametrize(
    ("rig", "name", "least"),
    [
        (UNKNOWN, "gemm_bf16_tflops", 0.15),
        (UNKNOWN, "sustained_tflops", 0.15),
        (CPU, "gemm_fp32_tflops", 0.0006),
    ],
)
def test_a_floor_of_a_card_that_nobody_knows_can_still_fail(desk, rig, name, least):
    def floored(floor: float) -> list[str]:
        return desk.lint(f"{rig}floors.{name} = {floor}\n")

    for floor in (1e-9, 0.99 * least):
        (line,) = floored(floor)
        assert line.startswith(f"nodes[0].gpus[0].floors.{name} = ")
        assert line.endswith(f"such a floor cannot fail; write {least:g} or more")
    assert floored(1.01 * least) == []


def test_a_combined_floor_with_a_card_that_nobody_knows_can_still_fail(desk):
    def combined(floor: float) -> list[str]:
        rig = KNOWN + '[[nodes.gpus]]\nsku = "unknown"\n'
        return desk.lint(f"{rig}[stages.sustained]\ncombined_floor_tflops = {floor}\n")

    (line,) = combined(21)  # 30 % of 71.2 (the 3090's peak) and of 0.5
    assert line.startswith("stages.sustained.combined_floor_tflops = 21: even the slowest device is faster")
    assert line.endswith("write 21.5 or more")
    assert combined(21.6) == []
    assert combined(5000) == []  # how fast the other card is, nobody knows


@pytest.mark.parametrize("key", Timeouts.model_fields)
def test_a_wait_has_a_deadline(desk, key):
    (line,) = desk.problems(f"{KNOWN}[timeouts]\n{key} = 1e12\n")
    assert line.startswith(f"lab.toml: timeouts.{key} = ")
    assert line.endswith("too large, it can be 3600 at most; write 3600 or less")
    assert desk.lint(f"{KNOWN}[timeouts]\n{key} = 3600\n") == []


@pytest.mark.parametrize("key", ["gemm.settle_s", "gemm.measure_s", "sustained.length_s"])
def test_a_stage_has_an_end(desk, key):
    (line,) = desk.problems(f"{KNOWN}[stages]\n{key}.soak = 604801\n")
    assert line.startswith(f"lab.toml: stages.{key}.soak = 604801: too large")
    assert desk.lint(f"{KNOWN}[stages]\n{key}.soak = 604800\n") == []


@pytest.mark.parametrize("rate_hz", [0.001, 0.99, 101])
def test_sensors_are_read_at_least_once_a_second(desk, rate_hz):
    (line,) = desk.problems(f"{KNOWN}[sampling]\nrate_hz = {rate_hz}\n")
    assert line.startswith(f"lab.toml: sampling.rate_hz = {rate_hz}: too ")
