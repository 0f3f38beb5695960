"""The verdict as it was attacked: each attack says today what docs/attacks.md says that it does."""

from pathlib import Path

import pytest

from rigproof.judging.laps import judge_all
from rigproof.profiles.loading.load import load_rig
from rigproof.records.verdict import decide
from rigproof.run.simulated.trial import simulated_recording
from rigproof.simulation.faults.parsing import FaultError
from rigproof.stages.registry import KINDS
from support.attacks import markdown
from support.simulated_attacks import ATTACKS
from support.tested_attacks import TESTED

TESTS = Path(__file__).parents[1]
RUN = [one for one in ATTACKS if one.verdict != "usage"]
REFUSED = [one for one in ATTACKS if one.verdict == "usage"]


@pytest.mark.parametrize("attack", RUN, ids=lambda one: one.about)
def test_an_attack_is_seen_through(attack):
    faults = [attack.fault] if attack.fault else []
    verdicts = judge_all(simulated_recording(load_rig(attack.rig, KINDS), attack.level, faults))
    outcomes = {(one.criterion, one.subject, one.outcome.value) for one in verdicts}
    assert attack.expected is None or attack.expected in outcomes
    assert decide(verdicts).value == attack.verdict


@pytest.mark.parametrize("attack", REFUSED, ids=lambda one: one.fault)
def test_a_fault_that_would_never_act_is_refused(attack):
    with pytest.raises(FaultError):
        simulated_recording(load_rig(attack.rig, KINDS), attack.level, [attack.fault])


def test_every_other_attack_has_its_test():
    for one in TESTED:
        file, _, name = one.test.partition("::")
        assert f"def {name}" in (TESTS / file).read_text(encoding="utf-8"), one.about


def test_the_committed_page_is_what_the_table_says():
    committed = (TESTS.parent / "docs" / "attacks.md").read_text(encoding="utf-8")
    assert committed == markdown()
