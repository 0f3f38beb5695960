"""Limits on the very card: each rule shown tripping, and quiet at its bound."""

import pytest

RIG = 'name = "lab"\n[[nodes]]\nname = "a"\ncpus = 16\nram_gib = 64\n[[nodes.gpus]]\n'
KNOWN = RIG + 'sku = "rtx-3090"\n'  # 93 °C, 350 W
UNKNOWN = RIG + 'sku = "unknown"\n'


FAR = "a/gpu0 has 350 W by default, and no card can be set so far from it; keep it within [87.5, 525]"
HOT = "over the 93 °C that a/gpu0 may run at; write 93 or less"
TOO_HOT_TO_WORK = "begins at 64 °C, where the core is too hot; begin under 64"
NO_WORK = "begins at the power limit of a/gpu0, 350 W, so no work is inside; begin under 350"


@pytest.mark.parametrize(
    ("line", "beside", "expected"),
    [
        (
            "core_temperature_warn_c = 80",
            "core_temperature_c = 80\ncore_temperature_never_c = 83",
            "cannot trip before core_temperature_c = 80; write less than 80",
        ),
        (
            "core_temperature_c = 80",
            "core_temperature_warn_c = 78\ncore_temperature_never_c = 79",
            "cannot trip before core_temperature_never_c = 79; write 79 or less",
        ),
        (
            "core_temperature_warn_c = 84",
            "core_temperature_never_c = 83",
            "cannot trip before core_temperature_never_c = 83; write less than 83",
        ),
        ("core_temperature_never_c = 94", "", HOT),
        ("core_temperature_warn_c = 94", "", HOT),
        ("working_temperature_c = [64, 70]", "core_temperature_c = 64", TOO_HOT_TO_WORK),
        ("working_temperature_c = [65, 70]", "core_temperature_never_c = 64", TOO_HOT_TO_WORK),
        ("power_limit_w = [350, 526]", "", FAR),
        ("power_limit_w = [87, 350]", "", FAR),
        ("working_power_w = [350, 400]", "", NO_WORK),
        ("power_limit_w = [420, 350]", "", "low end above high end; write e.g. [350, 420]"),
        ("working_power_w = [150, 100]", "", "low end above high end; write e.g. [100, 150]"),
        ("working_temperature_c = [65, 60]", "", "low end above high end; write e.g. [60, 65]"),
    ],
)
@pytest.mark.parametrize("own", [False, True])
def test_limits_that_contradict_each_other_or_the_card_are_refused(desk, own, line, beside, expected):
    table, place = ("[nodes.gpus.limits]", "nodes[0].gpus[0].limits") if own else ("[limits]", "limits")
    assert desk.lint(f"{KNOWN}{table}\n{line}\n{beside}\n") == [f"{place}.{line}: {expected}"]


@pytest.mark.parametrize(
    "limits",
    [
        "core_temperature_c = 80\ncore_temperature_warn_c = 78\ncore_temperature_never_c = 83\n",
        "core_temperature_c = 80\ncore_temperature_warn_c = 79.5\ncore_temperature_never_c = 80\n",
        "core_temperature_warn_c = 78\n",
        "core_temperature_never_c = 93\n",
        "power_limit_w = [350, 420]\n",
        "power_limit_w = [350, 350]\n",
        "power_limit_w = [87.5, 525]\n",
        "power_limit_w = [350, 420]\nworking_power_w = [360, 400]\n",
        "working_power_w = [100, 150]\nworking_temperature_c = [60, 65]\nworking_clock_mhz = 1700\n",
    ],
)
def test_limits_that_can_hold_together_are_sound(desk, limits):
    assert desk.lint(f"{KNOWN}[limits]\n{limits}") == []


def test_a_card_that_nobody_knows_has_no_power_limit_to_check(desk):
    assert desk.lint(f"{UNKNOWN}[limits]\npower_limit_w = [1, 9000]\nworking_power_w = [8000, 9000]\n") == []
    (line,) = desk.lint(f"{UNKNOWN}[limits]\ncore_temperature_never_c = 105\n")
    assert line.startswith("limits.core_temperature_never_c = 105: any card shuts down at 105 °C or before")
