from rigproof.report.content.stage_tables import tables_of
from rigproof.stages.feeding.criteria import tables
from support.bench import Bench

GPU = "pc1/gpu0"


def rows(bench):
    (table,) = tables(bench.recording)
    assert all(len(row) == len(table.columns) for row in table.rows)
    return table.rows


def test_each_device_has_its_rewards_and_its_gaps():
    first, second = rows(Bench())
    assert first == (GPU, "30 ms", "5 ms", "8", "6.00 ×", "13", "0 %", "0 ms")
    assert second[1:] == first[1:]
    assert "Feeding" in [table.section for table in tables_of(Bench().recording)]


def test_what_was_not_measured_is_not_shown_as_a_figure():
    bench = Bench()
    bench.rewards(GPU, matches=None)
    bench.drop("rounds", GPU)
    first = next(row for row in rows(bench) if row[0] == GPU)
    assert first[1:5] == ("not measured", "", "", "")
    assert first[6:] == ("not measured", "")


def test_a_run_without_the_stage_has_no_row():
    bench = Bench()
    bench.only("gemm", "sustained")
    assert rows(bench) == ()
