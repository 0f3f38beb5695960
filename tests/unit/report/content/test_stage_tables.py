"""The tables of memory, what each worker held and what it did about a failure, and of lowered clocks."""

from dataclasses import replace

from rigproof.records.measurements import Event
from rigproof.report.content.stage_tables import ROWS_SHOWN, memory_tables, reason_tables
from support.bench import Bench
from support.recordings import HEALTH

GPU, WORKER = "pc1/gpu0", "pc1/gpu0#1"


def test_each_card_has_its_seconds_by_reason(bench):
    bench.counters("pc1/gpu0", "before", power_capped_s=10.0)
    bench.counters("pc1/gpu0", "after", power_capped_s=71.0, hw_thermal_s=0.4)
    (table,) = reason_tables(bench.recording)
    assert table.columns[:2] == ("GPU", "power cap")
    assert table.rows[0] == ("pc1/gpu0", "61 s", "0 s", "0 s", "0.40 s", "0 s")
    assert [row[0] for row in table.rows] == ["pc1/gpu0", "pc2/gpu0"]


def test_a_card_whose_driver_counts_nothing_has_no_row(bench):
    none = dict.fromkeys(name for name in HEALTH if name.endswith("_s"))
    for moment in ("before", "after"):
        bench.counters("pc1/gpu0", moment, **none)
    (table,) = reason_tables(bench.recording)
    assert [row[0] for row in table.rows] == ["pc2/gpu0"]


def decision(t_s, technique, before, after, unit="", reason="less after failure 1"):
    data = {"technique": technique, "before": before, "after": after, "unit": unit, "reason": reason}
    return Event(t_s, "memory_policy", GPU, "…", "sustained", WORKER, data)


def test_each_worker_of_each_stage_has_a_row_with_its_worst_figures():
    bench = Bench()
    bench.event("oom", GPU, "12 GiB wanted", 28, WORKER, recovered=True)
    held, _ = memory_tables(bench.recording)
    row = next(row for row in held.rows if row[:2] == (WORKER, "sustained"))
    assert row == (WORKER, "sustained", "40.0 GiB", "39.1 GiB", "1")
    assert all(len(row) == len(held.columns) for row in held.rows)


def test_answers_to_failures_are_reported_in_order_and_settings_are_not():
    bench = Bench()
    bench.recording.events += [
        decision(32, "matrix_size", 4096, 2864, "M = N = K"),
        decision(31, "target", 1740.8, 1566.7, "MiB"),
        decision(30, "periodic_cleanup", None, 50, "rounds"),
    ]
    _, answers = memory_tables(bench.recording)
    assert answers.rows == (
        (WORKER, "target: 1741 → 1567 MiB", "less after failure 1", "31.0 s"),
        (WORKER, "matrix size: 4096 → 2864 M = N = K", "less after failure 1", "32.0 s"),
    )


def test_a_flood_is_cut_off_and_reported():
    bench = Bench()
    bench.recording.events += [decision(31 + n / 10, "target", 2.0, 1.0, "MiB") for n in range(50)]
    _, answers = memory_tables(bench.recording)
    assert len(answers.rows) == ROWS_SHOWN
    assert answers.note == "10 more are in recording.jsonl."


def test_what_the_device_does_not_report_is_shown_as_such():
    bench = Bench()
    bench.recording.memory = [replace(one, device_free_mib=None) for one in bench.recording.memory]
    held, answers = memory_tables(bench.recording)
    assert {row[3] for row in held.rows} == {"unknown"}
    assert answers.rows == ()
