"""The table of why clocks were lowered."""

from rigproof.report.content.stage_tables import reason_tables
from support.recordings import HEALTH


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
