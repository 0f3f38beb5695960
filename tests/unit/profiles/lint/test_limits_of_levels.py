"""How much of a level is that level is not a setting of a rig, and a stage is not too short to be judged."""

import pytest

from rigproof.profiles.lint.rig import lint_rig
from rigproof.stages.registry import KINDS

KNOWN = 'name = "lab"\n[[nodes]]\nname = "a"\ncpus = 8\nram_gib = 32\n[[nodes.gpus]]\nsku = "rtx-3090"\n'


@pytest.mark.parametrize("key", ["least_share", "least_work_share"])
def test_a_rig_that_calls_less_of_a_level_that_level_is_refused(desk, key):
    (line,) = lint_rig(desk.load(f"{KNOWN}[levels]\n{key} = 0.01\n"))
    assert line.startswith(f"lab.toml: levels.{key} = 0.01: not a setting of a rig")


def at(desk, rate_hz, training_s=30):
    lengths = f"[stages.training]\nlength_s.standard = {training_s}\n"
    return desk.load(f"{KNOWN}[sampling]\nrate_hz = {rate_hz}\n{lengths}")


@pytest.mark.parametrize(("rate_hz", "training_s"), [(1, 30), (1.6, 30), (1.9, 26), (9, 5)])
def test_a_rate_that_leaves_too_few_samples_of_training_is_refused(desk, rate_hz, training_s):
    (line,) = lint_rig(at(desk, rate_hz, training_s))
    assert line.startswith(f"lab.toml: sampling.rate_hz = {rate_hz}: of {training_s} s of training at")
    assert "fewer than the 5 samples" in line


def test_it_says_which_rate_would_do(desk):
    (line,) = lint_rig(at(desk, 1))
    assert line.endswith("write 2 or more")


@pytest.mark.parametrize(("rate_hz", "training_s"), [(2, 30), (2, 25), (1, 50), (1, 0), (10, 5)])
def test_a_rate_that_leaves_five_samples_is_fine(desk, rate_hz, training_s):
    assert lint_rig(at(desk, rate_hz, training_s)) == []


def test_a_level_without_training_can_be_read_once_a_second(desk):
    assert lint_rig(at(desk, 1), "quick") == []


JUDGED = [kind for kind in KINDS if kind.shortest_s]
CPU = KNOWN.replace('sku = "rtx-3090"', 'sku = "unknown"\ndevice = "cpu"')


def of_length(stage, length_s):
    return f"[stages.{stage}]\nlength_s.standard = {length_s}\n"


@pytest.mark.parametrize("kind", JUDGED, ids=lambda kind: kind.name)
def test_a_stage_that_is_too_short_for_a_gpu_is_refused(desk, kind):
    less_s = kind.shortest_s - 0.25
    (line,) = lint_rig(desk.load(KNOWN + of_length(kind.name, less_s)))
    assert line.startswith(f"lab.toml: stages.{kind.name}.length_s.standard = {less_s:g}: too short to judge")
    leave_out = "" if kind.name == "sustained" else ", or 0 to leave the stage out"
    assert line.endswith(f"write {kind.shortest_s:g} or more{leave_out}")
    assert not lint_rig(desk.load(KNOWN + of_length(kind.name, kind.shortest_s)))


def test_before_a_run_only_the_length_at_its_level_counts(desk):
    loaded = desk.load(KNOWN + of_length("sustained", 1).replace("standard", "soak"))
    (line,) = lint_rig(loaded)
    assert line.startswith("lab.toml: stages.sustained.length_s.soak = 1: too short to judge")
    assert lint_rig(loaded, "soak") == [line]
    assert not lint_rig(loaded, "quick")


@pytest.mark.parametrize("kind", JUDGED, ids=lambda kind: kind.name)
def test_a_cpu_has_no_sensors_to_wait_for(desk, kind):
    assert not lint_rig(desk.load(CPU + of_length(kind.name, 1)))
