"""What a host's RAM is judged by: wrong words, how much was tested, and the rates of equal hosts."""

from dataclasses import replace

import pytest

from rigproof.judging.judge import promised
from rigproof.profiles.lint.rig import lint_rig
from rigproof.records.measurements import Event, Round
from rigproof.records.verdict import Outcome
from rigproof.stages.ram.criteria import in_words, memory, tables
from rigproof.stages.ram.stage import RamSpec, RamTest
from support.equal_hosts import HostRun, asked, host_rig


@pytest.fixture(scope="module")
def simulated():
    return HostRun(host_rig("ram"), memory)


@pytest.fixture
def run(simulated):
    """A run to be changed."""
    return HostRun(simulated.loaded, memory, simulated.recording)


def test_it_is_promised_for_each_node_at_the_levels_that_have_the_stage(run):
    assert promised(memory, run.loaded, run.recording.run.stages) == ("n1", "n2", "n3")
    assert promised(memory, run.loaded, ("gemm", "sustained")) == ()


def test_a_worker_is_asked_to_test_what_is_free_beside_the_reserve_by_a_thread_a_cpu():
    settings = {"buffer_gib": 0.5, "reserve_gib": 3.0, "reserve_share": 0.2, "least_gib": 0.75}
    loaded = host_rig("ram", 1, settings)
    common = {"stage": "ram", "buffer_mib": 512.0, "reserve_mib": 3072.0, "reserve_share": 0.2}
    common |= {"least_mib": 768.0, "duration_s": 3.0, "round_s": 0.1}
    for cpus, threads in ((7.9, 7), (0.5, 1)):
        assert asked(loaded, "ram", cpus) == {"n1/gpu0#0": RamSpec(threads=threads, **common)}


def test_equal_hosts_pass_by_each_other(run):
    found = run.verdict()
    assert found.outcome is Outcome.PASS
    assert found.limit_source.startswith("0.9 of the median of 2 other hosts of this kind; ")
    assert found.detail == "20.9 of 64.0 GiB (33 %) tested with 3 patterns"


def test_with_more_time_all_that_is_free_beside_the_reserve_is_tested():
    loaded = host_rig("ram", 1, {"length_s": {"standard": 30}})
    assert HostRun(loaded, memory).verdict().detail.startswith("38.4 of 64.0 GiB (60 %) tested")


def test_the_slow_one_of_three_fails_and_no_other(run):
    run.slow(0.8, "n2")
    outcomes = [run.verdict(node).outcome for node in ("n1", "n2", "n3")]
    assert outcomes == [Outcome.PASS, Outcome.FAIL, Outcome.PASS]


@pytest.mark.parametrize("changes", [{"cpu_model": "another"}, {"cpus": 8.0}, {"ram_gib": 48.0}])
def test_hosts_of_unlike_kind_are_not_compared(run, changes):
    run.recording.nodes["n1"] = replace(run.recording.nodes["n1"], **changes)
    run.slow(0.5)
    found = run.verdict()
    assert (found.outcome, found.limit) == (Outcome.NO_LIMIT, None)
    assert found.detail.endswith("no other host of this kind to compare with")


def test_a_host_whose_model_is_not_known_has_no_equal(run):
    for name in ("n1", "n2", "n3"):
        run.recording.nodes[name] = replace(run.recording.nodes[name], cpu_model=None)
    assert run.verdict().outcome is Outcome.NO_LIMIT


def test_a_stated_floor_stands_alone_and_a_node_can_have_its_own():
    loaded = host_rig("ram", 2, {"floor_gbps": 1000.0}, stages={"ram": {"floor_gbps": 50.0}})
    run = HostRun(loaded, memory)
    assert run.verdict().outcome is Outcome.PASS
    found = run.verdict("n2")
    assert (found.outcome, found.limit, found.limit_source) == (Outcome.FAIL, 1000.0, "lab.toml")


def test_the_rate_may_be_at_its_floor(run):
    rate = run.verdict().measured
    for floor, outcome in ((rate, Outcome.PASS), (rate * 1.001, Outcome.FAIL)):
        run.loaded = host_rig("ram", 3, {"floor_gbps": floor})
        assert run.verdict().outcome is outcome


def test_of_several_wrong_words_the_first_fails_the_host_however_fast_it_is(run):
    for t_s, where in ((8.0, "0x1f0"), (9.0, "0x2f0")):
        run.recording.add(Event(t_s, "ram_error", "n1", f"1 word wrong, the first at offset {where}", "ram"))
    found = run.verdict()
    assert (found.outcome, found.measured, found.from_s) == (Outcome.FAIL, None, 8.0)
    assert found.detail == "1 word wrong, the first at offset 0x1f0"
    assert run.verdict("n2").outcome is Outcome.PASS


@pytest.mark.parametrize("phase", ["warmup", "measure"])
@pytest.mark.parametrize("number", [1, 2])
def test_rounds_of_copies_that_arrived_wrong_fail_without_an_event(run, phase, number):
    wrong = run.rounds("copy", phase)[:number]
    run.exchange(wrong, *(replace(one, verified=False) for one in wrong))
    found = run.verdict()
    assert (found.outcome, found.from_s) == (Outcome.FAIL, wrong[0].t_s)
    assert found.detail == f"wrong words in a round of copy ({len(wrong)} in all)"
    assert run.verdict("n2").outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tested_mib": 400.0, "cut_short": "another program took memory meanwhile"}, "0.39 GiB were tested"),
        ({"tested_mib": 0.0, "passes": 0}, "0.00 GiB were tested"),
        ({"tested_mib": 2303.0, "cache_mib": 1152.0}, "of at least 2.25"),
        ({"tested_mib": 5000.0, "passes": 0}, "were tested with patterns"),
        ({"tested_mib": float("nan")}, "nan GiB were tested"),
        (
            {"tested_mib": 256.0, "available_mib": 5120.0, "reserve_mib": 2048.0, "cut_short": "gone"},
            "; 5.0 GiB were free, and 2.0 GiB stay free: gone",
        ),
        ({"wrong": 7}, "the test counted 7 wrong words, and no event tells of one"),
        ({"threads": 1}, "it was tested by 1 threads, and its rounds are of 16"),
        ({"passes": 900}, "900 patterns are said to have been verified, and 3 were"),
        ({"tested_mib": 5e6}, "4882.8 GiB are said to have been tested, of "),
    ],
)
def test_a_test_of_too_little_or_one_that_contradicts_itself_is_not_measured(run, changes, reason):
    run.change(RamTest, **changes)
    found = run.verdict()
    assert found.outcome is Outcome.NOT_MEASURED
    assert reason in found.detail


def test_one_pass_over_twice_the_cache_is_enough(run):
    run.change(RamTest, tested_mib=2304.0, cache_mib=1152.0, passes=1)
    assert run.verdict().outcome is Outcome.PASS


def test_a_test_that_did_not_end_is_not_measured(run):
    run.recording.put(RamTest, [])
    run.recording.add(Event(9.0, "worker_died", "n1/gpu0", "killed by signal 9", "ram", "n1/gpu0#0"))
    found = run.verdict()
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail == "the test with patterns did not end: killed by signal 9 (at t=9 s)"


def test_two_tests_of_one_host_are_no_measurement(run):
    run.recording.put(RamTest, 2 * list(run.recording.of(RamTest)))
    found = run.verdict()
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail == "2 records of ram_test, where one is due"


@pytest.mark.parametrize(("left", "outcome"), [(3, Outcome.PASS), (2, Outcome.NOT_MEASURED)])
def test_with_too_few_copies_the_host_is_not_measured(run, left, outcome):
    copies = run.rounds("copy")
    run.exchange(copies, *copies[:left])
    run.recording.add(Event(8.0, "ram_short", "n1", "copies need 2 × 1024 MiB", "ram"))
    found = run.verdict()
    assert found.outcome is outcome
    if outcome is Outcome.NOT_MEASURED:
        assert found.detail == "2 verified rounds of copies; copies need 2 × 1024 MiB"


def test_the_table_has_the_last_test_of_each_host(run):
    tests = list(run.recording.of(RamTest))
    run.recording.put(RamTest, [replace(tests[0], tested_mib=0.0), *tests])
    [table] = tables(run.recording)
    assert [row[0] for row in table.rows] == ["n1", "n2", "n3"]
    assert all(len(row) == len(table.columns) for row in table.rows)
    tested = table.rows[0][4:]
    assert tested[0] != "0.0"
    copies = run.rounds("copy")
    run.recording.put(Round, copies)
    rates = (table.rows[0][1], "–", "–")
    assert next(tables(run.recording)).rows[:1] == (("n1", *rates, *tested),)
    run.recording.put(RamTest, [])
    assert next(tables(run.recording)).rows == (("n1", *rates, "–", "–", "–"),)
    run.recording.put(Round, [])
    assert not list(tables(run.recording))


def test_a_nodes_own_settings_are_linted_too():
    problems = lint_rig(host_rig("ram", 2, stages={"ram": {"peer_share": 0.2}}))
    assert any("nodes[0].stages.ram.peer_share = 0.2" in one for one in problems), problems


def test_memory_that_was_tested_whole_is_100_percent_of_it():
    size_mib = 64 * 1024.0
    test = RamTest(9.0, "ram", "n1#0", "n1", 8, size_mib, size_mib, 0.0, 32.0, size_mib, 2, 0, "")
    assert in_words(test) == "64.0 of 64.0 GiB (100 %) tested with 2 patterns"
    assert in_words(replace(test, passes=1, cut_short="gone")).endswith(" tested with 1 pattern; gone")
