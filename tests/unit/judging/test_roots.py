"""What a failure follows from is its next step; a failure that stands by itself keeps its own."""

from dataclasses import replace

import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.roots import ROOTS, with_roots
from rigproof.profiles.loading.load import over_defaults
from rigproof.records.verdict import FOLLOWS, Outcome, Verdict
from rigproof.report.content.order import of_outcome, reading_order
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import KINDS
from support.exchange import messages

GPU, NODE = "pc1/gpu0", "pc1"
LINK, CLOCK = "transfer.link", "clock.ratio"
RATE, SUCCESS, ACTIVE = "throughput.sustained", "memory.success_rate", "activity.gpu_active"
PEER = "transfer.peer"


def verdict_of(bench, criterion, subject=GPU):
    (found,) = [one for one in bench.verdicts() if (one.criterion, one.subject) == (criterion, subject)]
    return found


def slow(bench):
    """A sustained rate that fails."""
    bench.rounds(GPU, "sustained", work=1.0)
    return bench


def test_a_low_rate_alone_keeps_its_own_next_step(bench):
    verdict = verdict_of(slow(bench), RATE)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.remedy == CATALOGUE[RATE].remedy
    assert not verdict.follows


def test_a_low_rate_follows_from_the_clock_of_the_same_card(bench):
    bench.samples(GPU, sm_clock_mhz=600)
    verdict = verdict_of(slow(bench), RATE)
    assert verdict.remedy == f"{FOLLOWS}clock.ratio of {GPU}, see there first"
    assert verdict.follows


def test_the_clock_of_another_card_explains_nothing(bench):
    bench.samples("pc2/gpu0", sm_clock_mhz=600)
    assert not verdict_of(slow(bench), RATE).follows


def test_throttling_comes_before_the_clock_that_it_lowers(bench):
    bench.samples(GPU, sm_clock_mhz=600, clock_event_reasons=0x40)
    assert verdict_of(slow(bench), RATE).remedy == f"{FOLLOWS}thermal.throttle of {GPU}, see there first"


def test_a_low_clock_explains_no_lost_task(bench):
    bench.samples(GPU, sm_clock_mhz=600)
    bench.event("wrong_result", GPU, "a wrong sum", 40.0, "pc1/gpu0#0")
    bench.rounds(GPU, "sustained", verified=False)
    verdict = verdict_of(bench, SUCCESS)
    assert (verdict.outcome, verdict.remedy) == (Outcome.FAIL, CATALOGUE[SUCCESS].remedy)


def test_lost_work_follows_from_the_loss_that_is_reported_for_the_rig(bench):
    bench.lose("pc1/gpu0#0", "worker_died", "killed by signal 9", 41.0)
    bench.lose("pc1/gpu0#1", "worker_died", "killed by signal 9", 41.0)
    for criterion in (SUCCESS, ACTIVE):
        verdict = verdict_of(bench, criterion)
        assert (verdict.outcome, verdict.remedy) == (
            Outcome.FAIL,
            f"{FOLLOWS}cluster.no_timeouts of rig, see there first",
        )


def idle(bench, **fields):
    """A card that does little although its worker reports rounds: its clock and its link are down."""
    idling = {"utilization_percent": 5, "sm_clock_mhz": 210, "pcie_generation": 1, **fields}
    bench.samples(GPU, power_w=lambda one: 25 + one.t_s % 3, **idling)
    return slow(bench)


def test_link_clock_and_rate_of_an_idle_card_follow_from_its_idling(bench):
    verdict = verdict_of(idle(bench), ACTIVE)
    assert (verdict.outcome, verdict.remedy) == (Outcome.FAIL, CATALOGUE[ACTIVE].remedy)
    for criterion in (LINK, CLOCK, RATE):
        verdict = verdict_of(bench, criterion)
        assert (verdict.outcome, verdict.severity) == (Outcome.FAIL, None), criterion
        assert verdict.remedy == f"{FOLLOWS}{ACTIVE} of {GPU}, see there first", criterion


def test_the_clock_and_the_link_of_a_busy_card_stand_by_themselves_though_it_draws_little(bench):
    idle(bench)
    bench.samples(GPU, utilization_percent=99)
    assert verdict_of(bench, ACTIVE).outcome is Outcome.FAIL
    assert not any(verdict_of(bench, one).follows for one in (LINK, CLOCK))
    assert verdict_of(bench, RATE).remedy == f"{FOLLOWS}{CLOCK} of {GPU}, see there first"


def test_utilisation_that_was_not_read_excuses_neither(bench):
    idle(bench)
    bench.samples(GPU, utilization_percent=None)
    assert verdict_of(bench, ACTIVE).outcome is Outcome.FAIL
    assert not any(verdict_of(bench, one).follows for one in (LINK, CLOCK))


def test_an_idle_card_explains_no_missing_lanes(bench):
    verdict = verdict_of(idle(bench, pcie_width=8), LINK)
    assert verdict_of(bench, ACTIVE).outcome is Outcome.FAIL
    assert not verdict.follows
    assert "slot" in verdict.remedy


@pytest.mark.parametrize("busy", [(30, 42), (58, 70)])
def test_a_link_that_was_down_while_the_card_worked_stands_by_itself(bench, busy):
    """Although it was lower still while the card idled."""
    idle(bench)
    bench.samples(
        GPU,
        *busy,
        power_w=lambda one: 330 + one.t_s % 3,
        utilization_percent=99,
        sm_clock_mhz=1700,
        pcie_generation=2,
    )
    verdict = verdict_of(bench, LINK)
    assert verdict_of(bench, ACTIVE).outcome is Outcome.FAIL
    assert (verdict.outcome, verdict.follows) == (Outcome.FAIL, False)
    assert "Gen2 x16" in verdict.detail


def test_a_wrong_result_explains_no_link(bench):
    idle(bench)
    bench.event("wrong_result", GPU, "a wrong sum", 40.0, "pc1/gpu0#0")
    assert not any(verdict_of(bench, one).follows for one in (LINK, CLOCK))


def test_the_idling_of_another_card_explains_nothing(bench):
    idle(bench)
    bench.samples("pc2/gpu0", pcie_generation=1)
    assert not verdict_of(bench, LINK, "pc2/gpu0").follows


def test_what_an_idle_card_did_not_do_follows_and_what_its_sensors_did_not_show_does_not(bench):
    idle(bench)
    bench.samples(GPU, core_temperature_c=None)
    bench.recording.rounds = [
        one for one in bench.recording.rounds if (one.subject, one.stage) != (GPU, "gemm")
    ]
    found = {one.criterion: one for one in bench.verdicts() if one.subject == GPU}
    unmeasured = {name: one.follows for name, one in found.items() if one.outcome is Outcome.NOT_MEASURED}
    assert unmeasured["throughput.gemm_bf16"], unmeasured
    assert not unmeasured["thermal.core_temperature"]


def test_what_a_lost_node_kept_from_measuring_names_its_loss(bench):
    bench.lose("pc2/gpu0#0", "worker_died", "killed by signal 9", 41.0)
    bench.event("node_lost", "pc2", "no heartbeat", 41.0)
    lost = [one for one in bench.verdicts() if one.outcome is Outcome.NOT_MEASURED]
    assert {one.subject for one in lost if one.follows} == {"pc2/gpu0"}
    assert {one.remedy for one in lost if one.follows} == {
        f"{FOLLOWS}cluster.nodes_present of pc2, see there first"
    }
    assert all(one.detail for one in lost)  # each still has its own reason


def test_what_was_not_measured_without_a_loss_keeps_its_reason_alone(bench):
    bench.lose("pc1/gpu0#0", "worker_died", "killed by signal 9", 41.0)
    bench.event("node_lost", "pc2", "no heartbeat", 41.0)
    lost = [one for one in bench.verdicts() if one.outcome is Outcome.NOT_MEASURED]
    assert {one.remedy for one in lost if one.subject == GPU} == {""}


def test_a_loss_of_another_card_explains_nothing(bench):
    bench.lose("pc2/gpu0#0", "worker_died", "killed by signal 9", 41.0)
    bench.event("oom", GPU, "12 GiB wanted", 42.0, "pc1/gpu0#0")
    assert verdict_of(bench, SUCCESS).remedy == f"{FOLLOWS}memory.no_oom of {GPU}, see there first"
    bench.recording.events = [one for one in bench.recording.events if one.kind != "oom"]
    assert not verdict_of(slow(bench), RATE).follows


def test_all_that_a_restart_did_follows_from_it(bench):
    bench.event("host_reset", NODE, "pc1 restarted", 41.0, stage=None, restarted=True)
    bench.event("node_lost", NODE, "the node is gone: no heartbeat", 41.0, stage=None)
    bench.lose("pc1/gpu0#0", "worker_failed", "its node is gone", 41.0)
    bench.lose("pc1/gpu0#1", "worker_failed", "its node is gone", 41.0)
    failed = of_outcome(bench.verdicts(), Outcome.FAIL)
    assert (failed[0].criterion, failed[0].follows) == ("health.reset", False)
    assert len(failed) >= 4
    combined = f"{FOLLOWS}throughput.sustained of {GPU}"
    assert {one.remedy.partition(",")[0] for one in failed[1:]} == {
        f"{FOLLOWS}health.reset of {NODE}", combined
    }  # fmt: skip


def test_a_low_sum_follows_from_the_rate_that_is_low(bench):
    verdict = verdict_of(slow(bench), "throughput.combined", "rig")
    assert verdict.remedy == f"{FOLLOWS}throughput.sustained of {GPU}, see there first"


def test_a_next_step_of_its_own_stays(bench):
    bench.samples(GPU, sm_clock_mhz=600)
    bench.event("wrong_result", GPU, "a wrong sum", 40.0, "pc1/gpu0#0")
    assert verdict_of(bench, ACTIVE).remedy.startswith("do not train on this card")


@pytest.fixture
def together(monkeypatch):
    """A criterion of pairs whose figure is a rate."""
    monkeypatch.setattr(
        "rigproof.judging.roots.CATALOGUE", {**CATALOGUE, PEER: replace(messages, name=PEER, rate=True)}
    )
    return Verdict(PEER, "pc1/gpu0-pc2/gpu0", Outcome.FAIL, remedy=messages.remedy)


@pytest.mark.parametrize("subject", ["pc1/gpu0", "pc2/gpu0"])
def test_a_slow_pair_follows_from_the_clock_of_either_card(bench, together, subject):
    clock = Verdict("clock.ratio", subject, Outcome.FAIL)
    _, found = with_roots([replace(clock, remedy="look"), together], Evidence(bench.recording, bench.loaded))
    assert found.remedy == f"{FOLLOWS}clock.ratio of {subject}, see there first"


def test_what_a_pair_lost_follows_from_a_lost_worker_and_from_no_clock(bench, monkeypatch):
    monkeypatch.setattr("rigproof.judging.roots.CATALOGUE", {**CATALOGUE, PEER: replace(messages, name=PEER)})
    pair = Verdict(PEER, "pc1/gpu0-pc2/gpu0", Outcome.FAIL, remedy=messages.remedy)
    bench.lose("pc2/gpu0#0", "worker_died", "killed by signal 9", 41.0)
    clock = Verdict("clock.ratio", GPU, Outcome.FAIL, remedy="look")
    lost = Verdict("cluster.no_timeouts", "rig", Outcome.FAIL, remedy="look")
    *_, found = with_roots([clock, lost, pair], Evidence(bench.recording, bench.loaded))
    assert found.remedy == f"{FOLLOWS}cluster.no_timeouts of rig, see there first"


@pytest.mark.parametrize("slow", [("pc1+pc2",), ("pc1+pc2", "pc2+pc3", "pc1+pc3")])
def test_a_slow_lan_does_not_follow_from_itself(slow):
    """It once did where every pair was slow, so that no sentence said what to do."""
    nodes = [
        {"name": name, "address": name, "cpus": 16, "gpus": [{"sku": "rtx-3090"}]}
        for name in ("pc1", "pc2", "pc3")
    ]
    loaded = over_defaults({"name": "lab", "nodes": nodes}, "lab.toml", KINDS)
    evidence = Evidence(simulated_recording(loaded, "quick"), loaded)
    lan = CATALOGUE["lan.bandwidth"]
    found = [Verdict(lan.name, pair, Outcome.FAIL, remedy=lan.remedy) for pair in slow]
    assert with_roots(found, evidence) == found


def test_no_outcome_changes(bench):
    bench.samples(GPU, sm_clock_mhz=600)
    assert verdict_of(slow(bench), RATE).outcome is Outcome.FAIL
    assert verdict_of(bench, RATE, "pc2/gpu0").outcome is Outcome.PASS


@pytest.mark.parametrize("root", ROOTS, ids=lambda root: root.criterion)
def test_every_root_is_a_criterion(root):
    assert root.criterion in CATALOGUE


def test_what_follows_is_read_last_of_the_failures():
    later = Verdict("a.x", GPU, Outcome.FAIL, remedy=f"{FOLLOWS}b.y of {GPU}, see there first")
    first = Verdict("b.y", GPU, Outcome.FAIL, remedy="mend it")
    passed = Verdict("c.z", GPU, Outcome.PASS)
    assert of_outcome([later, passed, first], Outcome.FAIL) == [first, later]
    assert reading_order([passed, later, first]) == [first, later, passed]
