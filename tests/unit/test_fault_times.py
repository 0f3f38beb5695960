"""The table of faults and their times: of what the tests recorded, asserted only where it is written."""

import pytest

from support import fault_times
from support.fault_times import Row


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(fault_times, "ROWS", tmp_path / "rows")
    monkeypatch.setattr(fault_times, "TABLE", tmp_path / "table.md")
    monkeypatch.delenv(fault_times.WRITING, raising=False)


def record(took_s, where="sustained stage"):
    fault_times.record("worker, SIGKILL", where, deadline_s=10, took_s=took_s, outcome="REJECTED")


def test_rows_are_kept_by_fault_and_place_and_the_last_one_counts():
    record(30.0)
    record(12.34)
    record(9.0, "gemm stage")
    assert [(row.where, row.took_s, row.late_s) for row in fault_times.rows()] == [
        ("gemm stage", 9.0, 0.0),
        ("sustained stage", 12.34, pytest.approx(2.34)),
    ]
    fault_times.write_table()
    assert "| worker, SIGKILL | sustained stage | 10 | 12.3 | 2.3 | REJECTED |" in (
        fault_times.TABLE.read_text().splitlines()
    )
    assert f"Machine: {fault_times.machine()}." in fault_times.TABLE.read_text()
    fault_times.forget()
    assert fault_times.rows() == []


def test_a_time_decides_only_where_the_table_is_written(monkeypatch):
    record(26.0)
    monkeypatch.setenv(fault_times.WRITING, "1")
    record(24.9)
    with pytest.raises(AssertionError, match=r"worker, SIGKILL \(sustained stage\): 16\.0 s after"):
        record(26.0)


def test_before_the_deadline_nothing_is_late():
    assert Row("a", "b", 10, 3, "c").late_s == 0
