from dataclasses import replace

import pytest

from rigproof.records.verdict import Outcome

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
    assert verdict.remedy.startswith("look at CUDA_VISIBLE_DEVICES")


def test_a_worker_on_the_wrong_gpu_fails_on_both(bench):
    move(bench, "pc1/gpu0#1", f"GPU-{OTHER}")
    assert bench.verdict(SPREAD, GPU).detail == "pc1/gpu0#1 really runs on pc2/gpu0"
    assert bench.verdict(SPREAD, OTHER).detail == "pc1/gpu0#1 runs here too"
    assert bench.verdict(SPREAD, GPU).outcome is bench.verdict(SPREAD, OTHER).outcome is Outcome.FAIL


def test_two_workers_that_changed_places_fail(bench):
    move(bench, "pc1/gpu0#1", f"GPU-{OTHER}")
    move(bench, "pc2/gpu0#0", f"GPU-{GPU}")
    verdict = bench.verdict(SPREAD, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, 2)


def test_a_card_outside_the_profile_is_named_by_its_uuid(bench):
    move(bench, "pc1/gpu0#1", "GPU-spare")
    assert "GPU-spare, a card that is not in the profile" in bench.verdict(SPREAD, GPU).detail


def test_a_worker_that_did_not_come_up_fails_with_the_cause(bench):
    bench.recording.workers = [one for one in bench.recording.workers if one.worker != "pc1/gpu0#1"]
    bench.event("worker_failed", GPU, "CUDA error 101", 3.0)
    verdict = bench.verdict(SPREAD, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, 1)
    assert verdict.detail == "CUDA error 101 (at t=3 s)"
    assert verdict.remedy.startswith("see cluster.no_timeouts")


def test_a_replaced_worker_on_the_same_gpu_passes(bench):
    first = bench.recording.workers[0]
    bench.recording.add(replace(first, pid=999, generation=1))
    assert bench.verdict(SPREAD, GPU).outcome is Outcome.PASS


def test_a_replacement_on_another_gpu_fails(bench):
    first = bench.recording.workers[0]
    bench.recording.add(replace(first, pid=999, generation=1, uuid=f"GPU-{OTHER}"))
    assert bench.verdict(SPREAD, GPU).outcome is Outcome.FAIL


def test_without_any_worker_nothing_was_measured(bench):
    bench.recording.workers.clear()
    assert bench.verdict(SPREAD, GPU).outcome is Outcome.NOT_MEASURED


@pytest.mark.parametrize("kind", ["gpu_skipped", "gpu_taken"])
def test_a_gpu_that_was_left_out_on_purpose_is_not_measured(bench, kind):
    bench.drop("workers", GPU)
    bench.event(kind, GPU, "60 GiB of it are held by pid 4711")
    verdict = bench.verdict(SPREAD, GPU)
    assert (verdict.outcome, verdict.detail) == (Outcome.NOT_MEASURED, "60 GiB of it are held by pid 4711")
