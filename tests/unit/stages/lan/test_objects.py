"""Objects from store to store, between two workers in threads: what comes, and what does not."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from rigproof.host.addresses import free_ports
from rigproof.records.crews import Member
from rigproof.stages.lan import objects
from rigproof.stages.lan.objects import FEWEST_ROUNDS, PASSES, Transfer, numbers
from rigproof.stages.lan.stage import LanSpec, LanTraffic
from support.devices import NodeContext

LIMIT_S = 60.0


class Store:
    """One worker's side of a store; `fault` may change what comes, or raise."""

    def __init__(self, stores, rank, fault):
        self.address, self.room_mb, self.offers = str(rank), 16.0, []
        self._stores, self._fault = stores, fault
        self.held = []
        stores[self.address] = self

    def offer(self, data):
        self.held = [data]
        self.offers.append(data)

    def withdraw(self):
        self.held = []

    def get(self, address, limit_s, go_on):
        return 0.01, self._fault(self._stores[address].held[0])


def both(fault=lambda data: data, ray_s=0.0):
    place, stores = ("127.0.0.1", *free_ports("127.0.0.1", 1)), {}
    contexts = [NodeContext(), NodeContext()]
    made = [Store(stores, rank, fault) for rank in (0, 1)]

    def work(rank):
        context = contexts[rank]
        context.crew, context.worker = Member("pc1+pc2", rank, 2, place), f"pc{rank + 1}/gpu0#0"
        spec = LanSpec("lan", f"pc{rank + 1}", False, 1.0, 0.0, ray_s, 0.1)
        Transfer(spec, context, made[rank], 1000.0).run()

    with ThreadPoolExecutor(2) as ends:
        for done in [ends.submit(work, rank) for rank in (0, 1)]:
            done.result(LIMIT_S)
    return contexts, made


def test_each_object_is_another_one_verified_by_who_gets_it_and_freed():
    (first, second), stores = both()
    companies = ["alone"] * FEWEST_ROUNDS + ["together"] * FEWEST_ROUNDS
    for context, store, direction in zip((first, second), stores, ("back", "out"), strict=True):
        assert [one.label("direction") for one in context.rounds] == [direction] * 2 * FEWEST_ROUNDS
        assert [one.label("company") for one in context.rounds] == companies
        assert [one.phase for one in context.rounds] == ["warmup", *["measure"] * (FEWEST_ROUNDS - 1)] * 2
        assert all(one.verified and one.work == pytest.approx(2.0, rel=1e-3) for one in context.rounds)
        assert store.held == []
        assert len({data.tobytes() for data in store.offers}) == 2 * FEWEST_ROUNDS
        counted = [one for one in context.records if isinstance(one, LanTraffic)]
        out, back = ("sender", "receiver") if context is first else ("receiver", "sender")
        assert [(one.direction, one.company, one.role) for one in counted] == [
            *(("out", "alone", out), ("back", "alone", back)),
            *(("out", "together", out), ("back", "together", back)),
        ]


def test_a_changed_byte_is_found():
    def fault(data):
        changed = np.array(data)
        changed[-1] ^= 1
        return changed

    contexts, _ = both(fault)
    for context in contexts:
        assert not any(one.verified for one in context.rounds)
        assert "an object from pc" in context.events("lan_wrong")[0].message


def test_one_that_does_not_come_while_both_ways_are_busy_is_told_by_who_waits_for_it():
    gets = []

    def fault(data):
        gets.append(data)
        if len(gets) == 2 * FEWEST_ROUNDS + 1:
            raise TimeoutError
        return data

    contexts, stores = both(fault)
    silent = [context.events("lan_silent") for context in contexts]
    assert sorted(map(len, silent)) == [0, 1]
    assert [one.held for one in stores] == [[], []]
    assert max(len(context.rounds) for context in contexts) == FEWEST_ROUNDS + 1


def test_an_object_that_does_not_come_is_told_by_who_waits_for_it_alone():
    def fault(data):
        raise TimeoutError

    (first, second), stores = both(fault)
    assert first.events("lan_silent") == []
    [event] = second.events("lan_silent")
    assert event.message == "ray: nothing came from the store of pc1 for 12 s"
    assert event.data == {"traffic": "ray"}
    assert [one.held for one in stores] == [[], []]


def test_an_error_of_ray_is_no_silence(monkeypatch):
    def fault(data):
        raise RuntimeError("ObjectLostError: it is gone\nand more")

    monkeypatch.setattr(objects, "OBJECT_SILENT_S", 1.0)
    (_, second), _ = both(fault)
    [event] = second.events("lan_unable")
    assert event.message == "ray: ObjectLostError: it is gone"


def test_one_that_never_comes_is_silence(monkeypatch):
    monkeypatch.setattr(objects, "MEET_S", 0.3)
    context = NodeContext()
    context.crew = Member("pc1+pc2", 0, 2, ("127.0.0.1", *free_ports("127.0.0.1", 1)))
    Transfer(LanSpec("lan", "pc1", False, 1.0, 0.0, 1.0, 0.1), context, Store({}, 0, None), 100.0).run()
    [event] = context.events("lan_silent")
    assert event.message.startswith("ray: nobody came to 127.0.0.1:")


def test_objects_differ_by_number_by_pass_and_by_who_has_them():
    every = itertools.product(range(5), range(len(PASSES)), (0, 1))
    assert len({numbers(*one, 64).tobytes() for one in every}) == 30
