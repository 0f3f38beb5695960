"""Two ranks train together on this CPU, each in a process of its own, and one bit of a gradient is wrong."""

import threading
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from rigproof.devices.specs import GLOO, NCCL
from rigproof.host.addresses import free_ports
from rigproof.records.crews import Member
from rigproof.records.measurements import Event, Round
from rigproof.stages.ddp import training, workload
from rigproof.stages.ddp.stage import ALONE, APART, EXCHANGED, OWN, TOGETHER, DdpSpec, Gradients
from rigproof.stages.ddp.training import Rank
from support.devices import NodeContext

SPEC = DdpSpec("ddp", 1000.0, 1.0, 64, 0.1, 4, 1.0, "cpu", 1, GLOO, overtime_s=30.0)
# In rank 1 one bit changes: after the exchange of the second step, and in its own micro-batch.
SPOILED = """
import torch
from rigproof.devices.own_process import serve_apart
from rigproof.stages.ddp import training
from rigproof.stages.ddp.stage import DdpSpec
from rigproof.stages.ddp.workload import _serve
class Spoiled(training.GradientSums):
    made = 0
    def gradients(self, step, model, loss):
        Spoiled.made += 1
        if RANK and Spoiled.made in (2, 3):  # both steps of the exchange, then micro-batch 1
            self._parameters[3].grad.view(-1).view(torch.int32)[5] ^= 1
        super().gradients(step, model, loss)
def work(spec, context):
    global RANK
    RANK = context.crew.rank
    training.GradientSums = Spoiled
    _serve(spec, context)
sys.exit(serve_apart(work, DdpSpec))
"""


def of(records, kind):
    return [one for one in records if isinstance(one, kind)]


def same(first, second, what):
    """Whether both have the same gradients, by number."""
    found = [
        {one.number: one.digest for one in of(records, Gradients) if one.of == what}
        for records in (first, second)
    ]
    assert found[0].keys() == found[1].keys()
    return {number: digest == found[1][number] for number, digest in found[0].items()}


@pytest.fixture
def trained(cpu, child_module, children, monkeypatch):
    """What two ranks emitted whose processes do this."""

    def train(module):
        monkeypatch.setattr(workload, "MODULE", child_module(module))
        (port,) = free_ports("127.0.0.1", 1)
        contexts = [NodeContext() for _ in range(2)]
        threads = []
        for rank, context in enumerate(contexts):
            context.worker, context.subject = f"host/cpu{rank}#0", f"host/cpu{rank}"
            context.crew = Member("rig", rank, 2, ("127.0.0.1", port))
            threads.append(threading.Thread(target=workload.run_ddp, args=(SPEC, cpu, context)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert None not in [one.poll() for one in children]
        return [context.records for context in contexts]

    return train


def test_both_train_one_model_on_other_examples_and_one_wrong_bit_shows(trained):
    first, second = trained(SPOILED)
    assert same(first, second, EXCHANGED) == {0: True, 1: False}
    assert same(first, second, OWN) == {0: True, 1: False}
    number = {}
    for rank, records in enumerate((first, second)):
        (told,) = of(records, Event)
        assert (told.kind, told.data["rank"], told.data["ranks"], told.data["width"]) == (
            "ddp_rank",
            rank,
            2,
            64,
        )
        rounds = of(records, Round)
        assert all(one.verified and one.subject == "rig" for one in rounds)
        parts = [one.label("part") for one in rounds if one.phase == "measure"]
        assert parts.count(ALONE) >= 3
        number[rank] = parts.count(TOGETHER)
    assert number[0] == number[1] >= 3


class Counted:
    """Counts the steps that a rank tells."""

    sequence = 0

    def step(self, _operation, _mib, _limit_s):
        self.sequence += 1
        return nullcontext()


@pytest.mark.parametrize(("part", "agreed"), [(ALONE, False), (APART, False), (TOGETHER, True)])
def test_a_slow_rank_tells_as_many_steps_as_a_fast_one(part, agreed):
    """Who is furthest behind is read from the numbers of their steps."""
    counts = []
    for step_s in (0.01, 5.0):
        steps = Counted()
        done = SimpleNamespace(seconds=step_s, losses=[0.5])
        trainer = SimpleNamespace(
            precision="fp32",
            batch=4,
            shape=SimpleNamespace(width=64, step_flop=float),
            run=lambda _steps, done=done: done,
        )
        rank = Rank(SPEC, SimpleNamespace(kind="cpu"), NodeContext(), SimpleNamespace(rank=0), steps)
        rank._part(trainer, part, 1.0 if agreed else step_s, agreed=agreed)
        counts.append(steps.sequence)
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize(
    ("seconds", "limit_s"), [(0.0, 20.0), (0.9, 20.0), (1.5, 30.0), (4.0, 60.0), (12.0, 60.0), (20.0, 100.0)]
)
def test_a_step_may_take_several_times_what_the_ones_before_took(seconds, limit_s):
    assert training.silence_s(seconds) == limit_s


def test_only_the_first_exchange_which_may_set_up_the_group_has_the_longest_time(rank_of):
    rank, limits = rank_of(GLOO), []

    def step(_operation, _mib, limit_s):
        limits.append(limit_s)
        return nullcontext()

    rank._steps = SimpleNamespace(step=step)
    rank._exchange_s(16)
    assert limits == [60.0, 20.0]


@pytest.mark.parametrize(("agreed", "limit_s"), [(True, 40.0), (False, 60.0)])
def test_a_round_has_its_own_time_and_a_part_that_nobody_waits_for_that_of_all_its_rounds(agreed, limit_s):
    limits = []
    steps = SimpleNamespace(step=lambda *told: limits.append(told[-1]) or nullcontext())
    trainer = SimpleNamespace(
        precision="fp32",
        batch=4,
        shape=SimpleNamespace(width=64, step_flop=float),
        run=lambda _steps: SimpleNamespace(seconds=2.0, losses=[0.5]),
    )
    rank = Rank(SPEC, SimpleNamespace(kind="cpu"), NodeContext(), SimpleNamespace(rank=0), steps)
    rank._part(trainer, TOGETHER, 2.0, agreed=agreed)
    assert set(limits) == {limit_s}


@pytest.fixture
def rank_of(cpu, monkeypatch):
    """Makes the only rank of a crew that exchanges by that backend, without a group."""
    monkeypatch.setattr(training.distributed, "all_reduce", lambda _buffer: None)
    context = NodeContext()
    context.crew = Member("rig", 0, 1, None)
    peers = SimpleNamespace(rank=0, size=1, told=lambda _what, value: [value])
    steps = SimpleNamespace(step=lambda *_: nullcontext())

    def rank_of(backend):
        spec = replace(SPEC, backend=backend, vram_mib=20_000.0, exchange_s=1e6)
        return training.Rank(spec, cpu, context, peers, steps)

    return rank_of


@pytest.mark.parametrize(("backend", "is_tiny"), [(NCCL, False), (GLOO, True)])
def test_all_train_the_cpu_s_small_model_where_one_is_a_cpu(rank_of, backend, is_tiny):
    _, shape = rank_of(backend)._agreed()
    assert (shape.width == 64) is is_tiny


@pytest.mark.parametrize(("backend", "precision"), [(NCCL, "bf16"), (GLOO, "fp32")])
def test_all_compare_gradients_in_fp32_where_one_is_a_cpu(rank_of, monkeypatch, backend, precision):
    begun = []
    trainer = SimpleNamespace(
        precision="bf16",
        model=None,
        forget=lambda: None,
        begin=lambda precision, _batch: begun.append(precision),
        run=lambda *_: SimpleNamespace(norms=[1.0]),
    )
    monkeypatch.setattr(training, "GradientSums", lambda *_: SimpleNamespace(taken=lambda: ["0"]))
    rank_of(backend)._compare(trainer, SimpleNamespace())
    assert begun == [precision]
