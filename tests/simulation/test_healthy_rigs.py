"""A healthy simulated rig is accepted, whichever of the shipped rigs it is and whatever its noise."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from rigproof.judging.laps import judge_all
from rigproof.profiles.loading.files import stems
from rigproof.profiles.loading.load import all_skus, load_rig
from rigproof.records.verdict import Decision, Outcome, decide, sentence
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import KINDS

RIGS = sorted(
    name for name in stems("rigs") if all(one.gpu.device == "cuda" for one in load_rig(name, KINDS).devices())
)
SAMPLE = Path(__file__).parents[2] / "reports" / "samples" / "bench" / "false_alarms.json"
SHORT = """\
name = "{name}-short"
extends = "{name}"
[sampling]
rate_hz = 4
[stages]
gemm.settle_s.standard = 4
gemm.measure_s.standard = 2
sustained.settle_s.standard = 4
sustained.length_s.standard = 40
training.length_s.standard = 15
feeding.length_s.standard = 15
sharing.length_s.standard = 10
[levels]
round_s.standard = 0.5
"""


@pytest.mark.parametrize(("seed", "name"), list(enumerate(RIGS)))
def test_every_shipped_rig_is_accepted_without_an_alarm(tmp_path, name, seed):
    """With a seed of its own; the kept count below is of many."""
    profile = tmp_path / "short.toml"
    profile.write_text(SHORT.format(name=name))
    verdicts = judge_all(simulated_recording(load_rig(str(profile), KINDS), "standard", seed=seed))
    alarms = [sentence(one) for one in verdicts if one.outcome in (Outcome.FAIL, Outcome.WARN)]
    assert not alarms
    assert decide(verdicts) is Decision.ACCEPTED


def test_a_slow_grid_does_not_miss_the_beginning_of_the_load(tmp_path):
    profile = tmp_path / "slow.toml"
    profile.write_text('name = "slow"\nextends = "dual-3090-3070"\n[sampling]\nrate_hz = 2\n')
    verdicts = judge_all(simulated_recording(load_rig(str(profile), KINDS), "quick"))
    assert not [sentence(one) for one in verdicts if one.outcome is Outcome.NOT_MEASURED]
    assert decide(verdicts) is Decision.ACCEPTED


STAGES = ("bandwidth", "training", "feeding", "ram", "disk", "sharing", "replay", "shapes", "transient")


@pytest.mark.parametrize(
    ("rig", "stage", "seed"),
    [
        *[("dual-3090-3070", "training", seed) for seed in (2, 9, 25)],  # a change of batch is no pause
        *[("dual-3090-3070-ultimate", "transient", seed) for seed in (40, 41)],  # nor is a burst too fast
    ],
)
def test_a_stage_of_extended_is_accepted_with_seeds_that_were_not(tmp_path, rig, stage, seed):
    others = [one for one in (*STAGES, "pattern", "transfer") if one != stage]
    text = [f'name = "{stage}"', f'extends = "{rig}"', "sampling.rate_hz = 4", "[stages]"]
    profile = tmp_path / "one-stage.toml"
    profile.write_text("\n".join(text + [f"{one}.length_s.extended = 0" for one in others]))
    verdicts = judge_all(simulated_recording(load_rig(str(profile), KINDS), "extended", seed=seed))
    assert not [sentence(one) for one in verdicts if one.outcome in (Outcome.FAIL, Outcome.NOT_MEASURED)]


def one_card(tmp_path, sku):
    """A rig of one such card, at a short standard level."""
    profile = tmp_path / "short.toml"
    lengths = SHORT.split("[stages]")[1]
    profile.write_text(
        f'name = "one"\n[stages]{lengths}[[nodes]]\nname = "here"\n[[nodes.gpus]]\nsku = "{sku}"\n'
    )
    return load_rig(str(profile), KINDS)


def grouped(kind):
    """The SKUs of each kind."""
    groups = defaultdict(list)
    for stem, sku in all_skus(KINDS).items():
        groups[kind(sku)].append(stem)
    return list(groups.values())


# One model of each kind, another one in each: bench/silent_faults.py has a rig of all models.
EACH_KIND = [
    alike[number % len(alike)]
    for number, alike in enumerate(
        grouped(
            lambda sku: (
                sku.compute_capability,
                sku.unsupported_sensors,
                sku.nvlinks is None,
                sku.boost_clock_mhz is None,
            )
        )
    )
]
ONE_NAME = [stem for alike in grouped(lambda sku: sku.nvml_names) if len(alike) > 1 for stem in alike]


@pytest.mark.parametrize("sku", EACH_KIND)
def test_a_card_of_every_kind_is_accepted(tmp_path, sku):
    """Also those that nobody has measured: what such a card is said to do fits its clock and its silicon."""
    verdicts = judge_all(simulated_recording(one_card(tmp_path, sku), "standard"))
    bad = (Outcome.FAIL, Outcome.WARN, Outcome.NOT_MEASURED)
    assert not [sentence(one) for one in verdicts if one.outcome in bad]
    assert decide(verdicts) is Decision.ACCEPTED


@pytest.mark.parametrize("sku", ONE_NAME)
def test_a_card_that_is_stuck_at_a_low_clock_and_lacks_memory_is_rejected_by_its_own_figures(tmp_path, sku):
    """NVML has one name for models of several sizes, with clocks and memory of their own."""
    faults = ["clock-stuck@here/gpu0", "memory-missing@here/gpu0"]
    verdicts = judge_all(simulated_recording(one_card(tmp_path, sku), "quick", faults))
    failed = {one.criterion for one in verdicts if one.outcome is Outcome.FAIL}
    assert {"inventory.gpus_present", "clock.ratio"} <= failed
    assert decide(verdicts) is Decision.REJECTED


def test_the_kept_count_of_false_alarms_is_of_200_runs_of_all_rigs_and_has_none():
    sample = json.loads(SAMPLE.read_text(encoding="utf-8"))
    assert sample["decisions"] == {"ACCEPTED": sample["runs"]}
    assert sample["runs"] >= 200
    assert set(sample["runs_by_rig"]) == set(RIGS)
    assert not sample["alarms"]


def test_a_seed_gives_the_same_run_again_and_another_one_another():
    def shown(seed):
        recording = simulated_recording(load_rig("h200-x2", KINDS), "quick", seed=seed)
        return [recording.gpu_samples, recording.host_samples, recording.rounds, recording.events]

    first = shown(1)
    assert first == shown(1)
    assert first != shown(2)


def test_a_run_leaves_nothing_to_the_next_one_in_the_same_process():
    """An agent that was lost with its node lets go of its own driver, and of no other."""
    loaded = load_rig("dual-3090-3070", KINDS)
    simulated_recording(loaded, "quick", ["node-lost@pc1"])
    verdicts = judge_all(simulated_recording(loaded, "quick"))
    assert decide(verdicts) is Decision.ACCEPTED
