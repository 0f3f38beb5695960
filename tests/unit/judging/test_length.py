"""A run that did less than its level's own lengths is named by what it did."""

from dataclasses import replace

import pytest

from rigproof.judging.length import Shortfall, in_place_of_level, shortfalls
from rigproof.profiles.loading.load import default_rig
from rigproof.profiles.tables.levels import LEVELS
from rigproof.records.measurements import Stage
from rigproof.stages.registry import KINDS
from rigproof.stages.sustained.stage import SustainedSettings
from support.rig_profile import RIG, STAGES, loaded_rig

OWN = loaded_rig(
    {
        "levels": RIG["levels"] | {"least_share": 0.9, "least_work_share": 0.5},
        "stages": {
            **STAGES,
            "sustained": STAGES["sustained"] | {"length_s": dict.fromkeys(LEVELS, 3600)},
            "training": STAGES["training"] | {"length_s": {}},
            "feeding": STAGES["feeding"] | {"length_s": {}},
            "sharing": STAGES["sharing"] | {"length_s": {"soak": 60}},
        },
    }
)
WHOLE = (
    Stage("gemm", 5.0, 6.0, "finished"),
    Stage("sustained", 10.0, 3612.0, "finished", loaded_from_s=20.0, loaded_to_s=3610.0),
    Stage(
        "sharing", 3620.0, 3660.0, "finished", loaded_from_s=3622.0, loaded_to_s=3658.0,
        settings={"measure_s": 60.0},
    ),
)  # fmt: skip


def short(bench, *changed, level="soak"):
    """What a soak of these stages lacks."""
    stages = {stage.name: stage for stage in (*WHOLE, *changed)}
    run = replace(bench.recording.run, level=level)
    return shortfalls(replace(bench.recording, run=run, stages=stages), OWN)


def test_a_whole_run_lacks_nothing_and_gemm_has_no_length(bench):
    assert short(bench) == ()
    assert in_place_of_level((), "soak") == ""


@pytest.mark.parametrize(("to_s", "lacks"), [(3260.0, False), (3259.9, True)])
def test_ninety_percent_of_the_levels_own_length_are_enough(bench, to_s, lacks):
    assert bool(short(bench, replace(WHOLE[1], loaded_to_s=to_s))) is lacks


def test_a_continuous_load_counts_while_all_work_and_not_while_they_set_up(bench):
    (found,) = short(bench, replace(WHOLE[1], loaded_from_s=1000.0))
    assert (found.stage, found.done_s) == ("sustained", 2610.0)


def test_what_was_planned_does_not_count_where_less_was_done(bench):
    ended = replace(WHOLE[1], loaded_to_s=26.0, settings={"measure_s": 3600.0})
    assert short(bench, ended) == (Shortfall("sustained", 6.0, 3600.0, "continuous"),)


@pytest.mark.parametrize(
    ("change", "done_s"),
    [
        ({"settings": {"measure_s": 30.0}}, 30.0),  # the profile or an option gave it less
        ({"loaded_to_s": 3649.9}, 29.9),  # it ended before half of what it was given
        ({"status": "partial"}, 38.0),
        ({"settings": {}}, 38.0),
        ({"settings": {"measure_s": "60"}}, 38.0),
        ({"loaded_to_s": None}, 0.0),
        ({"loaded_to_s": float("nan")}, 0.0),
        ({"loaded_to_s": 3600.0}, 0.0),
    ],
)
def test_a_stage_that_ends_when_its_work_is_done_is_held_against_what_it_was_given(bench, change, done_s):
    (found,) = short(bench, replace(WHOLE[2], **change))
    assert found == Shortfall("sharing", pytest.approx(done_s), 60.0, "arms")


def test_a_stage_of_the_level_that_was_left_out_is_named(bench):
    run = replace(bench.recording.run, level="soak")
    stages = {stage.name: stage for stage in WHOLE[:2]}
    found = shortfalls(replace(bench.recording, run=run, stages=stages), OWN)
    assert found == (Shortfall("sharing", 0.0, 60.0, "arms"),)
    assert in_place_of_level(found, "soak") == "without sharing, not a soak"


def test_a_level_that_nobody_knows_promises_nothing(bench):
    assert short(bench, level="least_share") == short(bench, level="mine") == ()


@pytest.mark.parametrize(
    ("found", "level", "words"),
    [
        ([("sustained", 6.0)], "soak", "for 6 s of load, not a soak"),
        ([("sustained", 1799.0)], "soak", "for 29 min of load, not a soak"),
        ([("sustained", 0.34)], "quick", "for 0.34 s of load, not a quick run"),
        (
            [("sustained", 40.9), ("training", 5.0), ("feeding", 0.0), ("sharing", 0.0)],
            "extended",
            "for 40 s of load and 5 s of training, without feeding and sharing, not an extended run",
        ),
        (
            [("sustained", 40.0), ("training", 5.0), ("ram", 2.0)],
            "extended",
            "for 40 s of load, 5 s of training and 2 s of ram, not an extended run",
        ),
    ],
)
def test_a_verdict_line_says_what_was_done(found, level, words):
    assert (
        in_place_of_level(tuple(Shortfall(*one, 3600.0, KINDS[one[0]].duty) for one in found), level) == words
    )


def test_the_shipped_levels_say_how_much_of_them_is_enough():
    own = default_rig(KINDS)
    assert (own.rig.levels.least_share, own.rig.levels.least_work_share) == (0.9, 0.5)
    assert (own.settings(SustainedSettings).length_s.soak, own.rig.levels.soak_s) == (700, 3600)


def test_an_extended_run_of_a_cpu_is_held_against_the_lengths_of_rigs_of_cpus(bench):
    cpu = {"nodes": [{"gpus": [{"device": "cpu"}]}]}
    run = replace(bench.recording.run, level="extended")
    load = Stage("sustained", 10.0, 52.0, "finished", loaded_from_s=11.0, loaded_to_s=51.0)
    recording = replace(bench.recording, run=run, stages={"sustained": load})
    mixed = {"nodes": [*cpu["nodes"], {"gpus": [{"device": "cuda"}]}]}
    for rig, is_short in ((cpu, False), (mixed, True), ({"nodes": 3}, True)):
        found = {one.stage for one in shortfalls(recording, default_rig(KINDS, rig))}
        assert [name in found for name in ("sustained", "transfer")] == [is_short] * 2
