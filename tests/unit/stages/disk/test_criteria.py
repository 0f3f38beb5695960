"""What a host's disk is judged by: what it returned, its room, its rates, and those of equal hosts."""

from dataclasses import replace

import pytest

from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.measurements import Event
from rigproof.records.verdict import Outcome
from rigproof.stages.disk.criteria import FEWEST_ROUNDS, disk, tables
from rigproof.stages.disk.stage import KIND, DiskSpec, DiskTest
from rigproof.stages.kind import StageWork
from support.equal_hosts import HostRun, host_rig


@pytest.fixture(scope="module")
def simulated():
    return HostRun(host_rig("disk"), disk)


@pytest.fixture
def run(simulated):
    """A run to be changed."""
    return HostRun(simulated.loaded, disk, simulated.recording)


def test_a_verdict_says_where_it_was_measured_and_how(run):
    found = run.verdict()
    assert found.outcome is Outcome.PASS
    assert found.detail.endswith(
        "40 % in use, 1080.0 GiB free; /home/simulated on ext4 (/dev/nvme0n1p2), past the page cache"
    )
    assert found.limit_source.startswith("0.75 of the median of 2 other hosts of this kind; ")


@pytest.mark.parametrize("operation", ["write", "read"])
@pytest.mark.parametrize("used_share", [0.4, 0.92])
def test_the_slow_one_of_three_fails_with_the_operation_named_nearly_full_or_not(run, operation, used_share):
    run.slow(0.5, "n2", operation)
    run.change(DiskTest, "n2", used_share=used_share)
    outcomes = [run.verdict(node).outcome for node in ("n1", "n2", "n3")]
    assert outcomes == [Outcome.PASS, Outcome.FAIL, Outcome.PASS]
    assert run.verdict("n2").detail.startswith(f"{operation}, ")


def test_one_quick_chunk_does_not_save_a_slow_disk(run):
    run.slow(0.5, operation="write")
    quick = run.rounds("write")[0]
    run.exchange([quick], replace(quick, work=4 * quick.work))
    assert run.verdict().outcome is Outcome.FAIL


@pytest.mark.parametrize("changes", [{"filesystem": "nfs4"}, {"how": "synced"}])
def test_disks_of_unlike_kind_are_not_compared(run, changes):
    run.slow(0.1, operation="write")
    run.change(DiskTest, **changes)
    found = run.verdict()
    assert found.outcome is Outcome.NO_LIMIT
    assert found.detail.endswith("no other such host to compare with")


def test_stated_floors_stand_alone_and_the_lowest_is_shown():
    loaded = host_rig("disk", 1, {"write_floor_mbps": 100.0, "read_floor_mbps": 9000.0})
    found = HostRun(loaded, disk).verdict()
    assert (found.outcome, found.limit, found.limit_source) == (Outcome.FAIL, 9000.0, "lab.toml")
    assert found.detail.startswith("read, write ")


def test_data_that_were_not_read_back_as_written_fail(run):
    for t_s in (9.0, 10.0):
        run.recording.add(Event(t_s, "disk_error", "n1", "what was read back differs", "disk"))
    found = run.verdict()
    assert (found.outcome, found.measured, found.from_s) == (Outcome.FAIL, None, 9.0)
    assert found.detail.startswith("what was read back differs (2 chunks); /home/simulated")


def test_data_that_came_back_wrong_fail_although_the_test_did_not_end(run):
    run.recording.add(Event(9.0, "disk_error", "n1", "what was read back differs", "disk"))
    run.recording.put(DiskTest, [])
    found = run.verdict()
    assert (found.outcome, found.detail) == (Outcome.FAIL, "what was read back differs")


def test_a_chunk_that_was_read_wrong_fails_without_an_event(run):
    wrong = run.rounds("read")[0]
    run.exchange([wrong], replace(wrong, verified=False))
    found = run.verdict()
    assert (found.outcome, found.from_s) == (Outcome.FAIL, wrong.t_s)
    assert found.detail.startswith("read otherwise than it was written, in 1 of the chunks; ")
    assert run.verdict("n2").outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"wrong": 5}, "the test counted 5 wrong chunks, and no event tells of one"),
        ({"verified_mib": 0.0}, "0 MiB were read back of the "),
        ({"verified_mib": 1e6}, "1000000 MiB were read back of the "),
        ({"verified_mib": float("nan")}, "nan MiB were read back of the "),
        ({"how": ""}, "written in a way that is not known"),
        ({"used_share": float("nan")}, "nan % in use"),
        ({"free_gib": 1e6}, "1000000.0 GiB free, of "),
    ],
)
def test_a_test_that_contradicts_itself_is_no_measurement(run, changes, said):
    run.change(DiskTest, **changes)
    found = run.verdict()
    assert found.outcome is Outcome.NOT_MEASURED
    assert said in found.detail


@pytest.mark.parametrize(
    ("share", "outcome"),
    [(0.89, Outcome.PASS), (0.91, Outcome.WARN), (0.949, Outcome.WARN), (0.95, Outcome.NOT_MEASURED)],
)
def test_room(run, share, outcome):
    run.change(DiskTest, used_share=share, free_gib=7.0)
    found = run.verdict()
    assert found.outcome is outcome
    assert "7.0 GiB free" in found.detail
    assert found.detail.startswith("under 10 % free (") is (outcome is Outcome.WARN)
    assert found.remedy.startswith("make room") is (outcome is not Outcome.PASS)
    assert ("limit 95 %" in found.detail) is (outcome is Outcome.NOT_MEASURED)


def test_a_full_disk_on_which_nothing_could_be_written_is_not_measured_either(run):
    run.change(DiskTest, used_share=1.0, free_gib=0.0, how="", trouble="0.00 GiB are free, too little")
    found = run.verdict()
    assert (found.outcome, found.remedy[:9]) == (Outcome.NOT_MEASURED, "make room")


@pytest.mark.parametrize("error", ["EIO", "ENOSPC", "EDQUOT", "EROFS", "EACCES", "ENOENT", ""])
def test_trouble_is_a_failure_of_the_disk_or_not_measured_and_never_a_pass(run, error):
    run.change(DiskTest, trouble="it could not be used", error=error)
    found = run.verdict()
    assert found.outcome is (Outcome.FAIL if error == "EIO" else Outcome.NOT_MEASURED)
    assert found.detail.startswith("it could not be used")


@pytest.mark.parametrize("operation", ["write", "read"])
def test_three_chunks_are_enough_and_two_are_not(run, operation):
    chunks = run.rounds(operation)
    run.exchange(chunks, *chunks[:FEWEST_ROUNDS])
    assert run.verdict().outcome is Outcome.PASS
    run.exchange(chunks, *chunks[: FEWEST_ROUNDS - 1])
    found = run.verdict()
    assert (found.outcome, found.detail) == (Outcome.NOT_MEASURED, f"2 verified chunks to {operation}")


def test_a_test_that_did_not_end_is_not_measured(run):
    run.recording.put(DiskTest, [])
    run.recording.add(Event(9.0, "worker_hung", "n1/gpu0", "no round for 30 s", "disk", "n1/gpu0#0"))
    found = run.verdict()
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail == "the disk was not measured: no round for 30 s (at t=9 s)"


def test_two_tests_of_one_host_are_no_measurement(run):
    run.recording.put(DiskTest, 2 * list(run.recording.of(DiskTest)))
    found = run.verdict()
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail == "2 records of disk_test, where one is due"


def test_the_table_says_where_the_last_test_of_each_host_was_and_its_rates(run):
    run.exchange(run.rounds("read"))
    tests = list(run.recording.of(DiskTest))
    run.recording.put(DiskTest, [replace(tests[0], path="/of/an/earlier/lap"), *tests])
    [table] = tables(run.recording)
    assert [row[:3] for row in table.rows] == [
        (node, "/home/simulated", "ext4 (/dev/nvme0n1p2)") for node in ("n1", "n2", "n3")
    ]
    assert [row[5] == "–" for row in table.rows] == [True, False, False]
    assert all(len(row) == len(table.columns) for row in table.rows)
    detail = run.verdict("n2").detail
    assert f"write {table.rows[1][4]} MB/s" in detail or f"read {table.rows[1][5]} MB/s" in detail


def test_each_node_can_have_its_own_folder():
    loaded = host_rig("disk", 2, stages={"disk": {"path": "/data/checkpoints"}})
    plan = make_plan(loaded, "standard")
    found = KIND.specs(StageWork(loaded, plan, plan.stage("disk"), {}))
    assert {name: one.path for name, one in found.items() if isinstance(one, DiskSpec)} == {
        "n1/gpu0#0": "/data/checkpoints",
        "n2/gpu0#0": "~",
    }
    assert all(isinstance(one, DiskSpec) and one.most_mib == 1024 for one in found.values())


@pytest.mark.parametrize("path", ["checkpoints", ""])
def test_a_folder_without_an_absolute_path_is_refused_the_rigs_and_a_nodes_own(path):
    wrong = f'path = "{path}": not an absolute path; write an absolute path such as /data/checkpoints'
    problems = lint_rig(host_rig("disk", 1, {"path": path}))
    assert any(one.startswith(f"lab.toml: stages.disk.{wrong}") for one in problems), problems
    problems = lint_rig(host_rig("disk", 2, stages={"disk": {"path": path}}))
    assert any(f"nodes[0].stages.disk.{wrong}" in one for one in problems), problems


@pytest.mark.parametrize("path", ["/data", "~", "~/checkpoints", "~trainer/checkpoints"])
def test_absolute_paths_and_homes_are_accepted(path):
    assert not [one for one in lint_rig(host_rig("disk", 1, {"path": path})) if "path" in one]
