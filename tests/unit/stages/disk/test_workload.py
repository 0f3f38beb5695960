"""The process that writes and reads, as its worker sees it."""

import pytest

from rigproof.records.measurements import Round
from rigproof.stages.disk import workload
from rigproof.stages.disk.stage import DiskSpec, DiskTest
from support.devices import NodeContext


def spec(path):
    return DiskSpec("disk", str(path), most_mib=64.0, reserve_mib=1.0, duration_s=30.0)


def test_a_hosts_disk_is_measured_by_a_process_of_its_own(tmp_path):
    context = NodeContext()
    spec(tmp_path).run(None, context)
    assert {one.subject for one in context.records} == {"host"}
    [test] = [one for one in context.records if isinstance(one, DiskTest)]
    assert (test.written_mib, test.verified_mib, test.wrong, test.trouble) == (64.0, 64.0, 0, "")
    rounds = [one for one in context.records if isinstance(one, Round)]
    assert [(one.label("operation"), one.unit) for one in rounds] == [("write", "MB")] * 4 + [
        ("read", "MB")
    ] * 4
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_no_error_of_the_worker(tmp_path):
    context = NodeContext()
    spec(tmp_path / "gone").run(None, context)
    [test] = context.records
    assert (test.trouble, test.how) == ("there is no such folder", "")


def test_a_worker_that_is_stopped_leaves_no_file(tmp_path):
    spec(tmp_path).run(None, NodeContext(lambda context: bool(context.records)))
    assert not list(tmp_path.iterdir())


def test_a_disk_that_does_not_answer_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(workload, "STALL_S", 0.2)
    monkeypatch.setattr(workload, "MODULE", "rigproof.telemetry.sleeper")
    with pytest.raises(RuntimeError, match=r"the disk did not answer for 0.2 s"):
        spec(tmp_path).run(None, NodeContext())
