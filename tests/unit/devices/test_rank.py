"""Ranks in processes of their own: gloo between real processes, of which one hangs, dies, or never comes."""

import threading
from dataclasses import dataclass

import pytest

from rigproof.devices.process_group import meeting_place
from rigproof.devices.rank import run_rank
from rigproof.devices.specs import Spec
from rigproof.host.addresses import free_ports
from rigproof.records.crews import Member
from support.devices import NodeContext

STEP_S = 1.5  # of a step that a rank waits for in vain
FIRST_S = 60.0
SERVE = """\
import os, signal, time
from dataclasses import dataclass
import torch, torch.distributed as dist
from rigproof.devices.own_process import serve_apart
from rigproof.devices.process_group import Place, Steps, join
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import GLOO, Spec
@dataclass(frozen=True, slots=True)
class LabSpec(Spec):
    def run(self, device, context):
        pass
def work(spec, context):
    rank = context.crew.rank
    place, steps = Place(GLOO, 1), Steps(1.5)
    join(context.crew, place, steps, JOIN_S)
    ones = torch.ones(3)
    with steps.step("sum", 0, 60.0):
        dist.all_reduce(ones)
"""


@dataclass(frozen=True, slots=True)
class LabSpec(Spec):
    def run(self, device, context):
        """Not called."""


@pytest.fixture
def ranks(child_module, children):
    """What each of two ranks reported whose processes do this after a first sum; both have ended."""

    def run(work, *, absent=False):
        join_s = f"JOIN_S = {STEP_S if absent else FIRST_S}\n"
        module = child_module(f"{join_s}{SERVE}{work}\nsys.exit(serve_apart(work, LabSpec))")
        (port,) = free_ports("127.0.0.1", 1)
        contexts = [NodeContext() for _ in range(2)]
        threads = []
        for rank, context in enumerate(contexts):
            context.crew = Member("host", rank, 2, ("127.0.0.1", port))
            if absent and rank:
                continue

            def one(context=context):
                with meeting_place(context.crew):
                    run_rank(module, LabSpec("lab"), context, first_s=FIRST_S, data={"group": ""})

            threads.append(threading.Thread(target=one))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return contexts

    return run


def fronts(contexts):
    return [
        [
            (one.kind, one.data["operation"], one.data["sequence"], one.data["inside"])
            for one in context.records
        ]
        for context in contexts
    ]


def test_ranks_that_get_through_report_what_they_have_and_nothing_else(ranks):
    found = ranks("    Reporter(context, spec.stage).event('said', '', {'sum': ones.tolist()})")
    assert [[one.data for one in context.records] for context in found] == [[{"sum": [2.0, 2.0, 2.0]}]] * 2


def test_the_rank_that_does_not_enter_is_behind_and_a_signal_that_stopped_it_is_seen(ranks):
    found = ranks(
        "    if rank: os.kill(os.getpid(), signal.SIGSTOP)\n"
        f"    with steps.step('sum', 16, {STEP_S}): dist.all_reduce(ones)"
    )
    assert fronts(found) == [[("rank_stuck", "sum", 3, True)], [("rank_stuck", "sum", 2, False)]]
    assert [context.records[0].data["held"] for context in found] == [False, True]
    assert found[0].records[0].subject == "host"
    assert found[1].records[0].message.startswith("rank 1 of 2 (host/cpu0) after sum 2, stopped by a signal:")


def test_a_rank_that_never_comes_is_waited_for_until_the_deadline(ranks):
    assert fronts(ranks("    pass", absent=True)) == [[("rank_stuck", "join", 1, True)], []]


def test_what_nccl_says_of_a_group_that_hangs_is_kept_beside_the_front(ranks):
    """Each rank's process is told where to answer; here rank 1 does not, as without NCCL."""
    found = ranks(
        "    import socket, threading\n"
        "    def answer():\n"
        "        host, _, port = os.environ['NCCL_RAS_ADDR'].rpartition(':')\n"
        "        with socket.create_server((host, int(port))) as server:\n"
        "            connection, _ = server.accept()\n"
        "            with connection: connection.recv(99) and connection.sendall(b'OK\\nJob summary')\n"
        "    if rank == 0: threading.Thread(target=answer, daemon=True).start()\n"
        f"    with steps.step('sum', 16, {STEP_S}): time.sleep(600)"
    )
    assert fronts(found) == [[("rank_stuck", "sum", 3, True)]] * 2
    assert [context.records[0].data["nccl_ras"] for context in found] == ["Job summary", ""]
