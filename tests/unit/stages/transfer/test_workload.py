"""Copies on the CPU: each is verified, in its slot, and noticed where it does not take place."""

from itertools import pairwise

import pytest
import torch

from rigproof.records.crews import Member
from rigproof.records.measurements import GB
from rigproof.stages.transfer import buffers, workload
from rigproof.stages.transfer.buffers import Buffers, fill
from rigproof.stages.transfer.stage import ALONE, D2H, H2D, MEANINGS, TOGETHER, TransferSpec
from rigproof.stages.transfer.workload import DIRECTIONS, run_transfer
from support.devices import RecordingContext

SPEC = TransferSpec("transfer", mib=1, shift=1, shifts=3, setup_s=0.2, shift_s=0.9, together_s=0.9)
BOTH_WAYS = (H2D, D2H)


class InACrew(RecordingContext):
    """Its crew begins at 10 s of a clock that moves whenever it is read."""

    crew = Member("host/cpu0", begins_s=10.0)

    def __init__(self, now_s=10.0, **more):
        super().__init__(**more)
        self._now_s = now_s


@pytest.fixture
def crewed():
    return InACrew()


@pytest.fixture(autouse=True)
def one_copy_a_round(monkeypatch):
    """How many fit into a round's time is up to the host. Waiting only moves the context's clock."""
    monkeypatch.setattr(workload, "ROUND_S", 0.0)
    monkeypatch.setattr(workload, "WAIT_S", 0.0)


@pytest.fixture
def made(cpu):
    return Buffers(cpu, 1)


def rounds_of(context, direction, company):
    return [
        one
        for one in context.rounds
        if (one.label("direction"), one.label("company")) == (direction, company)
    ]


def test_each_direction_is_measured_alone_in_its_shift_and_then_together(cpu, crewed):
    run_transfer(SPEC, cpu, crewed)
    for slot in (*SPEC.alone(0.0), *SPEC.together()):
        own = rounds_of(crewed, slot.direction, slot.company)
        assert len(own) >= 3
        assert all(slot.from_s <= one.t_s - 10.0 <= slot.to_s + 0.05 for one in own)
    assert all(one.verified and one.phase == "measure" for one in crewed.rounds)
    assert not crewed.events("wrong_result")


def test_nothing_is_measured_in_the_shifts_of_others(cpu, crewed):
    run_transfer(SPEC, cpu, crewed)
    shift = (10 + SPEC.alone_from_s, 10 + SPEC.alone_from_s + SPEC.shift_s)
    others = [one for one in crewed.rounds if not shift[0] <= one.t_s <= shift[1] + 0.05]
    assert {one.label("company") for one in others} == {TOGETHER}
    assert min(one.t_s for one in others) >= 10 + SPEC.together_from_s


def test_a_round_states_the_bytes_that_crossed_the_link(cpu, crewed):
    run_transfer(SPEC, cpu, crewed)
    for one in crewed.rounds:
        copies = one.work * 1e9 / (2**20 * len(DIRECTIONS[one.label("direction")]))
        assert copies == pytest.approx(round(copies))
        assert (one.unit, one.label("mib")) == (GB, 1)


def test_a_card_that_is_ready_too_late_leaves_its_turn_to_others_and_says_so(cpu):
    late = InACrew(now_s=10.0 + SPEC.alone_from_s + 0.6 * SPEC.shift_s)
    run_transfer(SPEC, cpu, late)
    assert {one.label("company") for one in late.rounds} == {TOGETHER}
    (event,) = late.events("turn_missed")
    assert event.data["late_s"] > 0.5


def test_a_card_that_is_a_little_late_measures_all_directions_in_what_is_left_of_its_turn(cpu):
    late = InACrew(now_s=10.0 + SPEC.alone_from_s + 0.3 * SPEC.shift_s)
    run_transfer(SPEC, cpu, late)
    alone = [one for one in late.rounds if one.label("company") == ALONE]
    assert {one.label("direction") for one in alone} == set(MEANINGS)
    assert max(one.t_s for one in alone) <= 10 + SPEC.alone_to_s + 0.05
    assert not late.events("turn_missed")


def test_it_stops_when_it_is_told_to(cpu):
    stopped = InACrew(stop_when=lambda context: len(context.rounds) >= 2)
    run_transfer(SPEC, cpu, stopped)
    assert len(stopped.rounds) == 2


# What is verified


@pytest.mark.parametrize("direction", MEANINGS)
def test_a_copy_that_takes_place_is_right_however_often(made, direction):
    for _ in range(4):
        seconds, wrong = made.copy(DIRECTIONS[direction], filling=True)
        assert seconds > 0
        assert wrong == ""
    assert made.seen_by_host() == ""


@pytest.mark.parametrize("direction", [H2D, D2H])
@pytest.mark.parametrize("first", [0, 3])
def test_a_copy_that_does_not_take_place_is_wrong_even_after_others_did(made, monkeypatch, direction, first):
    for _ in range(first):
        assert made.copy(BOTH_WAYS)[1] == ""
    skipped = {H2D: "to_device", D2H: "to_host"}[direction]
    monkeypatch.setattr(made, skipped, lambda target, source: None)
    _, wrong = made.copy((direction,))
    assert wrong.startswith(f"{direction}: {made.words} of {made.words} words differ, the first at 0: ")


@pytest.mark.parametrize("part", [slice(0, 1), slice(70_000, 70_001), slice(-1, None)])
@pytest.mark.parametrize("direction", [H2D, D2H])
def test_one_word_that_is_not_copied_is_located(made, monkeypatch, direction, part):
    name = {H2D: "to_device", D2H: "to_host"}[direction]
    copy = getattr(made, name)

    def without_a_word(target, source):
        kept = target[part].clone()
        copy(target, source)
        target[part] = kept

    monkeypatch.setattr(made, name, without_a_word)
    _, wrong = made.copy((direction,))
    place = range(made.words)[part][0]
    assert wrong.startswith(f"{direction}: 1 of {made.words} words differ, the first at {place}: ")


def test_one_flipped_bit_on_the_way_is_located(made, monkeypatch):
    def flips(target, source):
        target.copy_(source)
        target[99] ^= 1 << 40

    monkeypatch.setattr(made, "to_device", flips)
    _, wrong = made.copy((H2D,))
    read, sent = (int(text, 16) for text in wrong.rpartition(": ")[2].split(", not "))
    assert read ^ sent == 1 << 40


def test_two_words_that_changed_places_are_wrong(made, monkeypatch):
    def swaps(target, source):
        target.copy_(source)
        target[[5, 6]] = target[[6, 5]]

    monkeypatch.setattr(made, "to_host", swaps)
    assert "2 of" in made.copy((D2H,))[1]


def test_a_comparison_that_was_not_made_is_no_pass(made, monkeypatch):
    monkeypatch.setattr(made, "_count_wrong", lambda *_: None)
    assert "was not compared" in made.copy((H2D,))[1]


def test_what_only_the_host_sees_wrong_is_noticed(made):
    made.copy((D2H,))
    made.host_target[3] += 1
    assert made.seen_by_host() == "d2h: the host reads other numbers than the device gets back from it"


def test_copies_of_part_of_the_buffers_are_verified_in_that_part(cpu):
    made = Buffers(cpu, 2)
    made.mib_at_once = 1
    for _ in range(3):
        assert made.copy(BOTH_WAYS)[1] == ""
    made.mib_at_once = 2
    assert made.seen_by_host() == ""
    assert made.copy(BOTH_WAYS)[1] == ""


def test_the_numbers_are_odd_distinct_and_change_every_byte():
    row = fill(torch.empty(2**17, dtype=torch.int64))
    assert bool((row & 1).all())
    assert len(row.unique()) == len(row)
    bits = sum(
        1 << bit for bit in range(63) if bool((row >> bit & 1).any()) and not bool((row >> bit & 1).all())
    )
    assert bits == 2**63 - 2


def test_rounds_with_a_wrong_copy_are_not_verified_and_reported(cpu, crewed, monkeypatch):
    monkeypatch.setattr(Buffers, "to_host", lambda self, target, source: None)
    run_transfer(SPEC, cpu, crewed)
    verified = {one.label("direction"): one.verified for one in crewed.rounds}
    assert verified == {"h2d": True, "d2h": False, "both": False}
    events = crewed.events("wrong_result")
    assert {one.data["direction"] for one in events} <= {"d2h", "both"}
    assert events


def test_want_of_memory_is_an_event_and_ends_the_task(cpu, crewed, monkeypatch):
    def full(*_arguments):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(buffers, "fill", full)
    with pytest.raises(MemoryError, match="buffers of 4 MiB together: no room"):
        run_transfer(SPEC, cpu, crewed)
    (event,) = crewed.events("oom")
    assert event.data == {"requested_mib": 4.0, "recovered": False}


def test_a_turn_ends_before_the_next_one_begins():
    specs = [
        TransferSpec("transfer", mib=64, shift=n, shifts=8, setup_s=0.6, shift_s=0.3, together_s=0.45)
        for n in range(8)
    ]
    alone = [spec.alone(0.0) for spec in specs]
    for one, two in pairwise(alone):
        assert one[-1].to_s < two[0].from_s
    assert alone[-1][-1].to_s <= specs[0].together_from_s + 1e-9
    assert {spec.together() for spec in specs} == {specs[0].together()}
