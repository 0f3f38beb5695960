import pytest

from rigproof.records.verdict import Outcome

GPU, XID = "pc1/gpu0", "health.xid"


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        *((code, Outcome.FAIL) for code in (48, 64, 74, 79, 92, 95, 119, 120, 140)),
        *((code, Outcome.WARN) for code in (63, 94, 13, 31, 43, 45, 109)),
    ],
)
def test_each_xid_is_judged_by_the_profiles_lists(bench, code, outcome):
    bench.event("xid", GPU, "what the driver says", xid=code)
    verdict = bench.verdict(XID, GPU)
    assert verdict.outcome is outcome
    assert f"Xid {code}" in verdict.detail


def test_the_programs_own_error_is_called_that(bench):
    bench.event("xid", GPU, "MMU fault", xid=31)
    verdict = bench.verdict(XID, GPU)
    assert verdict.detail == "Xid 31 (the program's own error) at t=40 s: MMU fault"
    assert verdict.remedy.startswith("this is the program's own error")


def test_the_root_xid_is_named_before_those_that_follow_from_it(bench):
    bench.event("xid", GPU, "stopped", 40.0, xid=43)
    bench.event("xid", GPU, "MMU fault", 40.1, xid=31)
    bench.event("xid", GPU, "removed", 40.2, xid=45)
    verdict = bench.verdict(XID, GPU)
    assert [part.split(" ")[1] for part in verdict.detail.split("; ")] == ["31", "43", "45"]


def test_a_fatal_xid_is_named_first(bench):
    bench.event("xid", GPU, "MMU fault", 40.0, xid=31)
    bench.event("xid", GPU, "fell off the bus", 41.0, xid=79)
    verdict = bench.verdict(XID, GPU)
    assert (verdict.outcome, verdict.from_s) == (Outcome.FAIL, 41.0)
    assert verdict.detail.startswith("Xid 79 at t=41 s: fell off the bus; Xid 31")


def test_an_xid_of_another_gpu_does_not_count(bench):
    bench.event("xid", "pc2/gpu0", "fell off the bus", xid=79)
    assert bench.verdict(XID, GPU).outcome is Outcome.PASS


def test_a_driver_that_delivers_no_xids_does_not_apply(bench):
    bench.gpu(GPU, xid_supported=False)
    verdict = bench.verdict(XID, GPU)
    assert verdict.outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("kind", "subject"),
    [
        ("agent_died", "pc1"),
        ("node_lost", "pc1"),
        ("timeout", GPU),
        ("gpu_lost", GPU),
    ],
)
def test_silence_is_no_good_news_where_nobody_listened(bench, kind, subject):
    bench.event(kind, subject, "no answer", 50.0, stage=None)
    verdict = bench.verdict(XID, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail == "an Xid may have gone unheard from t=50 s on: no answer"


@pytest.mark.parametrize(("code", "outcome"), [(79, Outcome.FAIL), (63, Outcome.NOT_MEASURED)])
def test_what_was_heard_before_nobody_listened_can_fail_but_not_pass(bench, code, outcome):
    bench.event("xid", GPU, "what the driver says", 40.0, xid=code)
    bench.event("agent_died", "pc1", "no answer", 50.0)
    assert bench.verdict(XID, GPU).outcome is outcome


@pytest.mark.parametrize(("kind", "subject"), [("agent_died", "pc2"), ("gpu_lost", "pc2/gpu0")])
def test_what_befell_another_gpu_or_node_deafens_nobody_here(bench, kind, subject):
    bench.event(kind, subject, "no answer")
    assert bench.verdict(XID, GPU).outcome is Outcome.PASS


def test_a_listener_that_got_errors_may_have_missed_an_xid(bench):
    bench.event("nvml_error", "rig", "unknown error", 50.0, query="nvmlEventSetWait_v2", code=999)
    assert bench.verdict(XID, GPU).outcome is Outcome.NOT_MEASURED


def test_a_sensor_that_could_not_be_read_deafens_nobody(bench):
    bench.event("nvml_error", GPU, "unknown error", query="nvmlDeviceGetTemperature", code=999)
    assert bench.verdict(XID, GPU).outcome is Outcome.PASS


def test_a_worker_that_is_late_deafens_nobody(bench):
    bench.event("timeout", GPU, "sustained did not end within 170 s", worker="pc1/gpu0#0")
    assert bench.verdict(XID, GPU).outcome is Outcome.PASS


def test_an_xid_without_its_number_warns(bench):
    bench.event("xid", GPU, "unreadable", xid="79?")
    assert bench.verdict(XID, GPU).outcome is Outcome.WARN


def test_a_run_that_was_broken_off_without_xids_is_not_measured(bench):
    bench.stage("sustained", status="running", loaded_to_s=None, end_s=None)
    assert bench.verdict(XID, GPU).outcome is Outcome.NOT_MEASURED
