from dataclasses import replace

import pytest

from rigproof.criteria.checks.distribution import FAULTS
from rigproof.records.verdict import Outcome
from support.rig_profile import RIG

GPU, OTHER, SPREAD = "pc1/gpu0", "pc2/gpu0", "distribution.workers_spread"


def move(bench, worker, uuid):
    bench.recording.workers = [
        replace(one, uuid=uuid) if one.worker == worker else one for one in bench.recording.workers
    ]


def test_all_work_on_one_gpu_names_where_it_really_runs(bench):
    bench.recording.workers = [replace(one, uuid=f"GPU-{OTHER}") for one in bench.recording.workers]
    verdict = bench.verdict(SPREAD, GPU)
    assert (verdict.outcome, verdict.measured, verdict.limit) == (Outcome.FAIL, 0, 2)
    assert verdict.detail == "all work runs on one GPU, pc2/gpu0"
    assert verdict.remedy.startswith("check CUDA_VISIBLE_DEVICES")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_worker_on_the_wrong_gpu_fails_on_both_and_is_named_once(bench, processes):
    move(bench, "pc1/gpu0#1", f"GPU-{OTHER}")
    stray = next(one for one in bench.recording.workers if one.worker == "pc1/gpu0#1")
    if processes == 2:
        bench.recording.add(replace(stray, pid=999, generation=1))
    verdict = bench.verdict(SPREAD, OTHER)
    assert (verdict.outcome, verdict.measured, verdict.limit) == (Outcome.FAIL, 2, 1)
    assert verdict.detail == "pc1/gpu0#1 also runs here"
    assert bench.said(SPREAD, GPU) == (Outcome.FAIL, "pc1/gpu0#1 really runs on pc2/gpu0")


def test_two_workers_that_changed_places_fail(bench):
    move(bench, "pc1/gpu0#1", f"GPU-{OTHER}")
    move(bench, "pc2/gpu0#0", f"GPU-{GPU}")
    verdict = bench.verdict(SPREAD, GPU)
    assert (verdict.outcome, verdict.measured, verdict.limit) == (
        Outcome.FAIL,
        None,
        None,
    )  # 2 of 2, but not those
    assert "pc1/gpu0#1 really runs on pc2/gpu0" in verdict.detail


def test_a_worker_that_did_not_come_up_fails_with_the_cause(bench):
    bench.recording.workers = [one for one in bench.recording.workers if one.worker != "pc1/gpu0#1"]
    bench.event("worker_failed", GPU, "CUDA error 101", 3.0)
    verdict = bench.verdict(SPREAD, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, 1)
    assert verdict.detail == "CUDA error 101 (at t=3 s)"
    assert verdict.remedy.startswith("see cluster.no_timeouts")


@pytest.mark.parametrize(("subject", "expected"), [(GPU, Outcome.PASS), (OTHER, Outcome.FAIL)])
def test_a_replacement_works_on_the_same_gpu(bench, subject, expected):
    first = bench.recording.workers[0]
    bench.event("worker_died", GPU, "it is gone", worker=first.worker)
    bench.recording.add(replace(first, pid=999, generation=1, uuid=f"GPU-{subject}"))
    assert bench.verdict(SPREAD, GPU).outcome is expected


def test_without_any_worker_nothing_was_measured(bench):
    bench.recording.workers.clear()
    assert bench.said(SPREAD, GPU) == (Outcome.NOT_MEASURED, "no worker started on any device")


@pytest.mark.parametrize("kind", ["gpu_skipped", "gpu_taken"])
def test_a_gpu_that_was_left_out_on_purpose_is_not_measured(bench, kind):
    bench.drop("workers", GPU)
    bench.event(kind, GPU, "60 GiB of it are held by pid 4711")
    assert bench.said(SPREAD, GPU) == (Outcome.NOT_MEASURED, "60 GiB of it are held by pid 4711")


def test_a_device_on_which_nobody_came_up_fails_where_others_did(bench):
    verdict = bench.verdict(SPREAD, GPU)
    assert (verdict.outcome, verdict.measured, verdict.limit, verdict.detail) == (Outcome.PASS, 2, 2, "")
    bench.drop("workers", GPU)
    verdict = bench.verdict(SPREAD, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, 0)
    assert verdict.detail == "some planned workers did not start"


def test_a_device_whose_workers_never_started_is_not_measured(bench):
    bench.drop("workers", GPU)
    lost = {"worker": f"{GPU}#0", "stage": None, "disturbed": "see its logs"}
    bench.event("worker_failed", GPU, "the process is gone", **lost)
    verdict = bench.verdict(SPREAD, GPU)
    assert (verdict.outcome, verdict.remedy) == (Outcome.NOT_MEASURED, "see its logs")
    assert verdict.detail == f"{GPU}#0: the process is gone"


def test_everybody_that_strayed_is_named(bench):
    move(bench, "pc1/gpu0#0", "GPU-spare")
    move(bench, "pc2/gpu0#0", f"GPU-{GPU}")
    assert bench.verdict(SPREAD, GPU).detail == (
        "pc1/gpu0#0 really runs on GPU-spare, a card that is not in the profile; pc2/gpu0#0 also runs here"
    )


def test_of_a_rig_of_one_card_nobody_says_that_all_work_runs_on_one(bench):
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "h200", "workers": 2}]}])
    del bench.recording.gpus[OTHER]
    bench.drop("workers", OTHER)
    bench.recording.workers = [replace(one, uuid="GPU-spare") for one in bench.recording.workers]
    assert bench.verdict(SPREAD, GPU).detail.startswith("pc1/gpu0#0 really runs on GPU-spare")


def test_on_a_cpu_nobody_is_a_stranger(bench):
    card = {"sku": "unknown", "device": "cpu", "workers": 1, "vram_gib_per_worker": 4}
    cpu = {"name": "pc1", "gpus": [card]}
    bench.rig(nodes=[cpu, {"name": "pc2", "gpus": [{"sku": "h200", "workers": 1}]}])
    first, _, other = bench.recording.workers
    bench.recording.gpus["pc1/cpu0"] = replace(bench.recording.gpus[GPU], subject="pc1/cpu0", uuid="CPU-pc1")
    own = replace(first, subject="pc1/cpu0", worker="pc1/cpu0#0", uuid="CPU-pc1", device="cpu")
    bench.recording.workers = [own, replace(other, uuid="CPU-pc1")]
    assert bench.verdict(SPREAD, "pc1/cpu0").outcome is Outcome.PASS


def test_a_worker_that_the_run_planned_is_missed_by_any_profile(bench):
    nodes = [node | {"gpus": [gpu | {"workers": 1} for gpu in node["gpus"]]} for node in RIG["nodes"]]
    bench.judged_by(nodes=nodes)
    bench.recording.workers = [one for one in bench.recording.workers if one.worker != "pc1/gpu0#1"]
    verdict = bench.verdict(SPREAD, GPU)
    assert (verdict.outcome, verdict.measured, verdict.limit) == (Outcome.FAIL, 1, 2)


def test_to_land_on_another_gpu_takes_two(bench):
    (fault,) = FAULTS
    assert fault.lacks(bench.loaded, bench.loaded.devices()[0]) == ""
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "h200", "workers": 2}]}])
    assert fault.lacks(bench.loaded, bench.loaded.devices()[0]) == "the rig has one GPU only"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"device": "cpu"}, "reports the UUID of this device, and that it runs on pc1 (cpu)"),
        ({"node": "other"}, "reports the UUID of this device, and that it runs on other (cuda)"),
        ({"generation": 1, "t_s": 80.0}, "was replaced at t=80 s, and no event tells why"),
    ],
)
def test_a_worker_that_contradicts_its_uuid_or_the_events_is_no_measurement(bench, changes, said):
    bench.recording.workers = [
        replace(one, **changes) if one.worker == "pc1/gpu0#1" else one for one in bench.recording.workers
    ]
    verdict = bench.verdict(SPREAD, GPU)
    assert (verdict.outcome, verdict.detail) == (Outcome.NOT_MEASURED, f"pc1/gpu0#1 {said}")
    assert bench.verdict(SPREAD, OTHER).outcome is Outcome.PASS
