from dataclasses import replace

import pytest

from rigproof.records.verdict import Outcome

GPU, XID = "pc1/gpu0", "health.xid"


def test_a_gpu_without_an_xid_passes_with_none(bench):
    verdict = bench.verdict(XID, GPU)
    assert (verdict.outcome, verdict.measured, verdict.limit) == (Outcome.PASS, 0, 0)


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        *((code, Outcome.FAIL) for code in (48, 64, 74, 79, 95, 119, 120, 140)),
        *((code, Outcome.FAIL) for code in (46, 54, 62, 109, 110, 136, 143, *range(144, 151), 155, 156, 158)),
        *((code, Outcome.FAIL) for code in (171, 172)),
        *((code, Outcome.WARN) for code in (92, 63, 94, 13, 31, 43, 45, 68, 69)),
    ],
)
def test_each_xid_is_judged_by_the_catalogue(bench, code, outcome):
    bench.event("xid", GPU, "what the driver says", xid=code)
    verdict = bench.verdict(XID, GPU)
    assert verdict.outcome is outcome
    assert f"Xid {code}" in verdict.detail


def test_the_programs_own_error_is_called_that(bench):
    bench.event("xid", GPU, "MMU fault", xid=31)
    verdict = bench.verdict(XID, GPU)
    assert verdict.detail == (
        "Xid 31 (usually a program's own error): GPU memory page fault: usually an address that "
        "the program does not own"
    )
    assert verdict.remedy == (
        "look for an illegal access in what ran on the card; if it recurs, suspect the card itself"
    )


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
    assert verdict.detail.startswith("Xid 79: the GPU fell off the bus; Xid 31")
    assert verdict.remedy.startswith("check the card's seat, riser, power plugs")
    assert verdict.limit_source == "hwprofiles/xids.toml"


@pytest.mark.parametrize(
    ("kind", "subject", "data", "outcome"),
    [
        ("agent_died", "pc2", {}, Outcome.PASS),
        ("gpu_lost", "pc2/gpu0", {}, Outcome.PASS),
        ("xid", "pc2/gpu0", {"xid": 79}, Outcome.PASS),
        ("xid", GPU, {"xid": "79?"}, Outcome.WARN),
        ("timeout", GPU, {"worker": f"{GPU}#0"}, Outcome.PASS),  # a worker that is late
        ("nvml_error", GPU, {"query": "nvmlDeviceGetTemperature", "code": 999}, Outcome.PASS),
        ("nvml_error", "rig", {"query": "nvmlEventSetWait_v2", "code": 999}, Outcome.NOT_MEASURED),
    ],
)
def test_what_befalls_others_or_another_query_deafens_nobody(bench, kind, subject, data, outcome):
    bench.event(kind, subject, "no answer", **data)
    assert bench.verdict(XID, GPU).outcome is outcome


def test_what_the_driver_wants_is_named_with_the_xids_that_only_warn(bench):
    bench.gpu(GPU, xid_supported=False)
    assert bench.verdict(XID, GPU).outcome is Outcome.NOT_APPLICABLE
    bench.event("xid", GPU, "changed", xid=154)
    bench.counters(GPU, "after", recovery_action=1)
    verdict = bench.verdict(XID, GPU)
    assert (verdict.outcome, verdict.severity) == (Outcome.FAIL, "reset")
    assert "(NVML recovery action 1); Xid 154" in verdict.detail


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
    assert bench.said(XID, GPU) == (
        Outcome.NOT_MEASURED,
        "Xids may have been missed from t=50 s on: no answer",
    )


@pytest.mark.parametrize(("code", "outcome"), [(79, Outcome.FAIL), (63, Outcome.NOT_MEASURED)])
def test_what_was_heard_before_nobody_listened_can_fail_but_not_pass(bench, code, outcome):
    bench.event("xid", GPU, "what the driver says", 40.0, xid=code)
    bench.event("agent_died", "pc1", "no answer", 50.0)
    assert bench.verdict(XID, GPU).outcome is outcome


def test_what_was_reported_before_the_load_has_to_be_reported_after_it(bench):
    bench.counters(GPU, "before", recovery_action=0)
    why = "the driver's recovery action was not read after the load"
    assert bench.said(XID, GPU) == (Outcome.NOT_MEASURED, why)


@pytest.mark.parametrize(
    ("fail", "outcome", "more"),
    [(None, Outcome.WARN, "; `limits.xid_fail = [999]` makes it fail"), ([999], Outcome.FAIL, "")],
)
def test_a_number_that_no_catalogue_has_is_looked_up(bench, fail, outcome, more):
    bench.limits(xid_fail=fail)
    bench.event("xid", GPU, "what the driver says", xid=999)
    verdict = bench.verdict(XID, GPU)
    assert (verdict.outcome, verdict.detail) == (outcome, "Xid 999: in no catalogue known to rigproof")
    assert verdict.remedy == f"look it up in NVIDIA's Xid documentation and in `sudo dmesg`{more}"


def test_the_card_is_not_cleared_by_a_programs_error_beside_another(bench):
    bench.event("xid", GPU, "MMU fault", 40.0, xid=31)
    bench.event("xid", GPU, "remapped", 41.0, xid=63)
    verdict = bench.verdict(XID, GPU)
    assert verdict.detail.startswith("Xid 31")
    assert verdict.remedy.startswith("reset the GPU so that the remap takes effect")


@pytest.mark.parametrize(
    ("limits", "code", "outcome"),
    [
        ({"xid_fail": [63]}, 63, Outcome.FAIL),
        ({"xid_fail": [999]}, 999, Outcome.FAIL),
        ({"xid_fail": [31]}, 31, Outcome.FAIL),
        ({"xid_fail": [63]}, 48, Outcome.FAIL),
        ({"xid_warn": [46]}, 46, Outcome.WARN),
        ({"xid_warn": [46]}, 48, Outcome.FAIL),
        ({"xid_fail": [46], "xid_warn": [46]}, 46, Outcome.FAIL),
    ],
)
def test_a_profile_overrides_single_numbers(bench, limits, code, outcome):
    bench.limits(**limits)
    bench.loaded.sources["limits.xid_fail"] = "lab.toml"
    bench.event("xid", GPU, "what the driver says", xid=code)
    verdict = bench.verdict(XID, GPU)
    named = "lab.toml" if code in limits.get("xid_fail", ()) else "hwprofiles/xids.toml"
    assert (verdict.outcome, verdict.limit_source) == (outcome, named)


@pytest.mark.parametrize(("before", "after"), [(0, 0), (None, None), (None, 0)])
def test_a_driver_that_wants_nothing_or_does_not_say_passes(bench, before, after):
    bench.counters(GPU, "before", recovery_action=before)
    bench.counters(GPU, "after", recovery_action=after)
    assert bench.verdict(XID, GPU).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("action", "wants", "step"),
    [
        (1, "a reset of the GPU", "reset it (`nvidia-smi -r`)"),
        (2, "a restart of the node", "restart the machine"),
        (3, "an end to all peer-to-peer traffic of the GPU", "end the work that uses several GPUs"),
        (4, "all work to end on the GPU, then its reset", "reset it (`nvidia-smi -r`)"),
        (5, "the IMEX domain of its NVLink fabric to be recovered", "IMEX service"),
        (6, "a reset of the GPU's PCIe bus", "power-cycle it"),
        (7, "a restart of the whole system", "restart the machine"),
        (8, "an action unknown to rigproof", "`nvidia-smi -q`"),
    ],
)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_what_the_driver_wants_fails_without_any_xid(bench, moment, action, wants, step):
    for one in ("before", "after"):
        bench.counters(GPU, one, recovery_action=action if one == moment else 0)
    verdict = bench.verdict(XID, GPU)
    assert (verdict.outcome, verdict.measured, verdict.limit) == (Outcome.FAIL, None, None)
    assert verdict.limit_source == "NVML's recovery action"
    assert verdict.detail == f"{moment} the load the driver wants {wants} (NVML recovery action {action})"
    assert step in verdict.remedy


@pytest.mark.parametrize(
    ("code", "severity"),
    [(48, "reset"), (79, "reseat"), (54, "reseat"), (31, "config"), (92, "warn"), (999, "isolate")],
)
def test_an_xid_asks_for_the_kind_of_action_that_the_catalogue_states(bench, code, severity):
    bench.event("xid", GPU, "what the driver says", xid=code)
    assert bench.verdict(XID, GPU).severity == severity
    bench.limits(xid_fail=[code])
    assert bench.verdict(XID, GPU).severity == severity


@pytest.mark.parametrize(
    ("of", "here", "there"),
    [
        ("pc1/gpu9", Outcome.NOT_MEASURED, Outcome.PASS),
        ("pc9/gpu0", Outcome.NOT_MEASURED, Outcome.NOT_MEASURED),
        ("pc1", Outcome.NOT_MEASURED, Outcome.PASS),
        ("rig", Outcome.NOT_MEASURED, Outcome.NOT_MEASURED),
    ],
)
def test_an_xid_of_a_card_that_is_not_there_is_not_ignored(bench, of, here, there):
    bench.event("xid", of, "Xid 79", xid=79)
    verdict = bench.verdict(XID, GPU)
    assert (verdict.outcome, bench.verdict(XID, "pc2/gpu0").outcome) == (here, there)
    assert verdict.detail == f"Xid 79: of {of}, which is no device of the rig or of the run"


def test_an_xid_of_a_card_that_another_profile_promised_is_known(bench):
    """Its run found the card, and the profile that judges now leaves it out."""
    bench.recording.gpus["pc1/gpu1"] = replace(bench.recording.gpus[GPU], subject="pc1/gpu1", uuid="GPU-2")
    bench.event("xid", "pc1/gpu1", "Xid 79", xid=79)
    assert bench.verdict(XID, GPU).outcome is Outcome.PASS


@pytest.mark.parametrize(("first", "second"), [(79, 48), (48, 79)])
def test_of_two_fatal_xids_the_first_is_named_and_dated(bench, first, second):
    for t_s, code in ((40.0, 31), (45.0, first), (50.0, second), (55.0, first)):
        bench.event("xid", GPU, f"Xid {code}", t_s, xid=code)
    verdict = bench.verdict(XID, GPU)
    assert (verdict.outcome, verdict.from_s) == (Outcome.FAIL, 45.0)
    assert verdict.detail.startswith(f"Xid {first}")
    assert verdict.detail.index("31") < verdict.detail.index(f"Xid {second}")
