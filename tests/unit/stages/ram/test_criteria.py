"""What a host's RAM is judged by: wrong words, how much was tested, and the rates of equal hosts."""

from copy import copy
from dataclasses import replace

import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.judging.judge import judge, promised
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import over_defaults
from rigproof.records.measurements import Event, Round
from rigproof.records.verdict import Outcome
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.ram.criteria import in_words, memory, tables
from rigproof.stages.ram.stage import RamTest
from rigproof.stages.registry import KINDS
from support.lengths import lengths

SHORT = dict.fromkeys((kind.name for kind in KINDS if "length_s" in kind.settings.model_fields), 0)
TABLES = lengths("standard", settle_s=1, measure_s=1, **(SHORT | {"sustained": 2, "ram": 3}))


def rig(nodes=3, settings=None, **of_first):
    node = {"cpus": 16, "ram_gib": 64, "gpus": [{"sku": "rtx-3090"}]}
    named = [node | {"name": f"n{one}", "address": f"10.0.0.{one}"} for one in range(1, nodes + 1)]
    named[0] |= of_first
    tables = {"name": "lab", **TABLES, "nodes": named}
    tables["stages"] = TABLES["stages"] | {"ram": TABLES["stages"]["ram"] | (settings or {})}
    return over_defaults(tables, "lab.toml", KINDS)


@pytest.fixture(scope="module")
def simulated():
    loaded = rig()
    return loaded, simulated_recording(loaded, "standard")


@pytest.fixture
def run(simulated):
    """The rig, and a recording to be changed."""
    loaded, recording = simulated
    changed = copy(recording)
    changed.nodes = dict(changed.nodes)
    return loaded, changed


def verdict(loaded, recording, node="n1"):
    return judge(memory, node, Evidence(recording, loaded))


def slower(recording, node, by):
    rounds = [replace(one, work=one.work * by) if one.subject == node else one for one in recording.rounds]
    recording.put(Round, rounds)
    return recording


def test_it_is_promised_for_each_node_at_the_levels_that_have_the_stage(run):
    loaded, recording = run
    assert promised(memory, loaded, recording.run.stages) == ("n1", "n2", "n3")
    assert promised(memory, loaded, ("gemm", "sustained")) == ()


def test_equal_hosts_pass_by_each_other(run):
    found = verdict(*run)
    assert found.outcome is Outcome.PASS
    assert found.limit_source.startswith("0.9 of the median of 2 other hosts of this kind; ")
    assert "of 64.0 GiB" in found.detail


def test_the_slow_one_of_three_fails_and_no_other(run):
    loaded, recording = run
    slower(recording, "n2", 0.8)
    outcomes = [verdict(loaded, recording, node).outcome for node in ("n1", "n2", "n3")]
    assert outcomes == [Outcome.PASS, Outcome.FAIL, Outcome.PASS]


@pytest.mark.parametrize("changes", [{"cpu_model": "another"}, {"cpus": 8.0}, {"ram_gib": 48.0}])
def test_hosts_of_unlike_kind_are_not_compared(run, changes):
    loaded, recording = run
    recording.nodes["n1"] = replace(recording.nodes["n1"], **changes)
    found = verdict(loaded, slower(recording, "n1", 0.5))
    assert (found.outcome, found.limit) == (Outcome.NO_LIMIT, None)
    assert found.detail.endswith("no other host of this kind to compare with")


def test_a_host_whose_model_is_not_known_has_no_equal(run):
    loaded, recording = run
    for name in ("n1", "n2", "n3"):
        recording.nodes[name] = replace(recording.nodes[name], cpu_model=None)
    assert verdict(loaded, recording).outcome is Outcome.NO_LIMIT


def test_a_stated_floor_stands_alone_and_a_node_can_have_its_own():
    loaded = rig(1, {"floor_gbps": 1000.0})
    found = verdict(loaded, simulated_recording(loaded, "standard"))
    assert (found.outcome, found.limit, found.limit_source) == (Outcome.FAIL, 1000.0, "lab.toml")
    own = rig(2, {"floor_gbps": 1000.0}, stages={"ram": {"floor_gbps": 50.0}})
    recording = simulated_recording(own, "standard")
    assert verdict(own, recording).outcome is Outcome.PASS
    assert verdict(own, recording, "n2").outcome is Outcome.FAIL


def test_a_wrong_word_fails_however_fast_the_host_is(run):
    loaded, recording = run
    recording.add(Event(9.0, "ram_error", "n1", "1 word wrong, the first at offset 0x1f0", "ram"))
    found = verdict(loaded, recording)
    assert (found.outcome, found.measured, found.from_s) == (Outcome.FAIL, None, 9.0)
    assert found.detail == "1 word wrong, the first at offset 0x1f0"
    assert verdict(loaded, recording, "n2").outcome is Outcome.PASS


def changed_test(recording, **changes):
    tests = [replace(one, **changes) if one.subject == "n1" else one for one in recording.of(RamTest)]
    recording.put(RamTest, tests)
    return recording


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tested_mib": 400.0, "cut_short": "another program took memory meanwhile"}, "0.39 GiB were tested"),
        ({"tested_mib": 0.0, "passes": 0}, "0.00 GiB were tested"),
        ({"tested_mib": 2000.0, "cache_mib": 1152.0}, "of at least 2.25"),
        ({"tested_mib": 5000.0, "passes": 0}, "were tested with patterns"),
        ({"tested_mib": float("nan")}, "nan GiB were tested"),
    ],
)
def test_too_little_memory_under_test_is_not_measured(run, changes, reason):
    loaded, recording = run
    found = verdict(loaded, changed_test(recording, **changes))
    assert found.outcome is Outcome.NOT_MEASURED
    assert reason in found.detail


def test_a_test_that_did_not_end_is_not_measured(run):
    loaded, recording = run
    recording.put(RamTest, [])
    recording.add(Event(9.0, "worker_died", "n1/gpu0", "killed by signal 9", "ram", "n1/gpu0#0"))
    found = verdict(loaded, recording)
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail == "the test with patterns did not end: killed by signal 9 (at t=9 s)"


def test_without_copies_the_host_is_not_measured(run):
    loaded, recording = run
    recording.put(Round, [one for one in recording.rounds if one.label("operation") != "copy"])
    recording.add(Event(8.0, "ram_short", "n1", "copies need 2 × 1024 MiB, and 100 MiB are free", "ram"))
    found = verdict(loaded, recording)
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail == "0 verified rounds of copies; copies need 2 × 1024 MiB, and 100 MiB are free"


def test_the_table_has_a_row_for_each_host(run):
    _, recording = run
    [table] = tables(recording)
    assert [row[0] for row in table.rows] == ["n1", "n2", "n3"]
    assert all(len(row) == len(table.columns) for row in table.rows)
    recording.put(Round, [])
    [table] = tables(recording)
    assert table.rows[0][1:4] == ("–", "–", "–")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("buffer_gib", 0.1),
        ("reserve_gib", 0.1),
        ("reserve_share", 0.95),
        ("least_gib", 0.1),
        ("peer_share", 0.2),
    ],
)
def test_settings_with_which_nothing_is_measured_are_refused(key, value):
    problems = lint_rig(rig(1, {key: value}))
    assert any(one.startswith(f"lab.toml: stages.ram.{key} = {value:g}: ") for one in problems), problems


def test_a_nodes_own_settings_are_linted_too():
    problems = lint_rig(rig(2, stages={"ram": {"peer_share": 0.2}}))
    assert any("nodes[0].stages.ram.peer_share = 0.2" in one for one in problems), problems


def test_memory_that_was_tested_whole_is_100_percent_of_it():
    size_mib = 64 * 1024.0
    test = RamTest(9.0, "ram", "n1#0", "n1", 8, size_mib, size_mib, 0.0, 32.0, size_mib, 2, 0, "")
    assert in_words(test) == "64.0 of 64.0 GiB (100 %) tested with 2 patterns"


@pytest.mark.parametrize("phase", ["warmup", "measure"])
def test_a_round_of_copies_that_arrived_wrong_fails_without_an_event(run, phase):
    loaded, recording = run
    rounds = list(recording.rounds)
    place = next(
        n for n, one in enumerate(rounds) if (one.subject, one.stage, one.phase) == ("n1", "ram", phase)
    )
    rounds[place] = replace(rounds[place], verified=False)
    recording.put(Round, rounds)
    found = verdict(loaded, recording)
    assert (found.outcome, found.from_s) == (Outcome.FAIL, rounds[place].t_s)
    assert found.detail == "wrong words in a round of copy (1 in all)"
    assert verdict(loaded, recording, "n2").outcome is Outcome.PASS


def test_wrong_words_that_only_the_test_counted_are_no_measurement(run):
    loaded, recording = run
    tests = [replace(one, wrong=7) if one.subject == "n1" else one for one in recording.of(RamTest)]
    recording.put(RamTest, tests)
    found = verdict(loaded, recording)
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail == "the test counted 7 wrong words, and no event tells of one"


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({"tested_mib": 2304.0, "cache_mib": 1152.0, "passes": 1}, Outcome.PASS),  # twice the cache
        ({"tested_mib": 2303.0, "cache_mib": 1152.0, "passes": 1}, Outcome.NOT_MEASURED),
    ],
)
def test_one_pass_over_twice_the_cache_is_enough(run, changes, outcome):
    loaded, recording = run
    assert verdict(loaded, changed_test(recording, **changes)).outcome is outcome


def test_of_several_wrong_words_and_rounds_the_first_is_reported(run):
    loaded, recording = run
    rounds = list(recording.rounds)
    places = [n for n, one in enumerate(rounds) if (one.subject, one.stage) == ("n1", "ram")][:2]
    for place in places:
        rounds[place] = replace(rounds[place], verified=False)
    recording.put(Round, rounds)
    found = verdict(loaded, recording)
    assert (found.outcome, found.from_s) == (Outcome.FAIL, rounds[places[0]].t_s)
    assert found.detail.endswith("(2 in all)")
    for t_s, where in ((8.0, "0x1f0"), (9.0, "0x2f0")):
        recording.add(Event(t_s, "ram_error", "n1", f"1 word wrong, the first at offset {where}", "ram"))
    found = verdict(loaded, recording)
    assert (found.from_s, found.detail[-5:]) == (8.0, "0x1f0")


def test_a_test_of_too_little_says_how_much_was_free(run):
    loaded, recording = run
    (own,) = (one for one in recording.of(RamTest) if one.subject == "n1")
    short = replace(own, t_s=own.t_s + 1, tested_mib=256.0, available_mib=5120.0, reserve_mib=2048.0)
    recording.put(RamTest, [short])
    found = verdict(loaded, recording)
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail.startswith("0.25 GiB were tested with patterns, of at least ")
    assert "; 5.0 GiB were free, and 2.0 GiB stay free" in found.detail


def test_the_rate_may_be_at_its_floor(run):
    loaded, recording = run
    rate = verdict(loaded, recording).measured
    for floor, outcome in ((rate, Outcome.PASS), (rate * 1.001, Outcome.FAIL)):
        assert verdict(rig(3, {"floor_gbps": floor}), recording).outcome is outcome


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"threads": 1}, "it was tested by 1 threads, and its rounds are of 16"),
        ({"passes": 900}, "900 patterns are said to have been verified, and 3 were"),
        ({"tested_mib": 5e6}, "4882.8 GiB are said to have been tested, of "),
    ],
)
def test_a_test_that_says_otherwise_than_its_rounds_is_no_measurement(run, changes, said):
    loaded, recording = run
    recording.put(RamTest, [replace(one, **changes) for one in recording.of(RamTest)])
    found = verdict(loaded, recording)
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail.startswith(said)


def test_two_tests_of_one_host_are_no_measurement(run):
    loaded, recording = run
    recording.put(RamTest, 2 * list(recording.of(RamTest)))
    found = verdict(loaded, recording)
    assert (found.outcome, found.detail) == (
        Outcome.NOT_MEASURED,
        "2 records of ram_test, where one is due",
    )
