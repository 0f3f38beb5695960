"""What the cards of a host drew, wave by wave, and what a plan says before it loads them."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from rigproof.criteria.evidence.series import Readings
from rigproof.criteria.evidence.windows import Window
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import promised
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import over_defaults
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.measurements import Round
from rigproof.records.samples import GpuSample
from rigproof.report.terminal.plan_text import plan_lines
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import KINDS
from rigproof.stages.transient.criteria import COLUMNS, NONE, tables
from rigproof.stages.transient.made import together
from rigproof.stages.transient.stage import _steps
from support.lengths import lengths

ABSENT = {kind.name: 0 for kind in KINDS if "length_s" in kind.settings.model_fields}


def rig(*gpus, settings=None, length_s=60):
    tables = lengths(
        "extended", settle_s=2, measure_s=2, **(ABSENT | {"sustained": 7, "transient": length_s})
    )
    tables["stages"]["transient"] |= settings or {}
    nodes = [
        {"name": f"n{number}", "cpus": 32, "ram_gib": 128, "gpus": [{"sku": "h200-sxm"}] * count}
        for number, count in enumerate(gpus, 1)
    ]
    for node in nodes[1:]:
        node["address"] = "10.0.0.2"
    return over_defaults({"name": "waves", **tables, "nodes": nodes}, "waves.toml", KINDS)


@pytest.fixture(scope="module")
def simulated():
    return simulated_recording(rig(2, 1), "extended")


def rows(recording):
    (table,) = tables(recording)
    assert all(len(row) == len(COLUMNS) for row in table.rows)
    return [dict(zip(COLUMNS, row, strict=True)) for row in table.rows]


def test_a_row_for_each_node_number_of_gpus_and_frequency(simulated):
    assert [(one["Node"], one["GPUs"], one["Hz"]) for one in rows(simulated)] == [
        *(("n1", gpus, hz) for gpus in "12" for hz in ("1", "5", "20")),
        *(("n2", "1", hz) for hz in ("1", "5", "20")),
    ]


def test_draws_follow_the_waves_as_sampled_and_add_up_over_the_cards(simulated):
    alone, both = (one for one in rows(simulated)[:4:3] if one["Hz"] == "1")
    for row, gpus in ((alone, 1), (both, 2)):
        assert 600 * gpus < float(row["High, W"]) < 760 * gpus
        assert 100 * gpus < float(row["Low, W"]) < 150 * gpus
        assert float(row["Low, W"]) < float(row["Mean, W"]) < float(row["High, W"])
        assert float(row["TFLOP/s"]) == pytest.approx(737 * gpus, rel=0.02)
        # Half of the time at work: energy over work is the mean draw over half of the rate.
        expected = float(row["Mean, W"]) / (0.48 * float(row["TFLOP/s"]))
        assert float(row["J/TFLOP"]) == pytest.approx(expected, rel=0.05)
    assert 90 < float(both["Of its limit, %"]) < 110
    assert alone["Begin apart, ms"] == NONE
    assert 0 < float(both["Begin apart, ms"]) < 2


def test_the_peak_of_a_card_is_told_as_a_share_of_its_own_limit(simulated):
    recording = copy(simulated)
    recording.gpus = {name: replace(one, power_limit_w=1000.0) for name, one in simulated.gpus.items()}
    for row in rows(recording):
        assert float(row["Of its limit, %"]) == pytest.approx(float(row["Peak of a card, W"]) / 10, rel=0.02)


def test_what_was_not_read_is_a_dash(simulated):
    recording = copy(simulated)
    unread = {"power_w": None, "power_average_w": None, "energy_j": None}
    recording.put(GpuSample, [replace(one, **unread) for one in recording.gpu_samples])
    for row in rows(recording):
        for name in ("High, W", "Low, W", "Mean, W", "1 s average, W", "Peak of a card, W", "J/TFLOP"):
            assert row[name] == NONE
        assert row["TFLOP/s"] != NONE


def test_a_run_without_waves_has_no_table(simulated):
    recording = copy(simulated)
    recording.put(Round, [one for one in recording.rounds if one.stage != "transient"])
    assert list(tables(recording)) == []


def test_cards_count_together_where_each_was_read_and_with_the_highest_reading():
    first = Readings.of_pairs([(0.05, 100.0), (0.08, 300.0), (0.15, 200.0), (0.25, 100.0)])
    second = Readings.of_pairs([(0.02, 50.0), (0.22, 70.0), (9.0, 900.0)])
    assert together([first, second], Window(0.0, 0.3), 0.1).tolist() == [350.0, 170.0]
    assert together([first], Window(0.0, 0.3), 0.1).tolist() == [300.0, 200.0, 100.0]
    assert len(together([], Window(0.0, 0.3), 0.1)) == len(together([first], Window(0.3, 0.3), 0.1)) == 0
    assert np.isfinite(together([first, second], Window(0.0, 9.5), 0.1)).all()


# Lint


@pytest.mark.parametrize(
    ("settings", "length_s", "key"),
    [
        ({"frequencies_hz": [5, 5]}, 60, "frequencies_hz"),
        ({"frequencies_hz": []}, 60, "frequencies_hz"),
        ({"least_waves": 3}, 60, "least_waves"),
        ({"duty_share": [0.6, 0.7]}, 60, "duty_share"),
        ({"duty_share": [0.3, 1.0]}, 60, "duty_share"),
        ({"wave_share": 0.4}, 60, "wave_share"),
        ({"phase_share": 0.5}, 60, "phase_share"),
        ({"phase_ms": 60}, 60, "phase_ms"),
        ({"others_share": 0.3}, 60, "others_share"),
        ({"others_share": 1.0}, 60, "others_share"),
        ({"fall_share": 0.3}, 60, "fall_share"),
        ({"fall_share": 1.0}, 60, "fall_share"),
        ({"psu_share": 0.2}, 60, "psu_share"),
        ({}, 30, "length_s.extended"),
    ],
)
def test_settings_with_which_no_wave_could_be_made_or_judged_are_refused(settings, length_s, key):
    problems = lint_rig(rig(8, settings=settings, length_s=length_s), "extended")
    assert any(f"stages.transient.{key} = " in one for one in problems), problems


def test_the_defaults_and_a_level_without_waves_are_accepted():
    assert lint_rig(rig(8), "extended") == lint_rig(rig(8, length_s=0), "extended") == []


# Plan


def planned(loaded, found=None, level="extended"):
    plan = make_plan(loaded, level)
    return "\n".join(plan_lines(loaded, plan, CATALOGUE, promised, found=found))


def test_a_plan_says_that_loads_are_switched_and_in_which_steps():
    text = planned(rig(8, 1))
    assert "  transient: about 60 s" in text
    assert "at 1, 5, 20 Hz; a weak power supply may reset the host" in " ".join(text.split())
    assert "    n1: 1 to 8 GPUs, one more at each step" in text
    assert "    n2: its GPU" in text
    assert "a card with an active display will be left out (stages.transient.with_display)" in text
    assert "    n1: 3, 5, 7, 9 GPUs" in planned(rig(9, settings={"most_steps": 4}))
    assert "power.transient" in text


def test_a_plan_names_a_card_of_this_machine_that_is_left_out_and_why(simulated):
    found = {"n1/gpu0": replace(simulated.gpus["n1/gpu0"], display_active=True)}
    text = planned(rig(2), found)
    assert "    n1/gpu0 is left out: a display is active on it, which would stutter" in text
    assert "    n1: its GPU" in text


def test_a_plan_of_a_rig_whose_cards_all_take_part_promises_to_leave_none_out(simulated):
    found = {f"n1/gpu{index}": simulated.gpus["n1/gpu0"] for index in range(2)}
    assert "left out" not in planned(rig(2), found)
    assert "left out" not in planned(rig(2, settings={"with_display": True}))


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((1,), "its GPU"),
        ((8,), "8 GPUs"),
        ((1, 2), "1 to 2 GPUs, one more at each step"),
        ((4, 8, 12, 16), "4, 8, 12, 16 GPUs"),
    ],
)
def test_the_steps_of_a_host_in_words(steps, said):
    assert _steps(steps) == said
