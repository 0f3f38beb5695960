"""A wait that passed its deadline while others had the CPU of its host is no finding about the rig."""

import math
import re
from dataclasses import replace

import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.records.measurements import Event
from rigproof.records.verdict import Decision, Outcome, decide
from support.fault_changes import GPU, LONE_WORKER, OTHER, WORKER

TIMEOUTS = "cluster.no_timeouts"
HUNG_S, LIMIT_S = 60.0, 30.0  # when a worker was given up, and how long it was waited for
HOGS = ["pid 71 (stress-ng, user ml) 60 %", "pid 72 (python3, user ml) 30 %"]
HOGGED = {"cpu_percent": 100.0, "own_percent": 2.0}
FILLED = {"cpu_percent": 100.0}


def gives_up(bench, worker=WORKER, **data):
    """The driver waits for a worker for LIMIT_S, in vain."""
    bench.lose(worker, "worker_hung", "killed: no finished round for 30 s", HUNG_S)
    bench.recording.events[-1] = replace(bench.recording.events[-1], data={"limit_s": LIMIT_S, **data})


def during(bench, from_s=HUNG_S - LIMIT_S, to_s=HUNG_S, node="pc1", every=3, **fields):
    """Its host's samples say so, and one of `every` came."""
    bench.host(node, from_s, to_s, **fields)
    bench.sampled_late(node, from_s, to_s, every)


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({}, Outcome.FAIL),
        (HOGGED, Outcome.NOT_MEASURED),
        # A tenth of three of its eight CPUs, for two workers and all else, is 3.75 %.
        ({"cpu_percent": 100, "own_percent": 3.7}, Outcome.NOT_MEASURED),
        ({"cpu_percent": 100, "own_percent": 3.8}, Outcome.FAIL),
        ({"cpu_percent": 97, "own_percent": 0.5}, Outcome.NOT_MEASURED),
        ({"cpu_percent": 96, "own_percent": 0.5}, Outcome.FAIL),
        ({"cpu_percent": 12, "own_percent": 2}, Outcome.FAIL),
        ({"cpu_percent": 99, "own_percent": 97}, Outcome.FAIL),  # its own processes had it
        ({"cpu_percent": 98, "own_percent": 1, "stolen_percent": 95}, Outcome.NOT_MEASURED),
        ({"cpu_percent": 70, "own_percent": 18, "stolen_percent": 50}, Outcome.FAIL),
        ({"cpu_percent": 100, "own_percent": 99, "throttled_percent": 4900}, Outcome.NOT_MEASURED),
        ({"cpu_percent": 100, "own_percent": 99, "throttled_percent": 100}, Outcome.FAIL),
        ({"cpu_percent": 2, "own_percent": 2, "crowded_percent": 97}, Outcome.NOT_MEASURED),
        ({"cpu_percent": 4, "own_percent": 4, "crowded_percent": 60}, Outcome.FAIL),
        ({"cpu_percent": 99, "own_percent": None, "stolen_percent": None}, Outcome.NOT_MEASURED),
        ({"cpu_percent": 77, "own_percent": None, "stolen_percent": None}, Outcome.FAIL),
        ({"cpu_percent": None, "own_percent": None}, Outcome.FAIL),
        ({"cpu_percent": float("nan"), "own_percent": 2}, Outcome.FAIL),
        ({"cpu_percent": float("inf"), "own_percent": 2}, Outcome.FAIL),
    ],
)
def test_a_hang_is_the_rigs_unless_others_left_too_little_of_the_cpu(bench, fields, outcome):
    gives_up(bench)
    during(bench, **fields)
    assert bench.verdict(TIMEOUTS, "rig").outcome is outcome
    wanted = Decision.REJECTED if outcome is Outcome.FAIL else Decision.INCOMPLETE
    assert decide(bench.verdicts()) is wanted


@pytest.mark.parametrize(
    ("from_s", "to_s", "node", "outcome"),
    [
        (30, 60, "pc1", Outcome.NOT_MEASURED),
        (30.5, 70, "pc1", Outcome.NOT_MEASURED),
        (35, 60, "pc1", Outcome.FAIL),  # for five seconds it had all that it needs
        (0, 29.9, "pc1", Outcome.FAIL),
        (60.2, 136, "pc1", Outcome.FAIL),
        (0, 136, "pc2", Outcome.FAIL),
    ],
)
def test_who_took_the_cpu_of_another_host_or_at_another_time_explains_nothing(
    bench, from_s, to_s, node, outcome
):
    gives_up(bench)
    during(bench, from_s, to_s, node, **HOGGED)
    assert bench.verdict(TIMEOUTS, "rig").outcome is outcome


@pytest.mark.parametrize(
    ("every", "outcome"), [(1, Outcome.FAIL), (2, Outcome.FAIL), (3, Outcome.NOT_MEASURED)]
)
def test_a_run_whose_own_samples_come_in_time_gets_the_cpu_that_it_asks_for(bench, every, outcome):
    """Others use what a run that hangs does not want: that does not explain why it hangs."""
    gives_up(bench)
    during(bench, every=every, **HOGGED)
    assert bench.verdict(TIMEOUTS, "rig").outcome is outcome


def without_samples(bench, from_s, to_s):
    bench.recording.host_samples = [
        one for one in bench.recording.host_samples if one.subject != "pc1" or not from_s < one.t_s < to_s
    ]


@pytest.mark.parametrize(
    ("died_s", "back_s", "every", "is_excused"),
    [
        (35.0, 200.0, 1, False),  # it has no successor
        (35.0, 200.0, 3, True),
        (35.0, 58.0, 1, False),
        (35.0, 58.0, 3, True),
        (30.4, 33.0, 1, False),
        (30.4, 33.0, 3, True),
        (20.0, 65.0, 1, False),  # there was none in all the time that was waited
        (20.0, 65.0, 3, False),
        (60.4, 70.0, 1, False),  # its last samples did not reach the driver
        (60.4, 70.0, 3, True),
    ],
)
def test_samples_that_are_missing_since_their_agent_ended_excuse_no_hang(
    bench, died_s, back_s, every, is_excused
):
    """They are missing from a second before that was noticed until its successor takes some."""
    gives_up(bench)
    during(bench, 15, 75, every=every, **HOGGED)
    without_samples(bench, died_s - 1, back_s)
    bench.event("agent_died", "pc1", "the node agent is gone: killed", died_s)
    assert excuses_the_hang(bench) is is_excused
    assert bench.verdict(TIMEOUTS, "rig").outcome is Outcome.FAIL  # of the agent itself


@pytest.mark.parametrize(
    "more",
    [
        {"agent_died": {"limit_s": LIMIT_S}},  # it did not answer
        {"agent_died": {}, "node_lost": {}},
    ],
)
def test_an_agent_that_may_have_had_no_cpu_time_leaves_the_question_to_its_samples(bench, more):
    gives_up(bench)
    during(bench, **HOGGED)
    without_samples(bench, 33, 200)
    for kind, data in more.items():
        bench.event(kind, "pc1", "no answer", HUNG_S, **data)
    assert excuses_the_hang(bench)


def excuses_the_hang(bench):
    (hang,) = Evidence(bench.recording, bench.loaded).events.of(GPU, "worker_hung")
    return "disturbed" in hang.data


def test_who_took_it_is_named_with_what_to_do(bench):
    gives_up(bench)
    during(bench, **HOGGED)
    bench.event("host_load", "pc1", "the CPU load has ended", 70, own_percent=0.4, foreign_percent=98,
                short_cpus=0.0, foreign=HOGS)  # fmt: skip
    verdict = bench.verdict(TIMEOUTS, "rig")
    assert verdict.detail == (
        f"{WORKER}: killed: no finished round for 30 s; meanwhile others left 2 % of the CPU of pc1: other "
        f"programs took 98 % of the CPU ({HOGS[0]}, {HOGS[1]})"
    )
    assert verdict.remedy.startswith("end these programs")
    during(bench, every=1, cpu_percent=99, own_percent=None, stolen_percent=None)
    verdict = bench.verdict(TIMEOUTS, "rig")
    assert "meanwhile others left 1 % of the CPU of pc1: by whom the rest was used is not" in verdict.detail


def test_a_real_failure_beside_a_starved_one_still_fails(bench):
    gives_up(bench)
    gives_up(bench, LONE_WORKER)
    during(bench, **HOGGED)
    verdict = bench.verdict(TIMEOUTS, "rig")
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, 1)
    assert verdict.detail.startswith(f"{LONE_WORKER}: ")


def only(bench, *kept):
    """Of the samples of pc1 from the wait on those of these times."""
    bench.recording.host_samples = [
        one
        for one in bench.recording.host_samples
        if one.subject != "pc1" or one.t_s < 30 or any(a <= one.t_s <= b for a, b in kept)
    ]


@pytest.mark.parametrize(
    ("kept", "outcome"),
    [
        ([(59.85, 60.05)], Outcome.NOT_MEASURED),  # a single one, which says what was since the one before
        ([(62.0, 62.25)], Outcome.NOT_MEASURED),  # and after the agent was given up
        ([(30, 31.5)], Outcome.NOT_MEASURED),  # then none came any more
        ([], Outcome.FAIL),  # nothing says that anybody took it
    ],
)
def test_a_host_without_a_free_cpu_is_sampled_late_or_not_at_all(bench, kept, outcome):
    gives_up(bench)
    during(bench, to_s=65, **HOGGED)
    only(bench, *kept)
    assert bench.verdict(TIMEOUTS, "rig").outcome is outcome


@pytest.mark.parametrize("kept", [[(59.85, 60.05)], [(62.0, 62.25)], [(30, 31.5)], []])
def test_an_idle_host_that_is_sampled_late_excuses_nothing(bench, kept):
    gives_up(bench)
    during(bench, to_s=65, cpu_percent=5, own_percent=1)
    only(bench, *kept)
    assert bench.verdict(TIMEOUTS, "rig").outcome is Outcome.FAIL
    bench.drop("host_samples", "pc1")
    assert bench.verdict(TIMEOUTS, "rig").outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("own", "until_s", "kept", "outcome"),
    [
        # Half of three of its eight CPUs, for two workers and all else, is 18.75 %.
        (18, 30, [], Outcome.NOT_MEASURED),
        (20, 30, [], Outcome.FAIL),
        (18, 29, [], Outcome.FAIL),  # they were gone a second before it fell silent
        (18, 65, [(40, 40.25)], Outcome.FAIL),  # a single reading says that it had what it needs
        (18, 65, [(62.0, 62.25)], Outcome.FAIL),  # so does one that came after it was given up
    ],
)
def test_a_host_that_fell_silent_while_others_took_most_of_it_is_not_blamed(
    bench, own, until_s, kept, outcome
):
    """Programs that come within the second in which its agent passes its samples on leave no other trace."""
    during(bench, 20, until_s, every=1, cpu_percent=100, own_percent=own)
    only(bench, *kept)
    gives_up(bench)
    bench.recording.add(lost("node_lost", "pc1"))
    bench.recording.add(replace(lost("agent_died", "pc1", data={}), t_s=HUNG_S - 0.1))
    assert bench.verdict(TIMEOUTS, "rig").outcome is outcome
    assert bench.verdict("cluster.nodes_present", "pc1").outcome is outcome
    (node,) = (one for one in bench.recording.events if one.kind == "node_lost")
    bench.recording.events[bench.recording.events.index(node)] = replace(node, data={})
    assert bench.verdict("cluster.nodes_present", "pc1").outcome is Outcome.FAIL  # its port does not answer


def stuck(bench, limit_s=LIMIT_S, kind="rank_stuck"):
    """What the evidence tells of a rank that was silent so long, or that was left alone by one."""
    told = {"limit_s": limit_s, "sequence": 7, "inside": True}
    where = {"stage": "collective", "worker": LONE_WORKER, "data": told}
    bench.recording.add(Event(HUNG_S, kind, "rig", "rank 1 was silent", **where))
    (found,) = Evidence(bench.recording, bench.loaded).events.of("rig", kind)
    return found


@pytest.mark.parametrize(
    ("fields", "by_others"),
    [
        ({}, False),
        (FILLED | {"own_percent": 40}, True),
        (FILLED | {"own_percent": 60}, False),
        (FILLED | {"own_percent": 20, "own_waited_percent": 70}, True),
        (FILLED | {"own_percent": 20, "own_waited_percent": 30}, False),  # they gave way: it did not want it
        (FILLED | {"own_percent": 95, "own_waited_percent": 90}, False),  # by its own ranks
        ({"cpu_percent": 50, "own_percent": 10}, False),  # whoever wants idle CPUs has them
        ({"cpu_percent": 95, "own_percent": 20, "stolen_percent": 70}, True),
        ({"cpu_percent": None, "own_percent": None}, False),
    ],
)
def test_a_rank_stands_still_by_itself_unless_others_kept_half_of_what_it_needs(bench, fields, by_others):
    bench.node("pc2", cpus=2)
    during(bench, node="pc2", every=1, **fields)
    assert ("disturbed" in stuck(bench).data) == by_others
    assert ("disturbed" in stuck(bench, kind="rank_died").data) == by_others


def test_of_a_rank_on_a_busy_host_it_is_said_who_made_it_so(bench):
    bench.node("pc2", cpus=2)
    bench.event("host_load", "pc2", "CPU load", 10, foreign=HOGS)
    during(bench, node="pc2", every=1, cpu_percent=100, own_percent=2)
    who = (
        "others left 2 % of the CPU of pc2: other programs took 98 % of the CPU (pid 71 (stress-ng, user ml)"
    )
    found = stuck(bench)
    assert found.message == "rank 1 was silent"  # the verdict on its group says the rest
    assert found.data["meanwhile"].startswith(who)
    assert found.data["disturbed"].startswith("end these programs")


@pytest.mark.parametrize(
    ("node", "limit_s", "by_others"), [("pc1", LIMIT_S, False), ("pc2", LIMIT_S, True), ("pc2", None, False)]
)
def test_a_rank_is_held_against_its_own_host(bench, node, limit_s, by_others):
    bench.node(node, cpus=2)
    during(bench, node=node, every=1, **HOGGED)
    assert ("disturbed" in stuck(bench, limit_s).data) == by_others


def lost(kind, subject, **fields):
    return Event(HUNG_S, kind, subject, "it does not answer", **({"data": {"limit_s": LIMIT_S}} | fields))


@pytest.mark.parametrize(
    ("loss", "outcome"),
    [
        (lost("timeout", GPU, worker=WORKER, stage="sustained"), Outcome.NOT_MEASURED),
        (lost("timeout", GPU), Outcome.NOT_MEASURED),  # NVML
        (lost("timeout", OTHER), Outcome.FAIL),
        (lost("timeout", "rig"), Outcome.NOT_MEASURED),  # the head, wherever it is
        (lost("worker_hung", OTHER, worker=LONE_WORKER), Outcome.FAIL),
        (lost("agent_died", "pc1"), Outcome.NOT_MEASURED),
        (lost("agent_died", "pc1", data={}), Outcome.FAIL),  # it ended, and was not waited for
        (lost("worker_died", GPU), Outcome.NOT_MEASURED),  # with its node
        (lost("worker_died", GPU, data={}), Outcome.FAIL),
        (lost("timeout", "pc9"), Outcome.FAIL),
        *(
            (lost("timeout", GPU, data={"limit_s": limit_s}), Outcome.FAIL)
            for limit_s in (0, -5, float("nan"), None, "30")
        ),
    ],
)
def test_every_wait_is_held_against_the_host_that_it_was_for(bench, loss, outcome):
    bench.recording.add(loss)
    during(bench, **HOGGED)
    assert bench.verdict(TIMEOUTS, "rig").outcome is outcome


@pytest.mark.parametrize(("apart_s", "outcome"), [(0.2, Outcome.NOT_MEASURED), (6.0, Outcome.FAIL)])
def test_an_agent_that_goes_with_a_starved_node_has_its_cause(bench, apart_s, outcome):
    bench.recording.add(lost("node_lost", "pc1"))
    bench.recording.add(replace(lost("agent_died", "pc1", data={}), t_s=HUNG_S - apart_s))
    assert bench.verdict("cluster.nodes_present", "pc1").outcome is Outcome.FAIL
    during(bench, **HOGGED)
    assert bench.verdict("cluster.nodes_present", "pc1").outcome is Outcome.NOT_MEASURED
    assert bench.verdict(TIMEOUTS, "rig").outcome is outcome


# What an agent read beside eight busy loops at nice -20 on two CPUs, from 9.0 s on: when, the CPU's use, and
# this run's own, in %. The stage had to end at 18.6 s and was given up at 23.1 s.
STARVED = (
    (9.05, 100.9, 5.6), (9.90, 98.8, 5.6), (10.18, 100.2, 0.8), (16.46, None, 0.8), (17.23, 99.4, 0.8),
    (17.84, 100.1, 0.9), (21.15, None, 0.9), (22.03, 99.9, 0.3), (22.71, 100.6, 0.3), (23.62, 99.3, 0.3),
    (24.14, 100.0, 1.4), (28.86, None, 1.4), (28.91, 92.0, 1.4),
)  # fmt: skip


@pytest.mark.parametrize("until_s", [30, 23, 20, 10.5])
def test_a_stage_that_really_was_kept_from_its_end_is_nobodys_fault_here(bench, until_s):
    """However many of these readings still reach the driver."""
    bench.node("pc1", cpus=2)
    ago_s = HUNG_S - 23.1
    read = [
        replace(
            one,
            t_s=t_s + ago_s,
            cpu_percent=used,
            own_percent=own,
            stolen_percent=None if used is None else 0.3,
        )
        for one, (t_s, used, own) in zip(bench.recording.host_samples, STARVED, strict=False)
        if t_s < until_s
    ]
    before = [one for one in bench.recording.host_samples if one.t_s < 9.0 + ago_s and one.subject == "pc1"]
    others = [one for one in bench.recording.host_samples if one.subject != "pc1"]
    bench.recording.host_samples = [*before, *read, *others]
    bench.lose(WORKER, "worker_hung", "killed: sustained did not end within 10 s", HUNG_S)
    bench.recording.events[-1] = replace(bench.recording.events[-1], data={"limit_s": 10.0})
    verdict = bench.verdict(TIMEOUTS, "rig")
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert re.search(
        r"meanwhile others left [\d.]+ % of the CPU of pc1: other programs took 9\d %", verdict.detail
    )
    assert decide(bench.verdicts()) is Decision.INCOMPLETE


def test_the_work_that_a_starved_host_did_not_do_is_not_the_cards(bench):
    bench.recording.add(lost("timeout", GPU, worker=WORKER, stage="sustained"))
    gives_up(bench)
    during(bench, **HOGGED)
    for criterion in ("memory.success_rate", "throughput.sustained", "activity.gpu_active"):
        verdict = bench.verdict(criterion, GPU)
        assert verdict.outcome is not Outcome.FAIL, criterion


def test_how_little_is_too_little_is_the_profiles(bench):
    gives_up(bench)
    during(bench, cpu_percent=100, own_percent=5)
    cpu = bench.loaded.rig.cpu.model_dump()
    assert bench.verdict(TIMEOUTS, "rig").outcome is Outcome.FAIL
    bench.rig(cpu=cpu | {"starved_percent": 20})
    assert bench.verdict(TIMEOUTS, "rig").outcome is Outcome.NOT_MEASURED
    bench.rig(cpu=cpu | {"starved_percent": None})
    assert bench.verdict(TIMEOUTS, "rig").outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("cpus", "own", "outcome"),
    [
        (2, 9.9, Outcome.NOT_MEASURED),  # it would use both of them
        (2, 10.1, Outcome.FAIL),
        (128, 2, Outcome.FAIL),  # two and a half CPUs
        (128, 0.2, Outcome.NOT_MEASURED),  # a quarter of one, for three processes
    ],
)
def test_how_little_depends_on_how_many_cpus_there_are(bench, cpus, own, outcome):
    gives_up(bench)
    bench.node("pc1", cpus=cpus)
    during(bench, cpu_percent=100, own_percent=own)
    assert bench.verdict(TIMEOUTS, "rig").outcome is outcome


def test_a_card_whose_only_worker_was_kept_from_the_cpu_is_not_called_idle(bench):
    """The other card's load goes on meanwhile, so that this one has a window in which it did nothing."""
    every = list(bench.recording.rounds)
    bench.lose(LONE_WORKER, "worker_hung", "killed: no finished round for 30 s", HUNG_S)
    worked_s = HUNG_S - LIMIT_S - 0.9  # the driver looks twice a second, and is late itself
    bench.recording.events[-1] = replace(bench.recording.events[-1], data={"limit_s": LIMIT_S})
    bench.recording.rounds = [
        one for one in every if one.worker != LONE_WORKER or one.t_s <= worked_s or one.stage != "sustained"
    ]
    assert bench.verdict("activity.gpu_active", OTHER).outcome is Outcome.FAIL
    during(bench, node="pc2", **HOGGED)
    assert bench.verdict("activity.gpu_active", OTHER).outcome is Outcome.NOT_MEASURED
    assert decide(bench.verdicts()) is Decision.INCOMPLETE


@pytest.mark.parametrize(
    ("fields", "cpus", "outcome"),
    [
        ({}, 2, Outcome.FAIL),
        ({"cpu_percent": 100, "own_percent": 40}, 2, Outcome.NOT_MEASURED),  # of two CPUs it needs both
        ({"cpu_percent": 100, "own_percent": 70}, 2, Outcome.FAIL),  # three tenths are not half
        ({"cpu_percent": 65, "own_percent": 35}, 2, Outcome.FAIL),  # 30 % were taken, but 35 % were idle
        ({"cpu_percent": 90, "own_percent": 60, "stolen_percent": 20}, 2, Outcome.FAIL),
        ({"cpu_percent": 98, "own_percent": 30, "stolen_percent": 60}, 2, Outcome.NOT_MEASURED),
        ({"cpu_percent": 54, "own_percent": 1}, 2, Outcome.NOT_MEASURED),
        ({"cpu_percent": 50, "own_percent": 1}, 2, Outcome.FAIL),  # whoever wants idle CPUs has them
        ({"cpu_percent": 100, "own_percent": 40}, 128, Outcome.FAIL),  # it had fifty
        ({"cpu_percent": 100, "own_percent": None, "stolen_percent": None}, 2, Outcome.FAIL),
        # Others of a low priority filled the host: its worker waited for a CPU hardly ever.
        (FILLED | {"own_percent": 40, "own_waited_percent": 2}, 2, Outcome.FAIL),
        (FILLED | {"own_percent": 10, "own_waited_percent": 30}, 2, Outcome.FAIL),
        (FILLED | {"own_percent": 1, "own_waited_percent": 2}, 2, Outcome.FAIL),
        (FILLED | {"own_percent": 40, "own_waited_percent": 55}, 2, Outcome.NOT_MEASURED),
        (FILLED | {"own_percent": 1, "own_waited_percent": 95}, 2, Outcome.NOT_MEASURED),
        (FILLED | {"own_percent": 70, "own_waited_percent": 300}, 2, Outcome.FAIL),  # by its many threads
        (FILLED | {"own_percent": 40, "own_waited_percent": math.nan}, 2, Outcome.NOT_MEASURED),
        # A hypervisor's part is none of the waits that the kernel knows of.
        (
            FILLED | {"own_percent": 30, "stolen_percent": 60, "own_waited_percent": 0},
            2,
            Outcome.NOT_MEASURED,
        ),
        (FILLED | {"own_percent": 30, "stolen_percent": 5, "own_waited_percent": 3}, 2, Outcome.FAIL),
    ],
)
def test_a_card_is_slow_by_itself_unless_others_left_its_host_that_much_less_cpu(
    bench, fields, cpus, outcome
):
    bench.node("pc2", cpus=cpus)
    bench.slow(OTHER, 0.5)
    during(bench, 0, 136, "pc2", **fields)
    assert bench.verdict("throughput.sustained", OTHER).outcome is outcome
    bench.event("wrong_result", OTHER, "bf16 result of pair 3 changed", 50)
    assert bench.verdict("throughput.sustained", OTHER).outcome is Outcome.FAIL


@pytest.mark.parametrize(("own_percent", "outcome"), [(9.9, Outcome.NOT_MEASURED), (10, Outcome.FAIL)])
def test_less_than_a_tenth_of_the_cpu_is_an_excuse_for_any_rate(bench, own_percent, outcome):
    """And a tenth is one for a rate of a tenth."""
    bench.node("pc2", cpus=2)
    bench.slow(OTHER, 0.05)
    during(bench, 0, 136, "pc2", cpu_percent=100, own_percent=own_percent)
    assert bench.verdict("throughput.sustained", OTHER).outcome is outcome


def test_a_card_that_waited_for_its_host_is_not_idle_by_itself(bench):
    bench.node("pc2", cpus=2)
    bench.recording.rounds = [
        one
        for one in bench.recording.rounds
        if one.subject != OTHER or one.stage != "sustained" or not 50 < one.t_s < 60
    ]
    assert bench.verdict("activity.gpu_active", OTHER).outcome is Outcome.FAIL
    during(bench, 49.5, 60, "pc2", **HOGGED)
    bench.event("host_load", "pc2", "the CPU load has ended", 70, foreign=HOGS)
    verdict = bench.verdict("activity.gpu_active", OTHER)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert HOGS[0] in verdict.detail
    assert Outcome.FAIL not in {one.outcome for one in bench.verdicts()}
    bench.node("pc2", cpus=256)  # of which others left five
    assert bench.verdict("activity.gpu_active", OTHER).outcome is Outcome.FAIL
