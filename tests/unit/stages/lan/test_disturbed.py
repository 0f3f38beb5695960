"""A low rate that others' traffic, or a host on which ours could not run, explains is not the rig's."""

from dataclasses import replace

import pytest

from rigproof.records.verdict import Outcome
from support.lan_run import PAIRS


def test_somebody_else_s_traffic_is_not_the_rig_s(run):
    run.slower(0.5, "n1+n2", traffic="tcp", direction="out")
    back = lambda one: (one.node, one.direction, one.traffic) == ("n2", "out", "tcp")  # noqa: E731
    run.counted(only=back, seconds=1.0, mb=58.0, card_mb=118.0)
    found = run.first()
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail.startswith("eth0 of n2 received 54.")
    assert "nothing else uses eth0 of n2" in found.remedy


def test_a_little_of_it_excuses_nothing(run):
    run.slower(0.5, "n1+n2", traffic="tcp", direction="out")
    run.counted(only=lambda one: one.direction == "out", seconds=1.0, mb=58.0, card_mb=66.0)
    assert run.first().outcome is Outcome.FAIL


def test_nor_does_it_touch_what_is_fast_enough(run):
    run.counted(seconds=1.0, mb=58.0, card_mb=500.0)
    assert run.first().outcome is Outcome.PASS


def test_losses_beside_somebody_else_s_traffic_are_not_the_cable_s(run):
    run.counted(only=lambda one: one.sent, resent=2000)
    run.counted(seconds=1.0, mb=58.0, card_mb=118.0)
    assert run.first().outcome is Outcome.NOT_MEASURED


@pytest.mark.parametrize(
    ("rate", "waiting", "outcome"),
    [(0.8, 0.3, Outcome.NOT_MEASURED), (0.8, 0.05, Outcome.FAIL), (0.3, 0.3, Outcome.FAIL)],
)
def test_a_busy_host_excuses_what_it_explains(run, rate, waiting, outcome):
    run.slower(rate, "n1+n2", traffic="tcp")
    run.counted(only=lambda one: one.node == "n2", waiting_share=waiting)
    found = run.first()
    assert found.outcome is outcome
    if outcome is Outcome.NOT_MEASURED:
        assert f"our process on n2 waited {100 * waiting:.0f} % of the time for a CPU" in found.detail


@pytest.mark.parametrize(("waiting", "outcome"), [(0.2, Outcome.NOT_MEASURED), (0.0, Outcome.FAIL)])
def test_one_stall_on_a_busy_host_is_not_the_link_s(run, waiting, outcome):
    """It may cost far more than the time waited, since TCP waits for its own clock afterwards."""
    where = {"traffic": "tcp", "direction": "out", "company": "together"}
    own = [
        one for one in run.recording.rounds
        if one.subject == "n1+n2" and where.items() <= one.labels.items() and one.phase == "measure"
    ]  # fmt: skip
    stalled = [replace(one, work=one.work * (0.01 if one in own[:3] else 1)) for one in own]
    run.exchange(own, *stalled)
    run.counted(waiting_share=waiting)
    assert run.first().outcome is outcome


@pytest.mark.parametrize(
    ("rate", "node", "outcome"),
    [(0.8, "n2", Outcome.NOT_MEASURED), (0.8, "n3", Outcome.FAIL), (0.1, "n2", Outcome.FAIL)],
)
def test_a_host_that_stands_still_excuses_what_that_explains(run, rate, node, outcome):
    run.slower(rate, "n1+n2", traffic="tcp")
    run.stands_still(node, 0.6)
    found = run.first()
    assert found.outcome is outcome, found.detail
    if outcome is Outcome.NOT_MEASURED:
        assert found.detail.startswith("n2 stood still for up to 0.5 s: tcp from n2 to n1 had ")


def test_a_host_that_stood_still_is_named_where_rounds_are_too_few(run):
    run.without(traffic="tcp", direction="out", company="alone")
    run.stands_still("n2", 0.6)
    found = run.first()
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail.startswith("n2 stood still for up to 0.4 s: too few rounds of tcp from n1 to n2")


def test_a_busy_host_does_not_excuse_losses(run):
    run.slower(0.8, "n1+n2", traffic="tcp")
    run.counted(waiting_share=0.3)
    run.counted(only=lambda one: one.sent, resent=2000)
    assert run.first().outcome is Outcome.FAIL
    assert "sent again: a bad cable, port or switch" in run.first().detail


def test_losses_of_one_direction_are_said_of_a_busy_host_that_is_slower_in_the_other_one(run):
    run.slower(0.5, "n1+n2", traffic="tcp", direction="back")
    run.counted(waiting_share=0.4)
    run.counted(only=lambda one: one.sent and one.direction == "out", resent=2000)
    run.counted(only=lambda one: one.sent and one.direction == "back", resent=1)  # as little as is usual
    found = run.first()
    assert found.outcome is Outcome.FAIL
    assert found.detail.startswith("tcp from n2 to n1; ")
    assert "% of TCP's segments were sent again: a bad cable, port or switch" in found.detail


def test_a_pair_that_waited_for_a_cpu_says_nothing_of_the_others(run):
    run.slower(0.5, *PAIRS, traffic="tcp")
    run.counted("n1+n3", waiting_share=0.5)
    assert "all to or from n2 is slow: its card, cable or port" in run.first().detail


def test_a_core_that_is_the_limit_warns(run):
    run.slower(0.7, "n1+n2", traffic="tcp", direction="out")
    run.counted(only=lambda one: one.node == "n1" and one.role == "sender", cpu_share=0.97)
    run.counted(only=lambda one: one.node == "n2" and one.role == "receiver", cpu_share=0.97)
    assert run.first().outcome is Outcome.WARN
    assert "was the limit (97 % busy), not the link" in run.first().detail
    run.counted(only=lambda one: one.sent, resent=2000)
    assert run.first().outcome is Outcome.FAIL


def test_few_losses_of_the_other_direction_do_not_hide_the_core_that_is_the_limit(run):
    run.slower(0.7, "n1+n2", traffic="tcp", direction="back")
    run.counted(only=lambda one: one.direction == "back", cpu_share=0.97)
    run.counted(only=lambda one: one.sent and one.direction == "out", resent=400)  # less than fails
    run.counted(only=lambda one: one.sent and one.direction == "back", resent=1)
    found = run.first()
    assert found.outcome is Outcome.WARN
    assert "of TCP's segments were sent again" in found.detail
    assert "was the limit (97 % busy), not the link" in found.detail


@pytest.mark.parametrize(("waiting", "said"), [(0.4, "our process on n2 waited 40 % of"), (0.05, "too few")])
def test_an_end_that_waited_for_a_cpu_is_named_where_rounds_are_too_few(run, waiting, said):
    run.without(traffic="tcp", direction="out", company="alone")
    run.counted(only=lambda one: one.node == "n2" and one.direction == "out", waiting_share=waiting)
    found = run.first()
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail.startswith(said)
    assert "too few rounds of tcp from n1 to n2" in found.detail
