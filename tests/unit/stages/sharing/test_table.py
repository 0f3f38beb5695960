from rigproof.stages.sharing.criteria import tables
from support.bench import Bench


def rows(bench):
    (table,) = tables(bench.recording)
    assert all(len(row) == len(table.columns) for row in table.rows)
    return table.rows


def test_each_number_of_processes_has_its_rate_and_its_share_of_one_alone():
    assert rows(Bench())[:3] == (
        ("pc1/gpu0", "1", "126 GiB", "660 TFLOP/s", "1.00 ×"),
        ("pc1/gpu0", "2", "63 GiB", "607 TFLOP/s", "0.92 ×"),
        ("pc1/gpu0", "3", "42 GiB", "601 TFLOP/s", "0.91 ×"),
    )


def test_a_number_whose_process_did_nothing_is_not_measured():
    bench = Bench()
    bench.recording.rounds = [
        one for one in bench.recording.rounds if (one.label("processes"), one.label("process")) != (3, 1)
    ]
    assert rows(bench)[2] == ("pc1/gpu0", "3", "", "not measured", "")


def test_a_run_without_the_stage_has_no_row():
    bench = Bench()
    bench.only("gemm", "sustained")
    assert rows(bench) == ()
