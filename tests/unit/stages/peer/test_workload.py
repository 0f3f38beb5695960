"""Copies between two devices, here two on the CPU: each is verified, and one that goes wrong is noticed."""

import pytest
import torch

from rigproof.records.crews import Member
from rigproof.records.measurements import GB
from rigproof.stages.peer import workload
from rigproof.stages.peer.copies import ROWS, Card, Lane, copied, odd_words
from rigproof.stages.peer.stage import ARMS, BACK, BOTH, ENGINE, KERNEL, THERE, PeerLink, PeerSpec
from rigproof.stages.peer.stage import WORDS as WORDS_OF
from rigproof.stages.peer.workload import FEWEST_COPIES, PairWork
from rigproof.telemetry.nvml.peers import Connection
from support.devices import RecordingContext

CPU = torch.device("cpu")
PAIR = "host/gpu0-host/gpu1"
SPEC = PeerSpec("peer", ("GPU-a", "GPU-b"), ((PAIR, 0, 1),), mib=2, pair_s=0.0, setup_s=0.1)
UNKNOWN = Connection()
WORDS = odd_words(0.1)
MEANS = pytest.mark.parametrize("by", [ENGINE, KERNEL])


@pytest.fixture
def cards():
    return Card(0, CPU), Card(1, CPU)


@pytest.fixture
def lane(cards):
    return Lane(*cards, WORDS)


def measured(cards, context, *, there=True, back=True, known=UNKNOWN, spec=SPEC):
    PairWork(spec, PAIR, cards, context).run(known, there, back)
    return context


def test_the_words_of_a_copy_are_no_whole_number_of_vectors():
    for mib in (1, 2, 64, 512):
        assert odd_words(mib) % 2 == 1
        assert odd_words(mib) % ROWS == 0
        assert mib * 2**20 - 64 <= 8 * odd_words(mib) <= mib * 2**20


@MEANS
def test_copies_that_take_place_are_right_however_often(lane, by):
    for _ in range(4):
        seconds, wrong = copied([lane], by)
        assert seconds > 0
        assert wrong == ""


@MEANS
def test_both_ways_at_once_each_way_is_right(cards, by):
    lanes = [Lane(*cards, WORDS), Lane(*reversed(cards), WORDS)]
    assert all(copied(lanes, by)[1] == "" for _ in range(3))


def missing(target, source):
    """It does not take place."""


def zeros(target, source):
    target.zero_()


def all_but_the_last_row(target, source):
    target[:-1].copy_(source[:-1])


def all_but_the_last_word(target, source):
    last = target[-1, -1].clone()
    target.copy_(source)
    target[-1, -1] = last


def one_bit(target, source):
    target.copy_(source)
    target[17, 1] ^= 1 << 62


def shifted(target, source):
    target.copy_(source.roll(1, 0))


def transposed(target, source):
    """As if the other means had been taken."""
    target.copy_(source.reshape(-1).view(ROWS, -1).t())


@MEANS
@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize(
    "done", [missing, zeros, all_but_the_last_row, all_but_the_last_word, one_bit, shifted, transposed]
)
def test_a_copy_that_goes_wrong_is_noticed_even_after_others_went_right(lane, monkeypatch, by, done, first):
    for _ in range(first):
        assert copied([lane], by)[1] == ""
    monkeypatch.setattr(lane, "send", done)
    assert "words differ, first at" in copied([lane], by)[1]


@MEANS
def test_what_an_earlier_copy_left_is_no_copy(lane, monkeypatch, by):
    copied([lane], by)
    left = lane._target.clone()
    monkeypatch.setattr(lane, "send", lambda target, source: lane._target.copy_(left))
    assert f"{WORDS} of {WORDS} words differ, first at 0" in copied([lane], by)[1]


def test_what_the_target_sends_itself_is_not_what_should_arrive(cards, monkeypatch):
    there, back = Lane(*cards, WORDS), Lane(*reversed(cards), WORDS)
    monkeypatch.setattr(there, "send", lambda target, _source: target.copy_(back._source.view(-1, ROWS)))
    assert f"{WORDS} of {WORDS}" in copied([there, back], ENGINE)[1]


def test_the_first_wrong_word_is_named_with_what_it_should_be(lane, monkeypatch):
    monkeypatch.setattr(lane, "send", one_bit)
    wrong = copied([lane], ENGINE)[1]
    place = 17 * ROWS + 1
    sent = int(lane._wanted[place]) % 2**64
    assert wrong.endswith(f"first at {place}: {sent ^ 1 << 62:016x}, not {sent:016x}")
    assert wrong.startswith(f"1 of {WORDS} words differ")


def test_a_comparison_that_is_not_made_is_no_pass(lane, monkeypatch):
    monkeypatch.setattr(lane, "verify", lambda by: None)
    assert "not compared" in copied([lane], ENGINE)[1]


# A pair


def test_a_pair_is_measured_each_way_both_at_once_and_by_both_means(cards, context):
    measured(cards, context)
    rounds = [one for one in context.rounds if one.phase == "measure"]
    found = {(one.label("by"), one.label("way")) for one in rounds}
    assert found == set(ARMS)
    assert len(rounds) == FEWEST_COPIES * len(ARMS)
    assert {(one.subject, one.unit, one.verified) for one in rounds} == {(PAIR, GB, True)}
    for one in rounds:
        bytes_one_way = 8 * odd_words(one.label("mib"))
        assert one.work * 1e9 == pytest.approx(bytes_one_way * (2 if one.label("way") == BOTH else 1))
    assert not context.events("wrong_result")


@pytest.mark.parametrize(("there", "back"), [(False, False), (True, False), (False, True)])
def test_without_direct_access_nothing_is_stored_by_a_kernel_and_it_is_said_why(cards, context, there, back):
    measured(cards, context, there=there, back=back, known=Connection(why="it is not supported"))
    assert {one.label("by") for one in context.rounds} == {ENGINE}
    (link,) = [one for one in context.records if isinstance(one, PeerLink)]
    assert (link.there, link.back, link.direct) == (there, back, False)
    assert link.why == "it is not supported"


def test_how_the_two_are_connected_is_recorded(cards, context):
    measured(cards, context, known=Connection(18, switched=True, path="one NUMA node", why="not supported"))
    (link,) = [one for one in context.records if isinstance(one, PeerLink)]
    assert (link.nvlinks, link.switched, link.path, link.why) == (18, True, "one NUMA node", "")
    assert link.direct


def test_a_pair_says_when_it_begins_so_that_one_that_hangs_has_a_name(cards, context):
    measured(cards, context)
    (event,) = context.events("pair_begun")
    assert event.subject == PAIR
    assert event.t_s <= min(one.t_s for one in context.rounds)


@pytest.mark.parametrize(("number", "way"), [(0, THERE), (1, BACK)])
def test_wrong_words_are_reported_of_the_pair_and_count_for_no_rate(cards, context, monkeypatch, number, way):
    send = Lane.send
    monkeypatch.setattr(
        Lane,
        "send",
        lambda lane, target, source: (
            None if lane.sends is cards[number].sends else send(lane, target, source)
        ),
    )
    measured(cards, context)
    assert {one.label("way") for one in context.rounds if not one.verified} == {way, BOTH}
    event = context.events("wrong_result")[0]
    assert event.subject == PAIR
    assert "words differ" in event.message


@pytest.mark.parametrize("arm", ARMS)
def test_zeros_of_one_arm_alone_are_reported_of_that_arm(cards, context, monkeypatch, arm):
    def zeros_in_arm(lanes, by):
        way = BOTH if len(lanes) > 1 else THERE if lanes[0].sends is cards[0].sends else BACK
        for lane in lanes:
            lane.send = zeros if (by, way) == arm else Lane.send.__get__(lane)
        return copied(lanes, by)

    monkeypatch.setattr(workload, "copied", zeros_in_arm)
    measured(cards, context)
    bad = [one for one in context.rounds if one.phase == "measure" and not one.verified]
    assert {(one.label("by"), one.label("way")) for one in bad} == {arm}
    assert all(one.message.startswith(f"{WORDS_OF[arm]}: ") for one in context.events("wrong_result"))


def test_where_memory_is_short_less_is_copied(cards, context, monkeypatch):
    made = []

    def scarce(sender, receiver, words):
        made.append(words)
        if words > odd_words(2):
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return Lane(sender, receiver, words)

    monkeypatch.setattr(workload, "Lane", scarce)
    measured(cards, context, spec=PeerSpec("peer", (), (), mib=12, pair_s=0.0, setup_s=0.1))
    assert made[:2] == [odd_words(8), odd_words(4)]
    assert max(one.label("mib") for one in context.rounds) <= 2


def test_it_stops_when_it_is_told_to(cards):
    stopped = RecordingContext(stop_when=lambda context: len(context.rounds) >= 9)
    measured(cards, stopped, spec=PeerSpec("peer", (), (), mib=1, pair_s=60.0, setup_s=0.1))
    assert len(stopped.rounds) == 9


# The process


class OfNode(RecordingContext):
    crew = Member("host", size=2)


def test_a_process_that_sees_other_gpus_is_an_event_of_the_host_and_no_failure_of_the_worker(monkeypatch):
    monkeypatch.setattr(workload, "START_S", 300.0)  # a busy host may take long to load torch
    context = OfNode()
    workload.run_peer(SPEC, None, context)
    (event,) = context.events("peers_ended")
    assert event.subject == "host"
    assert event.message.startswith(
        "the copies between GPUs failed: RuntimeError: torch sees 0 GPUs, 0 of them of the 2"
    )
    assert not context.rounds


def test_all_cards_are_awake_before_the_first_copy(cards, context):
    workload._wake(cards, context)
    assert context.now_s() >= workload.WAKE_S


def test_other_workers_of_the_host_have_nothing_to_do(context):
    context.crew = Member("host", rank=1, size=2)
    workload.run_peer(SPEC, None, context)
    assert context.records == []
