from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from rigproof.devices.cpu import CpuMark
from rigproof.devices.reporting import Reporter
from rigproof.devices.verification import placed
from rigproof.stages.gemm.stage import EXACT_EVERY, FEWEST_ROUNDS, GemmSpec
from rigproof.stages.gemm.workload import measuring_order, run_gemm

SPEC = GemmSpec("gemm", size=128, precisions=("fp32",), settle_s=0.1, measure_s=0.15, round_s=0.02)


def card(half, *precisions):
    """Only what `measuring_order` asks of a device."""
    return SimpleNamespace(name="a card", half=half, precisions=precisions)


@pytest.mark.parametrize(
    ("device", "wanted", "expected"),
    [
        (card("bf16", "fp32", "tf32", "fp16", "bf16"), (), ("bf16", "fp16", "tf32", "fp32")),
        (card("fp16", "fp32", "fp16"), (), ("fp16", "fp32")),
        (card("fp32", "fp32", "bf16"), (), ("fp32", "bf16")),
        (card("bf16", "fp32", "tf32", "fp16", "bf16"), ("fp32", "bf16"), ("bf16", "fp32")),
        (card("bf16", "fp32", "tf32", "fp16", "bf16"), ("tf32",), ("tf32",)),
    ],
)
def test_the_best_16_bit_precision_comes_first(device, wanted, expected):
    assert measuring_order(wanted, device) == expected


def test_a_precision_the_device_lacks_is_named_when_asked_for():
    with pytest.raises(ValueError, match="a card has no tf32; it has fp32, fp16"):
        measuring_order(("fp16", "tf32"), card("fp16", "fp32", "fp16"))


def test_warm_up_comes_before_measured_rounds_and_all_are_verified(cpu, context):
    run_gemm(SPEC, cpu, context)
    phases = [round_.phase for round_ in context.rounds]
    rates = [phase for phase in phases if phase != "exact"]
    assert rates == sorted(rates, key=["warmup", "measure"].index)
    assert {"warmup", "measure"} <= set(phases)
    assert phases[-1] == "exact"
    assert phases.count("exact") >= len(rates) // EXACT_EVERY
    assert all(round_.verified for round_ in context.rounds)
    assert not context.events("wrong_result")


def test_a_round_reports_its_work_and_the_device_s_own_seconds(cpu, context):
    run_gemm(SPEC, cpu, context)
    for round_ in context.rounds:
        products = round_.work * 1e12 / (2 * 128**3)
        assert products == pytest.approx(round(products))
        assert products >= 1
        assert round_.seconds > 0
        assert (round_.stage, round_.worker, round_.subject) == ("gemm", context.worker, context.subject)
        assert (round_.label("precision"), round_.label("size")) == ("fp32", 128)


def test_a_round_says_whether_the_device_waited_for_its_host(cpu, context, monkeypatch):
    run_gemm(SPEC, cpu, context)
    assert {round_.host_paced for round_ in context.rounds} == {False}
    context.records.clear()
    monkeypatch.setattr(CpuMark, "reached", lambda mark: True)
    run_gemm(SPEC, cpu, context)
    assert {round_.host_paced for round_ in context.rounds} == {True}


def test_a_busy_device_gets_the_time_for_the_rounds_that_a_rate_needs(cpu, context):
    run_gemm(replace(SPEC, measure_s=1e-9), cpu, context)
    assert [round_.phase for round_ in context.rounds].count("measure") >= FEWEST_ROUNDS


def test_every_precision_of_the_device_is_measured_without_being_named(cpu, context):
    run_gemm(replace(SPEC, precisions=()), cpu, context)
    measured = {round_.label("precision") for round_ in context.rounds if round_.phase == "measure"}
    assert measured == set(cpu.precisions)


def test_a_bit_flipped_in_one_result_fails_that_round_alone(faulty_cpu, context):
    def flip(call, out):
        if len(context.rounds) == 3:
            out.view(torch.int32)[5, 7] ^= 1

    run_gemm(SPEC, faulty_cpu(flip), context)
    assert [number for number, round_ in enumerate(context.rounds) if not round_.verified] == [3]
    (event,) = context.events("wrong_result")
    assert event.data["precision"] == "fp32"
    assert event.data["round"] == 3
    assert event.data["expected"] != event.data["got"]
    assert event.subject == context.subject


def test_a_device_that_is_wrong_from_the_start_has_no_verified_round(faulty_cpu, context):
    run_gemm(SPEC, faulty_cpu(lambda call, out: out.mul_(1.01)), context)
    assert context.rounds
    assert not any(round_.verified for round_ in context.rounds)
    (event,) = context.events("wrong_result")
    assert event.data["error"] > event.data["tolerance"]


def test_wrong_results_are_reported_every_ten_seconds_with_a_count(context, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(context, "now_s", lambda: now[0])
    reporter = Reporter(context, "gemm")
    for now[0] in (100, 101, 109.9, 110, 119, 121):
        reporter.wrong_result("differs", {})
    assert [(event.t_s, event.data["unreported"]) for event in context.events("wrong_result")] == [
        (100, 0),
        (110, 2),
        (121, 1),
    ]


def test_stop_ends_the_run_after_the_round_under_way(cpu, stopping_context):
    context = stopping_context(lambda context: len(context.rounds) >= 2)
    run_gemm(replace(SPEC, settle_s=600, measure_s=600, precisions=()), cpu, context)
    assert len(context.rounds) <= 2 + cpu.queue_depth
    assert {round_.label("precision") for round_ in context.rounds} == {cpu.half}


def test_want_of_memory_is_an_event_and_an_error(faulty_cpu, context):
    def fail(call, out):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes")

    device = faulty_cpu(fail)
    with pytest.raises(MemoryError, match="size 128"):
        run_gemm(SPEC, device, context)
    (event,) = context.events("oom")
    assert event.data == {"requested_mib": 5 * 128 * 128 * 4 / 2**20, "recovered": False}
    assert device.memory().allocated_mib == 0


def test_operands_are_freed(cpu, context):
    run_gemm(SPEC, cpu, context)
    assert cpu.memory().allocated_mib == 0


def test_a_kernel_that_does_not_run_after_the_references_has_no_verified_round(faulty_cpu, context):
    """The result's memory still holds a right product, but not that of the operands whose turn it is."""
    device = faulty_cpu(lambda call, out: None)
    multiply, calls = device.multiply, []

    def run_twice(a, b, out):
        calls.append(1)
        if len(calls) <= 2:  # the references
            multiply(a, b, out)

    device.multiply = run_twice
    run_gemm(SPEC, device, context)
    assert len(context.rounds) > 3
    assert not any(round_.verified for round_ in context.rounds)
    assert context.events("wrong_result")


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16", "tf32"])
def test_one_product_in_a_thousand_is_caught_in_each_precision(faulty_cpu, context, monkeypatch, precision):
    """Wherever in a round it is: 37 is in the middle of one, and no round ends with it."""

    def corrupt(call, out):
        if call % 1000 == 37:
            out.view(torch.int16)[11, 3] ^= 1

    device = faulty_cpu(corrupt)
    device.precisions = (precision,)
    monkeypatch.setattr("rigproof.stages.gemm.workload.products_for", lambda round_s, product_s: 100)
    monkeypatch.setattr("rigproof.stages.gemm.workload.adapted", lambda products, seconds, round_s: 100)
    context.stopped = lambda: device.calls > 2500
    spec = replace(SPEC, size=64, precisions=(precision,), settle_s=0.1, measure_s=600, round_s=0.001)
    run_gemm(spec, device, context)
    wrong = [number for number, round_ in enumerate(context.rounds) if not round_.verified]
    assert len(wrong) == 3
    event = context.events("wrong_result")[0]
    assert event.data["precision"] == precision
    assert event.data["round"] == wrong[0]
    known = {"precision", "golden", "round", "product", "pair", "expected", "got", "unreported"}
    assert set(event.data) == known | {"repeated", "again"}
    what = "is not exact" if event.data["golden"] else "changed between equal products"
    assert event.message == f"{precision} product {event.data['pair']} {what}"
    assert placed(event.data) == "not again"


def test_two_reference_checksums_are_reported_for_each_precision_with_what_computed_them(cpu, context):
    run_gemm(replace(SPEC, precisions=()), cpu, context)
    events = context.events("reference")
    found = {(event.data["precision"], event.data["golden"]): event.data for event in events}
    assert set(found) == {(precision, golden) for precision in cpu.precisions for golden in (False, True)}
    for data in found.values():
        assert data["size"] == 128
        assert list(data["checksums"]) == ["1·0", "0·1"]
        assert len(set(data["checksums"].values())) == 2
        assert data["torch"] == torch.__version__
        assert {"device", "cublas", "multiprocessors", "capability"} < set(data)


def test_the_same_device_has_the_same_references_again(cpu, context, stopping_context):
    again = stopping_context(lambda context: False)
    for one in (context, again):
        run_gemm(SPEC, cpu, one)
    first, second = (one.events("reference")[0].data for one in (context, again))
    assert first == second
