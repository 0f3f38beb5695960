"""Real groups: gloo between processes on this machine, of which one lies, dies, or hangs."""

import threading
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from rigproof.criteria.evidence.fronts import halt
from rigproof.devices import rank as ranks_worker
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import GLOO, NCCL
from rigproof.host.addresses import free_ports
from rigproof.records.crews import Member
from rigproof.records.measurements import Event
from rigproof.stages.collective import workload
from rigproof.stages.collective.blame import next_step
from rigproof.stages.collective.stage import OPERATIONS, Case, CollectiveSpec
from rigproof.stages.collective.tested import rates_of, trial_of
from rigproof.stages.collective.workload import Agreed, RankWork, run_collective
from support.devices import NodeContext
from support.two_devices import needs_gpus

SPEC = CollectiveSpec(
    "collective",
    backend=GLOO,
    rig_backend=GLOO,
    operations=OPERATIONS,
    sizes_mib=(0, 1),
    other_sizes_mib=(1,),
    buffers_mib=4,
    threads=1,
    seconds=0.2,
    round_s=0.01,
    join_s=59.0,
    first_s=20.0,
    least_s=1.0,
    patience=20.0,
)
# A rank that does something else before it joins, or in an operation: `hurt` gets the place of its answer.
LYING = """\
import os, signal, time, torch
from rigproof.stages.collective import operations
from rigproof.stages.collective.workload import RankWork, serve
class Rank(RankWork):
    def run(self):
        {first}
        super().run()
    def make(self, case, repeats):
        made = super().make(case, repeats)
        start = made.start
        def hurt(place, number):
{before}
            start(place, number)
{after}
        made.start = hurt
        return made
if __name__ == "__main__":
    serve(Rank)
"""


@pytest.fixture
def group(cpu, monkeypatch, child_module, children):
    """What each rank of a group reported whose ranks do this first, or before or after each operation.

    `cpus`: the numbers of its devices; else those of the ranks.
    """

    def run(ranks, spec=SPEC, *, first="pass", before="pass", after="pass", cpus=None):
        if {first, before, after} != {"pass"}:
            indent = " " * 12
            code = LYING.format(first=first, before=indent + before, after=indent + after)
            monkeypatch.setattr(workload, "MODULE", child_module(code))
        (port,) = free_ports("127.0.0.1", 1)
        contexts, threads = [NodeContext() for _ in range(ranks)], []
        for rank, (context, cpu_number) in enumerate(zip(contexts, cpus or range(ranks), strict=True)):
            context.worker, context.subject = f"host/cpu{cpu_number}#0", f"host/cpu{cpu_number}"
            context.crew = Member("host", rank, ranks, ("127.0.0.1", port))
            threads.append(threading.Thread(target=run_collective, args=(spec, cpu, context)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return contexts

    return run


def test_every_operation_is_right_at_every_size_and_a_changed_tail_is_found_on_its_rank(group):
    after = "if self.crew.rank == 1 and case.operation == 'broadcast': made.answers[place][-1] += 1"
    found = group(3, after=after)
    for rank, context in enumerate(found):
        rounds = Counter(
            (one.label("operation"), one.label("mib"), one.verified)
            for one in context.rounds
            if one.phase != "warmup"
        )
        lies = rank == 1
        assert set(rounds) == {("all_reduce", 0, True)} | {
            (one, 1, not (lies and one == "broadcast")) for one in OPERATIONS
        }
        assert min(rounds.values()) >= 3
        assert {one.subject for one in context.rounds} == {"host"}
        assert {one.label("ranks") for one in context.rounds} == {3}
    wrong = [one for context in found for one in context.events("wrong_result")]
    assert [one.data["rank"] for one in wrong] == [1]  # once, for all rounds
    assert (wrong[0].data["operation"], wrong[0].data["elements"]) == ("broadcast", 1)
    assert wrong[0].data["first"] == wrong[0].data["last"] == 262_142
    assert wrong[0].message.startswith(
        "broadcast of 1 MiB on rank 1 (host/cpu1): 1 of 262143 elements are wrong, from 262142 to 262142; "
    )


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGSTOP"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_rank_that_dies_or_is_stopped_inside_an_operation_is_named(group, children, operation, signal):
    """Whoever is left ends, too, and says how far it came."""
    before = (
        f"if self.crew.rank == 1 and case.operation == '{operation}' and case.mib:\n"
        f"                os.kill(os.getpid(), signal.{signal})"
    )
    operations = tuple(dict.fromkeys(("all_reduce", operation)))
    fine, hurt = group(2, replace(SPEC, operations=operations, first_s=5.0), before=before)
    (event,) = [one for one in hurt.records if getattr(one, "kind", "").startswith("rank_")]
    assert event.subject == "host", event.message
    assert (event.data["rank"], event.data["operation"], event.data["inside"]) == (1, operation, True), event
    kind, key, value = ("rank_died", "status", -9) if signal == "SIGKILL" else ("rank_stuck", "held", True)
    assert (event.kind, event.data[key]) == (kind, value)
    (other,) = [one for one in fine.records if getattr(one, "kind", "").startswith("rank_")]
    assert (other.data["rank"], other.data["held"], other.data["status"]) == (0, False, None)
    ended = halt([event, other], 2)
    assert (ended.missing, ended.operation, ended.by_others) == (("host/cpu1",), operation, True)
    done = {one.label("operation") for context in (fine, hurt) for one in context.rounds}
    assert done == {"all_reduce"}  # what came before is there; of all-reduces those of 4 bytes
    assert len(children) == 2
    assert None not in [one.poll() for one in children]  # the one that was left alone has ended, too


def test_a_rank_that_never_meets_the_others_is_named_when_the_time_to_join_is_over(group):
    found = group(2, replace(SPEC, join_s=5.0), first="if self.crew.rank == 1: time.sleep(600)")
    waited, late = [one for context in found for one in context.records]
    assert all(one.message.endswith("it was silent for 5 s") for one in (waited, late))
    ended = halt([waited, late], 2)
    assert (ended.how, ended.missing, ended.by_others) == ("stuck", ("host/cpu1",), False)
    assert ended.words == "rank 1 (host/cpu1) stood still after start 0, and the others waited inside join 1"


STALLS = """
        own, started = self._start, []
        def start(*arguments):
            started.append(1)
            if self.crew.rank == 1 and len(started) == 9: time.sleep(600)
            own(*arguments)
        self._start = start
"""


def test_of_two_ranks_the_one_that_hangs_between_two_operations_of_a_batch_is_named(group):
    found = group(2, replace(SPEC, first_s=5.0), first=STALLS)
    events = [one for context in found for one in context.events("rank_stuck")]
    ended = halt(events, 2)
    assert (ended.how, ended.missing) == ("stuck", ("host/cpu1",)), events
    assert "stood still between two operations" in ended.words


def test_a_rank_that_hangs_without_a_signal_is_named_by_groups_with_and_without_it(group):
    """All of its group stand in the same operation."""
    before = "if self.context.subject == 'host/cpu1' and case.mib: time.sleep(600)"
    spec = replace(SPEC, operations=("all_reduce",), first_s=2.5)
    devices, results = tuple(f"host/cpu{number}" for number in range(3)), []
    while groups := (step := next_step(devices, results)).groups:
        for members in groups:
            numbers = [int(one[-1]) for one in members]
            found = group(len(members), spec, before=before, cpus=numbers)
            events = [one for context in found for one in context.records if isinstance(one, Event)]
            rates = rates_of([one for context in found for one in context.rounds], len(members), group="")
            results.append(trial_of(members, events, rates, group="", least={}))
            assert (results[-1].result == "stuck") is ("host/cpu1" in members)  # and no signal is said to be
    assert [(one.kind, one.one) for one in step.culprits] == [("gpu", ("host/cpu1",))]


def test_a_group_that_is_told_to_stop_ends_and_says_nothing(group, monkeypatch):
    monkeypatch.setattr(NodeContext, "stopped", lambda self: len(self.rounds) > 2)
    found = group(2, replace(SPEC, seconds=600.0))
    assert [[one for one in context.records if hasattr(one, "kind")] for context in found] == [[], []]


def test_what_connects_the_ranks_costs_no_size_its_time(group):
    """The first all-to-all waits as long as all the time that the ranks have."""
    first = "case.operation == 'all_to_all' and not case.mib and repeats == 1"
    before = f"if {first}: time.sleep(1.9)"
    spec = replace(SPEC, operations=("all_reduce", "all_to_all"), other_sizes_mib=(0, 1), seconds=1.8)
    for context in group(2, spec, before=before):
        assert context.events("size_left_out") == []
        elements = {one.label("elements") for one in context.rounds if one.label("operation") == "all_to_all"}
        assert elements == {1, 131_071, 131_072}


@pytest.mark.parametrize(
    ("each_s", "left_s", "done"),
    [
        (2.0, -10.0, True),  # its limit is worth some time more
        (2.0, -20.0, False),  # but not so much that the driver ends the stage for it
        (9.0, 20.0, False),
        (11.0, 100.0, False),  # a rank would count as stuck
    ],
)
def test_what_is_due_is_done_late_but_not_however_slow_the_link_is(each_s, left_s, done):
    context = NodeContext()
    context.crew = Member("host", 0, 2)
    work = SimpleNamespace(
        _foreseen={"": (1, each_s / 16), "broadcast": (1, each_s / 16)},
        spec=SPEC,
        crew=context.crew,
        _reporter=Reporter(context, "collective", "host"),
    )
    assert RankWork._fits(work, Case("all_reduce", 16, odd=True), left_s) is done
    assert bool(context.events("size_left_out")) is not done
    assert not RankWork._fits(work, Case("broadcast", 16, odd=True), min(left_s, -10.0))


@pytest.mark.parametrize(
    ("case", "foreseen", "warm", "paced", "measured"),
    [
        (Case("all_to_all", 1, odd=True), {}, 2, 0, 3),  # of four H200 the first one takes 1.4 s
        (Case("all_to_all", 1, odd=True), {"all_to_all": (1, 0.001)}, 1, 0, 3),
        (Case("all_to_all", 0, odd=True), {}, 1, 0, 3),
        (Case("all_reduce", 16, odd=True), {"all_reduce": (1, 0.001)}, 1, 2, 5),
        (Case("all_reduce", 16, odd=True), {"all_reduce": (1, 0.001)}, 1, 99, 12),
    ],
)
def test_what_connects_the_ranks_or_waits_for_a_host_leaves_rounds_of_many_operations(
    case, foreseen, warm, paced, measured
):
    """`paced`: in so many rounds a host sets the pace; there are others in their place, up to a bound."""
    rounds, taken_s = [], iter([1.4] * (warm == 2) + [0.0001] * 99)

    def a_round(_case, operation, phase):
        rounds.append((phase, len(operation.answers)))
        work._step_s = next(taken_s)

    work = SimpleNamespace(
        context=SimpleNamespace(now_s=lambda: 0.0),
        spec=replace(SPEC, buffers_mib=4096),
        steps=SimpleNamespace(outside_s=0.0),
        make=lambda _case, repeats: SimpleNamespace(answers=[0] * repeats),
        _round=a_round,
        _agree=lambda: Agreed(-1.0, work._step_s, 0.0, paced=len(rounds) - warm <= paced),
        _foreseen=foreseen,
        _end_s=0.0,
    )
    RankWork._case(work, case, 0.0)
    assert rounds == [("warmup", 1)] * warm + [("measure", 64)] * measured


ARMS = ["without P2P", "without P2P and shared memory"]
OF_GPUS = replace(SPEC, backend=NCCL, rig_backend=GLOO, arm_s=1.5)


@pytest.mark.parametrize(
    ("spec", "subject", "ran"),
    [
        (replace(OF_GPUS, arm_s=0.0), "host", [("nccl", "as it is")]),
        (OF_GPUS, "host", [("nccl", arm) for arm in ("as it is", *ARMS)]),
        (OF_GPUS.in_arm("by LL alone"), "host", [("nccl", "by LL alone")]),
        (OF_GPUS, "rig", [("gloo", "as it is")]),
        (replace(OF_GPUS, rig_backend=NCCL), "rig", [("nccl", "as it is")]),
        (replace(OF_GPUS, backend=GLOO), "host", [("gloo", "as it is")]),
    ],
)
def test_arms_are_of_gpus_of_one_node_and_the_rig_has_a_backend_of_its_own(
    cpu, monkeypatch, spec, subject, ran
):
    found, variables = [], []

    def rank(_module, spec, _context, *, environment, **_more):
        found.append((spec.backend, spec.arm))
        variables.append(bool(environment))
        return False  # a rank that is stuck in one arm goes on with the next

    monkeypatch.setattr(workload, "run_rank", rank)
    context = NodeContext()
    context.crew = Member(subject, 0, 2, ("127.0.0.1", free_ports("127.0.0.1", 1)[0]))
    run_collective(spec, cpu, context)
    assert found == ran
    assert variables == [arm != "as it is" for _, arm in ran]


def test_a_device_alone_checks_its_own_answers(cpu, children):
    spec = replace(SPEC, operations=OPERATIONS, group="host/cpu0", seconds=0.2)
    context = NodeContext()
    context.crew = Member("host", 0, 1)
    run_collective(spec, cpu, context)
    assert context.events("wrong_result") == []
    assert {one.label("operation") for one in context.rounds} == set(OPERATIONS)
    assert {(one.verified and one.work > 0, one.label("ranks")) for one in context.rounds} == {(True, 1)}


@pytest.mark.parametrize(
    ("taken_s", "foreseen_s"),
    [
        ((9.0, 0.02, 0.001, 0.001), 0.001),  # a rank without a CPU for once tells nothing of the network
        ((9.0, 0.02, 0.02, 0.02), 0.02),  # a slow network is slow each time
    ],
)
def test_how_slow_the_network_is_is_not_told_by_one_delay(monkeypatch, taken_s, foreseen_s):
    monkeypatch.setattr(workload.dist, "all_reduce", lambda row: None)
    moments_s = iter([edge for one in taken_s for edge in (0.0, one)])
    work = SimpleNamespace(
        context=SimpleNamespace(now_s=lambda: next(moments_s)),
        place=SimpleNamespace(where="cpu", mark=lambda: SimpleNamespace(wait=lambda: None)),
        _step=lambda *_: nullcontext(),
        _operation="all_reduce",
        _foreseen={},
        _agree=lambda: SimpleNamespace(step_s=work._step_s),
    )
    RankWork._probe(work)
    assert work._foreseen == {"": (1 / 16, foreseen_s)}


@pytest.fixture
def two_hosts(monkeypatch):
    """Two ranks on one GPU seem to be on two hosts: NCCL refuses them otherwise."""
    own = ranks_worker.group_environment

    def environment(crew):
        return {**own(crew), "NCCL_HOSTID": f"host{crew.rank}"}

    monkeypatch.setattr(ranks_worker, "group_environment", environment)


BY_NCCL = replace(SPEC, backend=NCCL, first_s=30.0)
needs_gpu = needs_gpus(1, torch.cuda.device_count())


@needs_gpu
@pytest.mark.parametrize("ranks", [1, 2])
def test_by_nccl_every_answer_of_a_rank_alone_and_of_two_is_right(group, two_hosts, ranks):
    for context in group(ranks, replace(BY_NCCL, group="some")):
        assert [one for one in context.records if hasattr(one, "kind")] == []
        assert {one.label("operation") for one in context.rounds} == set(OPERATIONS)
        assert all(one.verified and one.work > 0 and one.seconds > 0 for one in context.rounds)


@needs_gpu
def test_by_nccl_a_changed_element_is_found_in_a_rank_alone(group, two_hosts):
    after = "torch.cuda.synchronize(); made.answers[place][-1] += 1"
    (context,) = group(1, replace(BY_NCCL, operations=OPERATIONS[:1], group="some"), after=after)
    assert {one.data["operation"] for one in context.events("wrong_result")} == {"all_reduce"}


@needs_gpu
def test_what_nccl_says_of_a_rank_that_does_not_enter_is_kept(group, two_hosts):
    spec = replace(BY_NCCL, operations=OPERATIONS[:1], first_s=5.0)
    before = "if self.crew.rank == 1 and case.mib: import time; time.sleep(60)"
    found = [context.events("rank_stuck") for context in group(2, spec, before=before)]
    assert all("NCCL version" in one.data["nccl_ras"] for (one,) in found)
