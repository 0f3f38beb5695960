from rigproof.judging.catalogue import CATALOGUE
from rigproof.records.verdict import Decision, Outcome, decide
from support.peers import make_peers
from support.rig_profile import CANNED

# It has no earlier runs here: there is nothing to judge it by.
WITHOUT_HISTORY = {("history.regression", subject) for subject in ("pc1/gpu0", "pc2/gpu0")}
JUDGED = {name for name, one in CATALOGUE.items() if CANNED.issuperset(one.stages)}


def test_a_healthy_recording_passes_every_criterion(bench):
    verdicts = bench.verdicts()
    assert {(v.criterion, v.subject) for v in verdicts if v.outcome is not Outcome.PASS} == WITHOUT_HISTORY
    assert {v.criterion for v in verdicts} == JUDGED - {"throughput.peer_outlier"}
    assert decide(verdicts) is Decision.ACCEPTED


def test_a_node_of_equal_cards_passes_every_criterion(bench):
    make_peers(bench, 8)
    verdicts = bench.verdicts()
    good = {Outcome.PASS, Outcome.NO_LIMIT}
    assert {(v.criterion, v.subject): v.detail for v in verdicts if v.outcome not in good} == {}
    without = {v.criterion for v in verdicts if v.outcome is Outcome.NO_LIMIT}
    assert without == {"throughput.combined", "history.regression"}
    assert {v.criterion for v in verdicts} == JUDGED
    assert decide(verdicts) is Decision.ACCEPTED


def test_a_power_capped_gpu_is_no_alarm(bench):
    capped = {"clock_event_reasons": 0x4, "sm_clock_mhz": lambda s: 1470 + s.t_s % 2}
    bench.samples("pc1/gpu0", 5, power_w=lambda s: 690 + s.t_s % 2, **capped)
    verdicts = bench.verdicts()
    assert {(v.criterion, v.subject) for v in verdicts if v.outcome is not Outcome.PASS} == WITHOUT_HISTORY
