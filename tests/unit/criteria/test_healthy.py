from rigproof.criteria.catalogue import CATALOGUE
from rigproof.records.verdict import Decision, Outcome, decide


def test_a_healthy_recording_passes_every_criterion(bench):
    verdicts = bench.verdicts()
    assert {(v.criterion, v.subject): v.detail for v in verdicts if v.outcome is not Outcome.PASS} == {}
    assert {v.criterion for v in verdicts} == set(CATALOGUE)
    assert decide(verdicts) is Decision.ACCEPTED
