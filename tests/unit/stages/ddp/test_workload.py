"""Two ranks train together on this CPU, each in a process of its own, and one bit of a gradient is wrong."""

import threading

from rigproof.host.addresses import free_ports
from rigproof.records.crews import Member
from rigproof.records.measurements import Event, Round
from rigproof.stages.ddp import workload
from rigproof.stages.ddp.stage import ALONE, EXCHANGED, OWN, TOGETHER, DdpSpec, Gradients
from support.devices import NodeContext

SPEC = DdpSpec("ddp", 1000.0, 1.0, 64, 0.1, 4, 1.0, "cpu", 1)
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


def test_both_train_one_model_on_other_examples_and_one_wrong_bit_shows(
    cpu, child_module, children, monkeypatch
):
    monkeypatch.setattr(workload, "MODULE", child_module(SPOILED))
    (port,) = free_ports("127.0.0.1", 1)
    contexts = [NodeContext() for _ in range(2)]
    threads = []
    for rank, context in enumerate(contexts):
        context.crew = Member("rig", rank, 2, ("127.0.0.1", port))
        threads.append(threading.Thread(target=workload.run_ddp, args=(SPEC, cpu, context)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = (context.records for context in contexts)
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
