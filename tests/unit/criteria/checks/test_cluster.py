import pytest

from rigproof.records.verdict import Outcome

GPU = "pc1/gpu0"
LOOK_THERE = "look in `sudo dmesg` of pc1 for an Xid, a crash or a kill at that time, then run again"
NODES, TIMEOUTS = "cluster.nodes_present", "cluster.no_timeouts"


def test_a_node_that_answered_is_present(bench):
    assert bench.said(NODES, "pc1") == (Outcome.PASS, "answered from 127.0.0.1")


@pytest.mark.parametrize("kind", ["node_missing", "node_lost"])
def test_a_node_that_is_missing_or_lost_fails(bench, kind):
    bench.event(kind, "pc2", "pc2 is not there")
    if kind == "node_missing":
        assert bench.verdict(NODES, "pc2").outcome is Outcome.NOT_MEASURED  # it answered
        del bench.recording.nodes["pc2"]
    verdict = bench.verdict(NODES, "pc2")
    assert (verdict.outcome, verdict.detail) == (Outcome.FAIL, "pc2 is not there")
    assert bench.verdict(NODES, "pc1").outcome is Outcome.PASS


@pytest.mark.parametrize("kind", ["node_missing", "node_lost", "gpu_missing", "nvml_error", "host_reset"])
@pytest.mark.parametrize(("subject", "nodes"), [("pc9", 2), ("pc9/gpu0", 2), ("pc1/gpu7", 1), ("", 2)])
def test_what_happened_to_something_that_is_not_there_is_not_ignored(bench, kind, subject, nodes):
    bench.event(kind, subject, "so it is told")
    found = [bench.verdict(NODES, one) for one in ("pc1", "pc2")]
    assert [one.outcome for one in found].count(Outcome.NOT_MEASURED) == nodes
    told = f"{kind}, so it is told: of {subject or 'nobody'}, which is no device of the rig or of the run"
    assert found[0].detail == told


def test_who_was_missing_in_the_runs_own_profile_is_known_to_another_one(bench):
    bench.event("gpu_missing", "pc2/gpu0", "it is not there")
    bench.judged_by(nodes=[{"name": "pc1", "gpus": [{"sku": "h200"}]}])
    assert bench.verdict(NODES, "pc1").outcome is Outcome.PASS


@pytest.mark.parametrize("others", [True, False])
def test_a_node_whose_agent_never_started_is_not_measured_and_its_cause_is_named(bench, others):
    """It is in the cluster: nothing was measured of it, and no machine is off."""
    bench.event("agent_died", "pc2", "no module named rigproof", 3.0, disturbed="install it there")
    del bench.recording.nodes["pc2"]
    if not others:
        bench.recording.nodes.clear()
    verdict = bench.verdict(NODES, "pc2")
    assert (verdict.outcome, verdict.detail) == (Outcome.NOT_MEASURED, "no module named rigproof")
    assert verdict.remedy == "install it there"


def test_a_node_that_was_lost_is_dated_and_one_that_never_came_is_not(bench):
    bench.event("agent_died", "pc2", "no answer", 3.0, disturbed="see its logs")
    bench.event("node_lost", "pc2", "no heartbeat", 47.0)
    del bench.recording.nodes["pc2"]
    verdict = bench.verdict(NODES, "pc2")
    assert (verdict.outcome, verdict.from_s) == (Outcome.FAIL, 47.0)
    bench.event("node_missing", "pc1", "nobody answers")
    assert bench.verdict(NODES, "pc1").from_s is None


@pytest.mark.parametrize("kind", ["worker_died", "worker_failed", "worker_hung", "agent_died"])
def test_a_loss_that_is_not_the_rigs_doing_is_not_measured_and_another_beside_it_fails(bench, kind):
    bench.event(kind, GPU, "Ray's memory monitor killed it", 40.0, disturbed="free some")
    verdict = bench.verdict(TIMEOUTS, "rig")
    assert (verdict.outcome, verdict.remedy, verdict.from_s) == (Outcome.NOT_MEASURED, "free some", 40.0)
    assert verdict.detail == "pc1/gpu0: Ray's memory monitor killed it"
    bench.event("worker_hung", "pc2/gpu0", "no finished round for 30 s", 50.0)
    verdict = bench.verdict(TIMEOUTS, "rig")
    assert (verdict.outcome, verdict.measured, verdict.from_s) == (Outcome.FAIL, 1, 50.0)


def test_a_node_of_another_profile_than_the_runs_was_never_looked_for(bench):
    """As where a run of `auto` is judged by a profile with other names: no network cable is at fault."""
    del bench.recording.nodes["pc2"]
    bench.recording.gpus.clear()
    bench.recording.events.clear()
    assert bench.said(NODES, "pc2") == (
        Outcome.NOT_MEASURED,
        "this run did not look for pc2: it was of another rig and found pc1; judge it by a profile with "
        "these names (`rigproof judge` without --hwprofile takes its own), or run again with this profile",
    )


@pytest.mark.parametrize("kind", ["timeout", "worker_hung", "worker_died", "worker_failed", "agent_died"])
def test_every_loss_fails_is_counted_and_the_first_one_is_named(bench, kind):
    assert (bench.verdict(TIMEOUTS, "rig").measured, bench.verdict(TIMEOUTS, "rig").limit) == (0, 0)
    bench.event(kind, GPU, "gone", 60.0)
    assert bench.said(TIMEOUTS, "rig") == (Outcome.FAIL, "pc1/gpu0: gone")
    bench.event("timeout", "pc2/gpu0", "no answer", 50.0, worker="pc2/gpu0#0")
    verdict = bench.verdict(TIMEOUTS, "rig")
    assert (verdict.measured, verdict.limit, verdict.from_s) == (2, 0, 50.0)
    assert verdict.detail == "pc2/gpu0#0: no answer (and 1 more)"


def test_a_deadline_of_the_profile_is_named_in_the_remedy(bench):
    bench.event("worker_hung", GPU, "did not come up in 60 s", 40.0, setting="timeouts.start_s")
    assert "raise timeouts.start_s" in bench.verdict(TIMEOUTS, "rig").remedy
    bench.event("worker_died", GPU, "killed", 39.0)
    assert "timeouts.start_s" not in bench.verdict(TIMEOUTS, "rig").remedy


def test_an_nvml_query_that_hangs_fails_and_names_the_gpu(bench):
    message = "NVML has not answered the query “sample” for 30 s"
    bench.event("timeout", GPU, message, 69.0, stage=None, limit_s=30, query="sample")
    verdict = bench.verdict(TIMEOUTS, "rig")
    assert (verdict.outcome, verdict.from_s) == (Outcome.FAIL, 69.0)
    assert verdict.detail == f"pc1/gpu0: {message}"
    assert verdict.remedy.startswith("the driver hangs: look for its Xid in `sudo dmesg`")


@pytest.mark.parametrize(
    ("kind", "subject", "data", "step"),
    [
        *(
            (kind, GPU, {"worker": "pc1/gpu0#0"}, LOOK_THERE)
            for kind in ("worker_died", "worker_hung", "worker_failed")
        ),
        ("agent_died", "pc1", {}, "look in `sudo dmesg` of pc1 for what ended its agent"),
        ("timeout", "rig", {"pids": [17]}, "the driver hangs: look for its Xid"),
        ("timeout", "pc1", {}, "start with the first loss"),
        ("agent_died", "pc1", {"setting": "timeouts.start_s"}, "end the other programs on that host"),
    ],
)
def test_the_next_step_is_that_of_what_was_lost(bench, kind, subject, data, step):
    bench.event(kind, subject, "gone", 40.0, **data)
    remedy = bench.verdict(TIMEOUTS, "rig").remedy
    assert remedy.startswith(step)
    assert "in the report" not in remedy  # which has no lines of any process


def test_a_loss_in_a_stage_that_was_broken_off_fails(bench):
    bench.stage("sustained", status="interrupted")
    assert bench.verdict(TIMEOUTS, "rig").outcome is Outcome.NOT_MEASURED
    bench.event("timeout", GPU, "no answer")
    assert bench.verdict(TIMEOUTS, "rig").outcome is Outcome.FAIL


def test_a_run_or_stage_without_workers_waited_for_nothing(bench):
    nothing = (Outcome.NOT_MEASURED, "no stage had a worker to wait for")
    bench.stage("gemm", workers=(), status="failed")
    assert bench.verdict(TIMEOUTS, "rig").outcome is Outcome.PASS  # by the other stages
    bench.stage("training", status="interrupted")
    assert bench.said(TIMEOUTS, "rig") == (Outcome.NOT_MEASURED, "the training stage was aborted")
    for name in bench.recording.stages:
        bench.stage(name, workers=(), status="failed")
    assert bench.said(TIMEOUTS, "rig") == nothing
    bench.recording.stages.clear()
    assert bench.said(TIMEOUTS, "rig") == nothing


# Where it is not as simple


def test_a_node_without_an_answer_is_named(bench):
    del bench.recording.nodes["pc2"]
    assert bench.verdict(NODES, "pc2").detail == "pc2 did not answer"
    bench.recording.nodes.clear()
    assert bench.verdict(NODES, "pc2").detail == "the run ended before its nodes were looked for"


@pytest.mark.parametrize("kind", ["node_missing", "gpu_missing"])
def test_where_anybody_was_missed_everybody_was_looked_for(bench, kind):
    bench.recording.nodes.clear()
    bench.event(kind, "pc1", "not there")
    assert bench.verdict(NODES, "pc2").outcome is Outcome.FAIL


def test_a_run_that_was_broken_off_before_its_first_stage_may_not_have_looked_for_all(bench):
    del bench.recording.nodes["pc2"]
    bench.event("interrupted", "rig", "Ctrl-C")
    assert bench.verdict(NODES, "pc2").outcome is Outcome.FAIL
    bench.recording.stages.clear()
    assert bench.verdict(NODES, "pc2").outcome is Outcome.NOT_MEASURED
