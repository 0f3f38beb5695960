from dataclasses import replace

import pytest

from rigproof.records.verdict import Outcome
from support.fault_changes import GPU, OTHER, products_differ
from support.peers import make_peers, subject_of

EXACT = "compute.exact"
FIRST, SECOND = "pc1/gpu0#0", "pc1/gpu0#1"


def outcome(bench, subject=GPU):
    return bench.verdict(EXACT, subject).outcome


def change(bench, subject, stage=None, worker=None, **data):
    """Other data in a card's reference events."""
    for number, event in enumerate(bench.recording.events):
        chosen = event.subject == subject and stage in (None, event.stage) and worker in (None, event.worker)
        if event.kind == "reference" and chosen:
            bench.recording.events[number] = replace(event, data={**event.data, **data})


def without_golden(bench):
    """As in a recording from before there were golden operands."""
    bench.recording.events = [
        replace(event, data={name: value for name, value in event.data.items() if name != "golden"})
        for event in bench.recording.events
        if not (event.kind == "reference" and event.stage == "gemm" and event.data["golden"])
    ]


ARITHMETIC = "as exact arithmetic says in fp32, tf32, fp16, fp8, bf16"


def test_cards_that_compute_what_arithmetic_says_pass(bench):
    verdict = bench.verdict(EXACT, GPU)
    assert (verdict.outcome, verdict.measured, verdict.limit_source) == (Outcome.PASS, 0, "exact arithmetic")
    assert verdict.detail == f"{ARITHMETIC}; 24 products are the same on 1 other card"


def test_a_lone_card_is_held_against_arithmetic(bench):
    make_peers(bench, 1)
    assert bench.said(EXACT, GPU) == (Outcome.PASS, ARITHMETIC)


def drop(bench, which):
    bench.recording.events = [event for event in bench.recording.events if not which(event)]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp8"])
def test_a_precision_without_golden_products_is_not_measured(bench, precision):
    def golden(event):
        data = event.data
        return event.stage == "gemm" and data.get("golden") is True and data["precision"] == precision

    drop(bench, golden)
    assert bench.said(EXACT, GPU) == (
        Outcome.NOT_MEASURED,
        f"no product of the gemm stage in {precision} was held against exact arithmetic",
    )


@pytest.mark.parametrize(
    "change",
    [
        {"verified": lambda one: one.phase != "exact"},
        {"phase": lambda one: "warmup" if one.phase == "exact" else one.phase},
    ],
)
def test_golden_products_count_only_in_verified_rounds_of_their_own(bench, change):
    bench.rounds(GPU, "gemm", **change)
    verdict = bench.verdict(EXACT, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail.startswith("no product of the gemm stage in fp32 was held against")


def test_equal_cards_without_golden_products_are_compared_and_a_lone_one_is_not(bench):
    without_golden(bench)
    verdict = bench.verdict(EXACT, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.PASS, 0)
    assert verdict.detail == "14 products are the same on 1 other card"
    make_peers(bench, 1)
    assert bench.said(EXACT, GPU) == (Outcome.NOT_APPLICABLE, "the run has no other NVIDIA H200")


def test_the_same_products_may_come_in_another_order_and_more_than_once(bench):
    for number, event in enumerate(bench.recording.events):
        if event.kind == "reference" and event.subject == GPU:
            checksums = dict(reversed(event.data["checksums"].items()))
            bench.recording.events[number] = replace(event, data={**event.data, "checksums": checksums})
    references = [event for event in bench.recording.events if event.kind == "reference"]
    first = dict([next(iter(references[0].data["checksums"].items()))])
    bench.recording.add(replace(references[0], data={**references[0].data, "checksums": first}))
    damaged = replace(references[0], data={**references[0].data, "checksums": None})
    bench.recording.events.insert(0, damaged)
    for subject in (GPU, OTHER):
        assert bench.verdict(EXACT, subject).detail.endswith("; 24 products are the same on 1 other card")
    alone = replace(references[0], data={**references[0].data, "checksums": {"9·9": "of no other card"}})
    bench.recording.add(alone)
    assert bench.verdict(EXACT, alone.subject).detail.endswith("; 25 products are the same on 1 other card")


def test_of_two_cards_that_differ_nobody_knows_which_is_wrong_and_both_fail(bench):
    products_differ(bench, GPU)
    for subject, other in ((GPU, OTHER), (OTHER, GPU)):
        verdict = bench.verdict(EXACT, subject)
        assert (verdict.outcome, verdict.measured, verdict.limit) == (Outcome.FAIL, 10, 0)
        assert verdict.detail.startswith("gemm: bf16 product of seeds 0·1, size 1024, is")
        assert f"different on {other}: one of the two is wrong" in verdict.detail
        assert verdict.remedy.startswith("do not train on either; swap the two cards")


def test_one_product_of_one_precision_in_one_stage_is_enough(bench):
    change(bench, GPU, "sharing", checksums={"1·0": "bf16-1·0", "0·1": "another"})
    verdict = bench.verdict(EXACT, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, 1)
    assert verdict.detail.startswith("sharing: bf16 product of seeds 0·1, size 1024, is another")


def test_most_cards_are_right_and_the_odd_one_alone_fails(bench):
    make_peers(bench, 3)
    assert bench.verdict(EXACT, subject_of(1)).detail.endswith("are the same on 2 other cards")
    products_differ(bench, subject_of(1))
    assert [outcome(bench, subject_of(index)) for index in range(3)] == [
        Outcome.PASS,
        Outcome.FAIL,
        Outcome.PASS,
    ]
    detail = bench.verdict(EXACT, subject_of(1)).detail
    assert "different on pc1/gpu0, pc1/gpu2, which agree" in detail


@pytest.mark.parametrize(("number", "ending"), [(5, ""), (6, " and others")])
def test_four_of_the_cards_that_agree_are_named(bench, number, ending):
    make_peers(bench, number)
    products_differ(bench, subject_of(0))
    assert bench.verdict(EXACT, subject_of(0)).detail.endswith(
        f"different on pc1/gpu1, pc1/gpu2, pc1/gpu3, pc1/gpu4{ending}, which agree"
    )


def test_of_several_products_that_differ_the_first_stage_s_is_reported(bench):
    change(bench, GPU, "sharing", checksums={"1·0": "another", "0·1": "bf16-0·1"})
    change(bench, GPU, "sustained", checksums={"1·0": "bf16-1·0", "0·1": "another"})
    verdict = bench.verdict(EXACT, GPU)
    assert verdict.measured == 2
    assert verdict.detail.startswith("sharing: bf16 product of seeds 1·0, size 1024, is another")


@pytest.mark.parametrize(("cards", "wrong"), [(4, (0, 1)), (3, (0, 1, 2))])
def test_where_no_result_has_a_majority_all_fail(bench, cards, wrong):
    make_peers(bench, cards)
    for index in wrong:
        change(bench, subject_of(index), "gemm", checksums={"1·0": "2" if cards == 4 else f"{index}"})
    assert all(outcome(bench, subject_of(index)) is Outcome.FAIL for index in range(cards))
    words = "one side of them is wrong" if cards == 4 else ""
    assert words in bench.verdict(EXACT, subject_of(0)).detail


@pytest.mark.parametrize(
    "data",
    [
        {"torch": "2.11.0+cu130"},
        {"cublas": "12.9.0"},
        {"multiprocessors": 114},
        {"capability": "8.9"},
        {"device": "NVIDIA H100"},
        {"size": 4096},
    ],
)
def test_cards_and_libraries_that_may_differ_are_not_compared(bench, data):
    without_golden(bench)
    change(bench, GPU, **data)
    products_differ(bench, GPU)
    assert outcome(bench) == outcome(bench, OTHER) is Outcome.NOT_APPLICABLE


def test_a_lone_card_that_contradicts_itself_fails(bench):
    make_peers(bench, 1)
    (event,) = (one for one in bench.recording.events if (one.kind, one.stage) == ("reference", "sharing"))
    bench.recording.add(replace(event, data={**event.data, "checksums": {"0·1": "another process's"}}))
    assert outcome(bench) is Outcome.FAIL
    assert "differs between two workers or processes of this card" in bench.verdict(EXACT, GPU).detail


@pytest.mark.parametrize("stage", ["gemm", "sustained", "training", "feeding", "sharing"])
def test_a_wrong_result_of_any_stage_fails_even_a_lone_card(bench, stage):
    make_peers(bench, 1)
    bench.event("wrong_result", GPU, "fp16 result of pair 3 changed", 50.0, "pc1/gpu0#0", stage, unreported=6)
    verdict = bench.verdict(EXACT, GPU)
    assert (verdict.outcome, verdict.measured, verdict.from_s) == (Outcome.FAIL, 7, 50.0)
    assert verdict.detail == f"fp16 result of pair 3 changed in the {stage} stage"


@pytest.mark.parametrize(
    ("stage", "worker"), [("gemm", FIRST), ("sustained", FIRST), ("sustained", SECOND), ("sharing", FIRST)]
)
def test_a_worker_that_does_not_say_what_it_computed_is_no_measurement(bench, stage, worker):
    bench.recording.events = [
        one
        for one in bench.recording.events
        if (one.kind, one.stage, one.worker) != ("reference", stage, worker)
    ]
    assert outcome(bench) is Outcome.NOT_MEASURED
    assert f"{worker} recorded no reference in the {stage} stage" in bench.verdict(EXACT, GPU).detail


@pytest.mark.parametrize("checksums", [None, "0f", {}])
def test_references_that_are_damaged_are_none(bench, checksums):
    change(bench, GPU, checksums=checksums)
    assert outcome(bench) is Outcome.NOT_MEASURED


@pytest.mark.parametrize(
    ("stages", "expected"), [(("gemm", "sustained"), Outcome.PASS), (("training",), Outcome.NOT_APPLICABLE)]
)
def test_a_stage_that_the_level_leaves_out_needs_no_reference(bench, stages, expected):
    bench.only(*stages)
    assert outcome(bench) is expected


def test_a_wrong_result_of_a_card_that_is_not_there_is_not_ignored(bench):
    bench.event("wrong_result", "pc1/gpu9", "a product differs")
    assert outcome(bench) is Outcome.NOT_MEASURED
    assert outcome(bench, OTHER) is Outcome.PASS
