"""What counts as a task, and as one that ended well."""

import pytest

from rigproof.records.verdict import Outcome

GPU, RATE = "pc1/gpu0", "memory.success_rate"
FIRST, SECOND = "pc1/gpu0#0", "pc1/gpu0#1"
LOSSES = ["worker_failed", "worker_hung", "worker_died"]


@pytest.fixture
def bench(bench):
    """With the gemm and the sustained stage alone, so that few tasks are to be counted."""
    bench.only("gemm", "sustained")
    return bench


def success(bench):
    verdict = bench.verdict(RATE, GPU)
    return verdict.outcome, verdict.measured, verdict.detail.partition(",")[0]


def test_each_planned_worker_and_each_allocation_of_a_stage_is_a_task(bench):
    # The first worker in the gemm stage, both in the sustained one, and an allocation each.
    assert success(bench) == (Outcome.PASS, 100, "0 of 5 tasks and allocations failed")
    detail = bench.verdict(RATE, GPU).detail
    assert detail.endswith("0 of 216 rounds were not verified")


@pytest.mark.parametrize("kind", LOSSES)
def test_a_worker_that_was_lost_failed_its_task_however_many_rounds_it_did(bench, kind):
    bench.event(kind, GPU, "it broke", 69.0, SECOND)
    assert success(bench) == (Outcome.FAIL, 80, "1 of 5 tasks and allocations failed")
    verdict = bench.verdict(RATE, GPU)
    assert verdict.detail.endswith("first: it broke")
    assert verdict.from_s == 69.0


def test_a_task_fails_once_however_often_its_worker_was_lost(bench):
    for t_s in (40.0, 50.0):
        bench.event("worker_died", GPU, "it broke", t_s, SECOND)
    assert success(bench)[1] == 80


def test_a_task_that_did_not_begin_failed(bench):
    bench.stage("sustained", workers=(FIRST, "pc2/gpu0#0"), status="partial")
    bench.event("worker_failed", GPU, "CUDA error 101", 3.0, SECOND, None)
    assert success(bench)[:2] == (Outcome.FAIL, 80)
    assert bench.verdict(RATE, GPU).detail.endswith(f"{SECOND} did not begin: CUDA error 101 (at t=3 s)")


def test_a_task_without_a_round_failed(bench):
    bench.recording.rounds = [one for one in bench.recording.rounds if one.worker != SECOND]
    assert bench.verdict(RATE, GPU).outcome is Outcome.FAIL
    assert bench.verdict(RATE, GPU).detail.endswith(f"{SECOND} finished no round of sustained")


def on_the_cpu(bench, worker):
    """The worker's sustained rounds, done by the CPU."""
    bench.rounds(
        GPU,
        "sustained",
        device=lambda one: "cpu" if one.worker == worker else None,
        part=lambda one: "cpu" if one.worker == worker else "",
    )


def test_a_task_that_the_cpu_did_is_not_the_gpu_s(bench):
    on_the_cpu(bench, SECOND)
    assert success(bench)[:2] == (Outcome.FAIL, 80)
    detail = bench.verdict(RATE, GPU).detail
    assert "88 rounds by the CPU" in detail
    assert detail.endswith(f"{SECOND} finished no round of sustained but on the CPU")


def test_verified_rounds_of_the_cpu_do_not_dilute_unverified_ones_of_the_gpu(bench):
    bench.rounds(GPU, "sustained", verified=lambda one: one.worker == SECOND)
    on_the_cpu(bench, SECOND)
    gpu = [one for one in bench.recording.rounds if one.subject == GPU and one.device is None]
    verified = sum(one.verified for one in gpu)
    assert bench.verdict(RATE, GPU).measured == pytest.approx(100 * verified / len(gpu))


@pytest.mark.parametrize("criterion", ["activity.gpu_active", "throughput.sustained", "throughput.stability"])
def test_work_that_the_cpu_did_never_counts_as_the_gpu_s(bench, criterion):
    assert bench.verdict(criterion, GPU).outcome is Outcome.PASS
    bench.rounds(GPU, "sustained", device="cpu", part="cpu")
    assert bench.verdict(criterion, GPU).outcome in (Outcome.FAIL, Outcome.NOT_MEASURED)
    assert bench.verdict("throughput.combined", "rig").outcome is Outcome.NOT_MEASURED


def test_nothing_but_the_first_worker_of_a_device_has_a_task_in_the_gemm_stage(bench):
    bench.event("worker_died", GPU, "it broke", 10.0, SECOND, "gemm")
    assert success(bench)[1] == 100
    bench.event("worker_died", GPU, "it broke", 10.0, FIRST, "gemm")
    assert success(bench)[1] == 80


def test_memory_that_did_not_suffice_is_a_failed_allocation_even_where_the_work_went_on(bench):
    bench.event("oom", GPU, "12 GiB wanted", 28.0, SECOND, recovered=True)
    assert success(bench) == (
        Outcome.FAIL,
        pytest.approx(100 * 5 / 6),
        "1 of 6 tasks and allocations failed",
    )


@pytest.mark.parametrize(("ooms", "expected"), [(1, Outcome.PASS), (2, Outcome.FAIL)])
def test_ninety_five_percent_of_tasks_must_end_well(bench, ooms, expected):
    for _ in range(14):
        bench.event("allocation", GPU, "all of it", 29.0, FIRST)
    for _ in range(ooms):
        bench.event("oom", GPU, "12 GiB wanted", 28.0, FIRST, recovered=True)
    assert success(bench)[0] is expected


def test_two_deaths_and_an_oom_are_not_hidden_by_hundreds_of_rounds(bench):
    bench.event("worker_died", GPU, "killed", 40.0, FIRST)
    bench.event("worker_died", GPU, "killed", 41.0, SECOND)
    bench.event("oom", GPU, "12 GiB wanted", 39.0, FIRST)
    assert success(bench)[:2] == (Outcome.FAIL, 50)


@pytest.mark.parametrize(("unverified", "expected"), [(10, Outcome.PASS), (11, Outcome.FAIL)])
def test_ninety_five_percent_of_rounds_must_be_verified(bench, unverified, expected):
    mine = [number for number, one in enumerate(bench.recording.rounds) if one.subject == GPU]
    for number in mine[-unverified:]:
        one = bench.round(number, verified=False)
        bench.event("wrong_result", GPU, "changed", one.t_s, one.worker, one.stage)
    verdict = bench.verdict(RATE, GPU)
    assert f"{unverified} of 216 rounds were not verified" in verdict.detail
    assert (verdict.outcome, verdict.measured) == (expected, pytest.approx(100 * (1 - unverified / 216)))


def unverified(bench, count, worker=SECOND, stage="sustained"):
    """The last measured rounds of a worker, as if nobody had found them right."""
    mine = [n for n, one in enumerate(bench.recording.rounds) if (one.worker, one.stage) == (worker, stage)]
    return [bench.round(number, verified=False) for number in mine[-count:]]


@pytest.mark.parametrize("count", [1, 8])
def test_measured_rounds_that_nobody_verified_do_not_pass_without_a_reason(bench, count):
    """Up to 4 % of them, which `limits.success_share` would let through."""
    first, *_ = unverified(bench, count)
    verdict = bench.verdict(RATE, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert f"a round of {SECOND} in the sustained stage was not verified" in verdict.detail
    assert f"t={first.t_s:.0f} s" in verdict.detail


def test_a_wrong_result_is_the_reason_of_later_rounds_of_its_worker_and_stage_alone(bench):
    first, *_ = unverified(bench, 5)
    bench.event("wrong_result", GPU, "changed", first.t_s, FIRST)
    bench.event("wrong_result", GPU, "changed", first.t_s, SECOND, "gemm")
    bench.event("wrong_result", GPU, "changed", first.t_s + 1.1, SECOND)
    assert bench.verdict(RATE, GPU).outcome is Outcome.NOT_MEASURED
    bench.event("wrong_result", GPU, "changed", first.t_s, SECOND)
    assert bench.verdict(RATE, GPU).outcome is Outcome.PASS


def test_an_overflow_is_the_reason_of_the_round_that_it_is_reported_with(bench):
    first, second = unverified(bench, 2, FIRST, "gemm")
    bench.event("overflow", GPU, "1 of 6 fp16 steps overflowed", first.t_s, FIRST, "gemm")
    assert bench.verdict(RATE, GPU).outcome is Outcome.NOT_MEASURED
    bench.event("overflow", GPU, "1 of 6 fp16 steps overflowed", second.t_s, FIRST, "gemm")
    assert bench.verdict(RATE, GPU).outcome is Outcome.PASS


def test_warm_up_that_nobody_verified_does_not_pass_without_a_reason_either(bench):
    first = next(
        number
        for number, one in enumerate(bench.recording.rounds)
        if (one.subject, one.stage, one.phase) == (GPU, "gemm", "warmup")
    )
    one = bench.round(first, verified=False)
    verdict = bench.verdict(RATE, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert f"a round of {one.worker} in the gemm stage was not verified" in verdict.detail
    bench.event("wrong_result", GPU, "changed", one.t_s, one.worker, "gemm")
    assert bench.verdict(RATE, GPU).outcome is Outcome.PASS


def test_a_stage_that_was_broken_off_fails_for_what_was_lost_but_for_nothing_else(bench):
    bench.stage("sustained", status="interrupted", loaded_to_s=None)
    bench.recording.rounds = [one for one in bench.recording.rounds if one.worker != SECOND]
    assert bench.verdict(RATE, GPU).outcome is Outcome.NOT_MEASURED
    bench.event("worker_died", GPU, "killed", 40.0, SECOND)
    assert bench.verdict(RATE, GPU).outcome is Outcome.FAIL


def test_a_run_without_stages_is_no_measurement(bench):
    bench.recording.stages.clear()
    bench.recording.events.clear()
    verdict = bench.verdict(RATE, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED


@pytest.mark.parametrize("kind", ["gpu_skipped", "gpu_taken"])
def test_a_gpu_that_was_left_out_on_purpose_is_not_measured(bench, kind):
    for name in ("gemm", "sustained"):
        bench.stage(name, workers=("pc2/gpu0#0",), status="partial")
    bench.event(kind, GPU, "60 GiB of it are held by pid 4711", 3.0, stage=None)
    verdict = bench.verdict(RATE, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail == "60 GiB of it are held by pid 4711"
