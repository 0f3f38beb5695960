"""A host that restarts fails; what nobody read proves nothing; an earlier run that never ended warns."""

import pytest

from rigproof.records.verdict import Decision, Outcome, decide, sentence
from support.rig_profile import RIG

RESET, NODE = "health.reset", "pc2"
RESTARTED = "pc2 restarted 4 s into sustained (bf16), both cards at 100 %, last 348 + 231 W, 71 °C"
OTHER_BOOT = "0e0e6ab5-6d8f-4c1a-9f47-2f0f57a0a0de"


def test_the_same_boot_id_before_and_after_passes_and_says_what_was_not_kept(bench):
    same = "the boot id is the same before and after the load"
    assert bench.said(RESET, NODE) == (Outcome.PASS, same)
    bench.event("black_box", NODE, "this host's black box cannot be written: Permission denied", stage=None)
    black_box = "this host's black box cannot be written: Permission denied"
    assert bench.said(RESET, NODE) == (Outcome.PASS, f"{same}; {black_box}")


def test_a_reset_is_reported_in_one_sentence_with_what_to_do(bench):
    bench.event("host_reset", NODE, RESTARTED, 34.0, stage=None, run_id="run", restarted=True)
    verdict = bench.verdict(RESET, NODE)
    assert (verdict.outcome, verdict.from_s) == (Outcome.FAIL, 34.0)
    line = sentence(verdict)
    assert RESTARTED in line
    assert "power supply" in line
    assert line.endswith(("or lower the power limit.", "; else lower the power limit."))
    assert bench.verdict(RESET, "pc1").outcome is Outcome.PASS


def test_another_boot_id_fails_whoever_read_it(bench):
    bench.boot(NODE, "after", boot_id=OTHER_BOOT)
    verdict = bench.verdict(RESET, NODE)
    assert (verdict.outcome, verdict.from_s) == (Outcome.FAIL, 71.5)


def test_another_boot_id_in_the_middle_fails_too(bench):
    """An agent that took another's place reads it as its first: before, other, and perhaps never after."""
    bench.recording.boots = [one for one in bench.recording.boots if one.moment == "before"]
    bench.recording.boots.append(bench.recording.boots[-1].__class__(40.0, NODE, "before", OTHER_BOOT))
    assert bench.verdict(RESET, NODE).outcome is Outcome.FAIL


@pytest.mark.parametrize("moment", ["before", "after"])
def test_half_of_the_readings_or_none_prove_nothing(bench, moment):
    bench.boot(NODE, moment, boot_id=None, reason="/proc is not mounted")
    verdict = bench.verdict(RESET, NODE)
    assert (verdict.outcome, verdict.of_run) == (Outcome.NOT_MEASURED, True)
    bench.event("node_lost", NODE, "the node is gone: no heartbeat", 50.0, stage=None)
    bench.recording.boots = [one for one in bench.recording.boots if one.moment != moment]
    assert bench.said(RESET, NODE) == (
        Outcome.NOT_MEASURED,
        f"the boot id was not read {moment} the load: the node is gone: no heartbeat (at t=50 s)",
    )
    bench.drop("boots", NODE)
    assert bench.verdict(RESET, NODE).outcome is Outcome.NOT_MEASURED


def test_a_host_whose_boot_id_cannot_be_read_is_not_asked_for_it(bench):
    for moment in ("before", "after"):
        bench.boot(NODE, moment, boot_id=None, reason="it is this container's own here, not the host's")
    verdict = bench.verdict(RESET, NODE)
    assert verdict.outcome is Outcome.NOT_APPLICABLE
    assert "container's own" in verdict.detail


def test_a_killed_driver_is_incomplete_and_reported(bench):
    bench.event("driver_killed", NODE, "the run was ended from outside; the host did not restart", stage=None)
    verdict = bench.verdict(RESET, NODE)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert "did not restart" in verdict.detail
    assert decide(bench.verdicts()) is Decision.INCOMPLETE


def earlier(bench, run_id, message, *, restarted):
    bench.event("unfinished_run", NODE, message, 1.0, stage=None, run_id=run_id, restarted=restarted)


def test_an_earlier_run_that_never_ended_warns_by_its_restart_first(bench):
    earlier(bench, "run-2", "the run was ended from outside", restarted=False)
    verdict = bench.verdict(RESET, NODE)
    assert (verdict.outcome, "power supply" in verdict.remedy) == (Outcome.WARN, False)
    earlier(bench, "run-1", RESTARTED, restarted=True)
    verdict = bench.verdict(RESET, NODE)
    assert verdict.outcome is Outcome.WARN
    assert verdict.detail == f"an earlier run (run-1) never ended: {RESTARTED} (and 1 more)"
    assert "power supply" in verdict.remedy
    assert decide(bench.verdicts()) is Decision.ACCEPTED
    bench.recording.boots = []  # a warning does not stand in for a reading
    assert bench.verdict(RESET, NODE).outcome is Outcome.NOT_MEASURED


def test_a_node_that_restarted_is_not_sent_to_its_network_cable(bench):
    bench.event("node_lost", NODE, "the node is gone: no heartbeat", 34.0, stage=None)
    assert "network cable" in bench.verdict("cluster.nodes_present", NODE).remedy
    bench.event("host_reset", NODE, RESTARTED, 34.0, stage=None, run_id="run", restarted=True)
    remedy = bench.verdict("cluster.nodes_present", NODE).remedy
    assert "health.reset" in remedy
    assert "network cable" not in remedy


@pytest.mark.parametrize(
    ("cards", "words"), [(1, "else lower the power limit"), (2, "else load one card at a time")]
)
def test_a_host_with_one_card_has_no_others_to_leave_out(bench, cards, words):
    nodes = [node | {"gpus": [node["gpus"][0]] * cards} for node in RIG["nodes"]]
    bench.rig(nodes=nodes)
    bench.event("host_reset", NODE, RESTARTED, 34.0, stage=None)
    remedy = bench.verdict(RESET, NODE).remedy
    assert words in remedy
    assert ("one card at a time" in remedy) == (cards > 1)
    bench.recording.events.clear()
    earlier(bench, "run-1", RESTARTED, restarted=True)
    assert words in bench.verdict(RESET, NODE).remedy
