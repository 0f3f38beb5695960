"""How several processes share a card: their rate together, what it is held against, and their table."""

from dataclasses import replace

import pytest

from rigproof.criteria.criterion import NotMeasured
from rigproof.records.measurements import TFLOP, Event, Round
from rigproof.records.verdict import Outcome
from rigproof.stages.sharing.criteria import shared_rate, tables

GPU, OTHER, SHARING = "pc1/gpu0", "pc2/gpu0", "scaling.sharing"


def rounds_of(process, start_s, tflops, count=6, seconds=0.5, **fields):
    """Rounds one after the other from `start_s`."""
    values = {"phase": "measure", "verified": True} | fields
    return [
        Round(
            t_s=start_s + (n + 1) * seconds,
            stage="sharing",
            worker="w",
            subject=GPU,
            seconds=seconds,
            work=tflops * seconds,
            unit=TFLOP,
            labels=dict(
                zip(("processes", "process", "precision", "size"), (*process, "bf16", 8192), strict=True)
            ),
            **values,
        )
        for n in range(count)
    ]


@pytest.mark.parametrize(("count", "from_s"), [(6, 11.0), (3, 10.5)])
def test_rates_are_added_over_the_time_in_which_all_worked(count, from_s):
    """Three rounds over one second are enough."""
    rounds = rounds_of((2, 0), 10.0, 100.0, count=count) + rounds_of((2, 1), from_s, 60.0, count=count)
    rate = shared_rate(rounds, [], 2)
    assert (rate.window.from_s, rate.window.to_s) == (from_s, 10.0 + 0.5 * count)
    assert rate.tflops == pytest.approx(160.0)
    assert rate.gib_each is None


def test_warm_up_and_what_was_not_verified_count_as_no_work():
    rounds = rounds_of((1, 0), 10.0, 100.0)
    rounds += rounds_of((1, 0), 10.0, 999.0, phase="warmup")
    rounds += rounds_of((1, 0), 10.0, 999.0, verified=False)
    rounds += rounds_of((None, None), 10.0, 999.0) + rounds_of((2, 0), 10.0, 999.0)
    assert shared_rate(rounds, [], 1).tflops == pytest.approx(100.0)


def test_a_process_that_stops_for_a_while_costs_its_work():
    rounds = rounds_of((1, 0), 10.0, 100.0, 4) + rounds_of((1, 0), 14.0, 100.0, 4)
    assert shared_rate(rounds, [], 1).tflops == pytest.approx(100.0 * 4 / 6)


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ([], "0 verified rounds of process 2 of 2"),
        (rounds_of((2, 1), 10.0, 1.0, count=2), "2 verified rounds of process 2 of 2"),
        (rounds_of((2, 1), 10.0, 1.0, verified=False), "0 verified rounds of process 2 of 2"),
        (rounds_of((2, 1), 20.0, 1.0), "2 processes worked together for 0.0 s"),
        (rounds_of((2, 1), 12.5, 1.0), "2 processes worked together for 0.5 s"),
    ],
)
def test_processes_that_did_not_all_work_together_are_not_measured(second, expected):
    with pytest.raises(NotMeasured, match=expected):
        shared_rate(rounds_of((2, 0), 10.0, 1.0) + second, [], 2)


def rows(bench):
    """The table's rows of the card."""
    (table,) = tables(bench.recording)
    assert all(len(row) == len(table.columns) for row in table.rows)
    return tuple(row for row in table.rows if row[0] == GPU)


def test_the_worst_number_of_processes_is_judged_and_all_are_reported(bench):
    verdict = bench.verdict(SHARING, GPU)
    assert (verdict.outcome, verdict.limit) == (Outcome.PASS, 0.8)
    assert verdict.measured == pytest.approx(0.91)
    assert verdict.limit_source == "hwprofiles/defaults.toml"
    assert verdict.detail == "1 × 126 GiB: 660 TFLOP/s; 2 × 63 GiB: 0.92×, 3 × 42 GiB: 0.91×"
    assert rows(bench) == (
        (GPU, "1", "126 GiB", "660 TFLOP/s", "1.00 ×"),
        (GPU, "2", "63 GiB", "607 TFLOP/s", "0.92 ×"),
        (GPU, "3", "42 GiB", "601 TFLOP/s", "0.91 ×"),
    )


@pytest.mark.parametrize(("by", "outcome"), [(0.85, Outcome.FAIL), (1.8, Outcome.PASS)])
def test_a_share_under_its_limit_fails_for_that_card_alone_and_a_gain_passes(bench, by, outcome):
    bench.rounds(GPU, "sharing", work=lambda one: one.work * (1 if one.label("processes") == 1 else by))
    verdict = bench.verdict(SHARING, GPU)
    assert (verdict.outcome, verdict.measured) == (outcome, pytest.approx(0.91 * by))
    assert bench.verdict(SHARING, OTHER).outcome is Outcome.PASS


def test_one_process_alone_does_what_the_sustained_stage_did(bench):
    """A card that is slow for any number of processes keeps its ratios."""
    bench.rounds(GPU, "sharing", work=lambda one: one.work * 0.849)
    verdict = bench.verdict(SHARING, GPU)
    assert verdict.outcome is Outcome.FAIL
    assert (verdict.measured, verdict.limit) == (pytest.approx(0.849, abs=1e-3), 0.85)
    assert verdict.limit_source == "its own sustained rate in this run; hwprofiles/defaults.toml"
    assert verdict.detail.startswith("one process alone did 560 TFLOP/s, and the sustained stage 660")
    assert verdict.remedy.startswith("close other programs on the card")
    assert verdict.from_s is not None
    for least, outcome in ((verdict.measured, Outcome.PASS), (verdict.measured * 1.001, Outcome.FAIL)):
        bench.limits(stability_worst_window_share=least)
        assert bench.verdict(SHARING, GPU).outcome is outcome


def test_a_sustained_rate_that_is_missing_or_of_another_precision_is_not_compared(bench):
    bench.slow(GPU, 0.5, "sharing")
    bench.rounds(GPU, "sustained", precision="fp16")
    assert bench.verdict(SHARING, GPU).outcome is Outcome.PASS
    bench.rounds(GPU, "sustained", verified=False)
    assert bench.verdict(SHARING, GPU).outcome is Outcome.PASS


def test_a_number_that_did_not_work_is_not_measured_whatever_the_others_did(bench):
    bench.recording.rounds = [
        one for one in bench.recording.rounds if (one.label("processes"), one.label("process")) != (3, 2)
    ]
    verdict = bench.verdict(SHARING, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail == "0 verified rounds of process 3 of 3 that shared it"
    assert rows(bench)[2] == (GPU, "3", "", "not measured", "")


@pytest.mark.parametrize("workers", [[1], [2, 3]])
def test_without_one_process_and_another_number_nothing_is_compared(bench, workers):
    bench.settings("sharing", workers=workers)
    verdict = bench.verdict(SHARING, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert f"sharing.workers = {workers}" in verdict.detail


def test_a_stage_without_rounds_is_not_measured_and_says_why_if_that_is_known(bench):
    bench.recording.rounds = [one for one in bench.recording.rounds if one.stage != "sharing"]
    assert bench.verdict(SHARING, GPU).detail == "no round in the sharing stage"
    bench.event("worker_failed", GPU, "its task failed: process 2 of 3: gone", 120, stage="sharing")
    verdict = bench.verdict(SHARING, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail.startswith("no round in the sharing stage: its task failed: process 2 of 3: gone")
    assert rows(bench) == ()


def test_the_cpu_as_device_has_no_limit(new_bench):
    bench = new_bench({"nodes": [{"name": "pc1", "gpus": [{"sku": "unknown", "device": "cpu"}]}]})
    cpu = "pc1/cpu0"
    bench.recording.gpus[cpu] = bench.recording.gpus[GPU]
    bench.recording.rounds = [
        replace(one, subject=cpu)
        for number, tflops in ((1, 1.0), (2, 0.2), (3, 0.1))
        for process in range(number)
        for one in rounds_of((number, process), 112.0 + 6.0 * number, tflops)
    ]
    verdict = bench.verdict(SHARING, cpu)
    assert (verdict.outcome, verdict.limit) == (Outcome.NO_LIMIT, None)
    assert "the CPU's threads are divided" in verdict.detail


def test_the_memory_of_another_stage_or_number_is_not_theirs():
    def event(kind="allocation", stage="sharing", workers=2, allocated_mib=4096.0):
        return Event(9.0, kind, GPU, "", stage, "w", {"workers": workers, "allocated_mib": allocated_mib})

    others = [event(stage="sustained", allocated_mib=1.0), event("oom", allocated_mib=2.0)]
    others += [event(workers=3, allocated_mib=3.0), event(allocated_mib=None)]
    rounds = rounds_of((2, 0), 10.0, 1.0) + rounds_of((2, 1), 10.0, 1.0)
    assert shared_rate(rounds, others, 2).gib_each is None
    assert shared_rate(rounds, [*others, event()], 2).gib_each == 2.0


def test_processes_whose_memory_is_unknown_are_counted(bench):
    bench.recording.events = [one for one in bench.recording.events if one.kind != "allocation"]
    detail = "1 process: 660 TFLOP/s; 2 processes: 0.92×, 3 processes: 0.91×"
    assert bench.verdict(SHARING, GPU).detail == detail


def test_a_ratio_of_one_other_number_may_be_at_its_limit(bench):
    bench.settings("sharing", workers=[1, 2], sharing_share=bench.verdict(SHARING, GPU).measured)
    assert bench.verdict(SHARING, GPU).outcome is Outcome.PASS
    bench.settings("sharing", workers=[1, 2], sharing_share=0.93)
    assert bench.verdict(SHARING, GPU).outcome is Outcome.FAIL
