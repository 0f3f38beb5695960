"""What a host's disk is judged by: what it returned, its room, its rates, and those of equal hosts."""

from copy import copy
from dataclasses import replace

import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.judging.judge import judge
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import over_defaults
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.measurements import Event, Round
from rigproof.records.verdict import Outcome
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.disk.criteria import FEWEST_ROUNDS, disk, tables
from rigproof.stages.disk.stage import DiskSpec, DiskTest, specs
from rigproof.stages.kind import StageWork
from rigproof.stages.registry import KINDS
from support.lengths import lengths

SHORT = dict.fromkeys((kind.name for kind in KINDS if "length_s" in kind.settings.model_fields), 0)
TABLES = lengths("standard", settle_s=1, measure_s=1, **(SHORT | {"sustained": 2, "disk": 3}))


def rig(nodes=3, settings=None, **of_first):
    node = {"cpus": 16, "ram_gib": 64, "gpus": [{"sku": "rtx-3090"}]}
    named = [node | {"name": f"n{one}", "address": f"10.0.0.{one}"} for one in range(1, nodes + 1)]
    named[0] |= of_first
    tables = {"name": "lab", **TABLES, "nodes": named}
    tables["stages"] = TABLES["stages"] | {"disk": TABLES["stages"]["disk"] | (settings or {})}
    return over_defaults(tables, "lab.toml", KINDS)


@pytest.fixture(scope="module")
def simulated():
    loaded = rig()
    return loaded, simulated_recording(loaded, "standard")


@pytest.fixture
def run(simulated):
    """The rig, and a recording to be changed."""
    loaded, recording = simulated
    return loaded, copy(recording)


def verdict(loaded, recording, node="n1"):
    return judge(disk, node, Evidence(recording, loaded))


def changed_test(recording, node="n1", **changes):
    tests = [replace(one, **changes) if one.subject == node else one for one in recording.of(DiskTest)]
    recording.put(DiskTest, tests)
    return recording


def slower(recording, node, operation, by):
    rounds = [
        replace(one, work=one.work * by)
        if (one.subject, one.label("operation")) == (node, operation)
        else one
        for one in recording.rounds
    ]
    recording.put(Round, rounds)
    return recording


def test_a_verdict_says_where_it_was_measured_and_how(run):
    found = verdict(*run)
    assert found.outcome is Outcome.PASS
    assert found.detail.endswith(
        "40 % in use, 1080.0 GiB free; /home/simulated on ext4 (/dev/nvme0n1p2), past the page cache"
    )
    assert found.limit_source.startswith("0.75 of the median of 2 other hosts of this kind; ")


@pytest.mark.parametrize("operation", ["write", "read"])
def test_the_slow_one_of_three_fails_with_the_operation_named(run, operation):
    loaded, recording = run
    slower(recording, "n2", operation, 0.5)
    outcomes = [verdict(loaded, recording, node).outcome for node in ("n1", "n2", "n3")]
    assert outcomes == [Outcome.PASS, Outcome.FAIL, Outcome.PASS]
    assert verdict(loaded, recording, "n2").detail.startswith(f"{operation}, ")


def test_one_quick_chunk_does_not_save_a_slow_disk(run):
    loaded, recording = run
    slower(recording, "n2", "write", 0.5)
    rounds = list(recording.rounds)
    quick = next(
        place
        for place, one in enumerate(rounds)
        if (one.subject, one.stage, one.phase) == ("n2", "disk", "measure")
        and one.label("operation") == "write"
    )
    rounds[quick] = replace(rounds[quick], work=4 * rounds[quick].work)
    recording.put(Round, rounds)
    assert verdict(loaded, recording, "n2").outcome is Outcome.FAIL


@pytest.mark.parametrize("changes", [{"filesystem": "nfs4"}, {"how": "synced"}])
def test_disks_of_unlike_kind_are_not_compared(run, changes):
    loaded, recording = run
    changed_test(slower(recording, "n1", "write", 0.1), **changes)
    found = verdict(loaded, recording)
    assert found.outcome is Outcome.NO_LIMIT
    assert found.detail.endswith("no other such host to compare with")


def test_stated_floors_stand_alone_and_the_lowest_is_shown():
    loaded = rig(1, {"write_floor_mbps": 100.0, "read_floor_mbps": 9000.0})
    found = verdict(loaded, simulated_recording(loaded, "standard"))
    assert (found.outcome, found.limit, found.limit_source) == (Outcome.FAIL, 9000.0, "lab.toml")
    assert found.detail.startswith("read, write ")


def test_data_that_were_not_read_back_as_written_fail(run):
    loaded, recording = run
    for t_s in (9.0, 10.0):
        recording.add(Event(t_s, "disk_error", "n1", "what was read back differs", "disk"))
    found = verdict(loaded, recording)
    assert (found.outcome, found.measured, found.from_s) == (Outcome.FAIL, None, 9.0)
    assert found.detail.startswith("what was read back differs (2 chunks); /home/simulated")


def test_a_chunk_that_was_read_wrong_fails_without_an_event(run):
    loaded, recording = run
    rounds = list(recording.rounds)
    place = next(n for n, one in enumerate(rounds) if (one.subject, one.label("operation")) == ("n1", "read"))
    rounds[place] = replace(rounds[place], verified=False)
    recording.put(Round, rounds)
    found = verdict(loaded, recording)
    assert (found.outcome, found.from_s) == (Outcome.FAIL, rounds[place].t_s)
    assert found.detail.startswith("read otherwise than it was written, in 1 of the chunks; ")
    assert verdict(loaded, recording, "n2").outcome is Outcome.PASS


def test_wrong_chunks_that_only_the_test_counted_are_no_measurement(run):
    loaded, recording = run
    found = verdict(loaded, changed_test(recording, wrong=5))
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail == "the test counted 5 wrong chunks, and no event tells of one"


@pytest.mark.parametrize("verified_mib", [0.0, 1e6, float("nan")])
def test_a_test_that_read_nothing_back_or_more_than_it_wrote_is_no_measurement(run, verified_mib):
    loaded, recording = run
    found = verdict(loaded, changed_test(recording, verified_mib=verified_mib))
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail.startswith(f"{verified_mib:.0f} MiB were read back of the ")


@pytest.mark.parametrize(
    ("share", "outcome"),
    [(0.89, Outcome.PASS), (0.91, Outcome.WARN), (0.949, Outcome.WARN), (0.95, Outcome.NOT_MEASURED)],
)
def test_room(run, share, outcome):
    loaded, recording = run
    found = verdict(loaded, changed_test(recording, used_share=share, free_gib=7.0))
    assert found.outcome is outcome
    assert "7.0 GiB free" in found.detail
    assert found.detail.startswith("under 10 % free (") is (outcome is Outcome.WARN)
    if outcome is not Outcome.PASS:
        assert found.remedy.startswith("make room")


def test_a_full_disk_on_which_nothing_could_be_written_is_not_measured_either(run):
    loaded, recording = run
    changed_test(recording, used_share=1.0, free_gib=0.0, how="", trouble="0.00 GiB are free, too little")
    found = verdict(loaded, recording)
    assert (found.outcome, found.remedy[:9]) == (Outcome.NOT_MEASURED, "make room")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ("EIO", Outcome.FAIL),
        ("ENOSPC", Outcome.NOT_MEASURED),
        ("EDQUOT", Outcome.NOT_MEASURED),
        ("EROFS", Outcome.NOT_MEASURED),
        ("EACCES", Outcome.NOT_MEASURED),
        ("ENOENT", Outcome.NOT_MEASURED),
        ("", Outcome.NOT_MEASURED),
    ],
)
def test_trouble_is_a_failure_of_the_disk_or_not_measured_and_never_a_pass(run, error, outcome):
    loaded, recording = run
    found = verdict(loaded, changed_test(recording, trouble="it could not be used", error=error))
    assert found.outcome is outcome
    assert found.detail.startswith("it could not be used")


def test_too_few_chunks_are_not_measured(run):
    loaded, recording = run
    kept = [one for one in recording.rounds if one.label("operation") != "read" or one.subject != "n1"]
    recording.put(Round, kept)
    found = verdict(loaded, recording)
    assert (found.outcome, found.detail) == (Outcome.NOT_MEASURED, "0 verified chunks to read")


def test_a_test_that_did_not_end_is_not_measured(run):
    loaded, recording = run
    recording.put(DiskTest, [])
    recording.add(Event(9.0, "worker_hung", "n1/gpu0", "no finished round for 30 s", "disk", "n1/gpu0#0"))
    found = verdict(loaded, recording)
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail == "the disk was not measured: no finished round for 30 s (at t=9 s)"


def test_the_table_says_where(run):
    _, recording = run
    [table] = tables(recording)
    assert [row[:3] for row in table.rows] == [
        (node, "/home/simulated", "ext4 (/dev/nvme0n1p2)") for node in ("n1", "n2", "n3")
    ]
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_each_node_can_have_its_own_folder():
    loaded = rig(2, stages={"disk": {"path": "/data/checkpoints"}})
    plan = make_plan(loaded, "standard")
    found = specs(StageWork(loaded, plan, plan.stage("disk"), {}))
    assert {name: one.path for name, one in found.items() if isinstance(one, DiskSpec)} == {
        "n1/gpu0#0": "/data/checkpoints",
        "n2/gpu0#0": "~",
    }
    assert all(isinstance(one, DiskSpec) and one.most_mib == 1024 for one in found.values())


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("path", "checkpoints", '"checkpoints"'),
        ("path", "", '""'),
        ("reserve_gib", 0.1, "0.1"),
        ("free_warn_share", 0.9, "0.9"),
        ("used_fail_share", 0.3, "0.3"),
        ("peer_share", 0.1, "0.1"),
        ("write_floor_mbps", 1, "1"),
    ],
)
def test_settings_with_which_nothing_is_measured_are_refused(key, value, shown):
    problems = lint_rig(rig(1, {key: value}))
    assert any(one.startswith(f"lab.toml: stages.disk.{key} = {shown}: ") for one in problems), problems


@pytest.mark.parametrize("gib", [0.01, 1000])
def test_a_file_that_fits_a_disks_cache_or_wears_it_out_is_refused(gib):
    problems = lint_rig(rig(1, {"most_gib": {"standard": gib}}))
    assert any("stages.disk.most_gib.standard" in one for one in problems), problems


def test_a_nodes_own_folder_is_linted_too():
    problems = lint_rig(rig(2, stages={"disk": {"path": "checkpoints"}}))
    assert any("nodes[0].stages.disk.path" in one for one in problems), problems


@pytest.mark.parametrize("path", ["/data", "~", "~/checkpoints", "~trainer/checkpoints"])
def test_absolute_paths_and_homes_are_accepted(path):
    assert not [one for one in lint_rig(rig(1, {"path": path})) if "path" in one]


@pytest.mark.parametrize("operation", ["write", "read"])
def test_three_chunks_are_enough_and_two_are_not(run, operation):
    loaded, recording = run

    def own(one):
        return (one.subject, one.label("operation"), one.phase) == ("n1", operation, "measure")

    chunks = [one for one in recording.rounds if own(one)]
    for number, outcome in ((FEWEST_ROUNDS, Outcome.PASS), (FEWEST_ROUNDS - 1, Outcome.NOT_MEASURED)):
        recording.put(Round, [one for one in recording.rounds if not own(one)] + chunks[:number])
        assert verdict(loaded, recording).outcome is outcome


def test_a_slow_disk_fails_though_it_is_nearly_full(run):
    loaded, recording = run
    changed_test(slower(recording, "n1", "read", 0.3), used_share=0.92, free_gib=7.0)
    assert verdict(loaded, recording).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"how": ""}, "written in a way that is not known"),
        ({"used_share": float("nan")}, "nan % in use"),
        ({"free_gib": 1e6}, "1000000.0 GiB free, of "),
    ],
)
def test_a_test_that_contradicts_itself_is_no_measurement(run, changes, said):
    loaded, recording = run
    found = verdict(loaded, changed_test(recording, **changes))
    assert found.outcome is Outcome.NOT_MEASURED
    assert said in found.detail


def test_two_tests_of_one_host_are_no_measurement(run):
    loaded, recording = run
    recording.put(DiskTest, 2 * list(recording.of(DiskTest)))
    found = verdict(loaded, recording)
    assert (found.outcome, found.detail) == (
        Outcome.NOT_MEASURED,
        "2 records of disk_test, where one is due",
    )
