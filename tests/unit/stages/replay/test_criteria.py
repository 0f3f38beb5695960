"""Which card is wrong where replayed steps differ, what was compared at all, and whether the loss falls."""

from copy import copy
from dataclasses import replace

import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.judging.judge import judge
from rigproof.profiles.loading.load import over_defaults
from rigproof.records.measurements import Event, Round
from rigproof.records.verdict import Outcome
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import KINDS
from rigproof.stages.replay.criteria import loss, replay, tables
from rigproof.stages.replay.evidence import first_differences
from rigproof.stages.replay.stage import Place, StepDigest, places_of
from support.lengths import lengths

CARDS = [f"n1/gpu{number}" for number in range(3)]
GPU = CARDS[1]
PLACES = places_of(8, 8)


def rig(cards=3, **more):
    stages = lengths("extended", settle_s=0.5, measure_s=0.5, round_s=0.5, replay=4, sustained=2)
    others = {
        kind.name: {"length_s": {"extended": 0}}
        for kind in KINDS
        if kind.name not in ("gemm", "sustained", "replay")
    }
    tables = {
        "name": "replayed",
        "sampling": {"rate_hz": 2},
        **stages,
        "nodes": [{"name": "n1", "cpus": 32, "gpus": [{"sku": "h200-sxm"}] * cards}],
    }
    tables["stages"] |= others | more
    return over_defaults(tables, "replayed", KINDS)


@pytest.fixture(scope="module")
def simulated():
    return simulated_recording(rig(), "extended")


@pytest.fixture
def recording(simulated):
    """To be changed: its lists and tables are the test's own."""
    return copy(simulated)


def verdict(recording, criterion=replay, subject=GPU, loaded=None):
    return judge(criterion, subject, Evidence(recording, loaded or rig()))


def change(recording, subject, **data):
    """Other data in a card's event; None takes a key away."""
    for number, event in enumerate(recording.events):
        if event.kind == "replay" and event.subject == subject:
            changed = {key: one for key, one in (event.data | data).items() if one is not None}
            recording.events[number] = replace(event, data=changed)


def spoil(recording, subject, from_place, digest="ffff"):
    """The card's checksums are others from a place on."""
    first = PLACES.index(from_place)

    def other(one):
        spoiled = one.subject == subject and PLACES.index(one.place) >= first
        return replace(one, digest=digest) if spoiled else one

    recording.put(StepDigest, [other(one) for one in recording.of(StepDigest)])


def test_equal_cards_that_give_the_same_bits_pass(recording):
    found = verdict(recording)
    assert (found.outcome, found.measured, found.limit) == (Outcome.PASS, 0, 0)
    assert found.detail.startswith("973 values of 8 steps are the same in ")
    assert found.detail.endswith("runs and on 2 other cards")


PLACE = Place(3, "gradient", "block 5", "up")


def test_the_card_that_leaves_the_majority_fails_alone_and_its_first_value_is_named(recording):
    spoil(recording, GPU, PLACE)
    found = verdict(recording)
    assert found.outcome is Outcome.FAIL
    assert found.detail == (
        "step 3, gradient of block 5, up: ffff here and different on n1/gpu0, n1/gpu2, which agree"
    )
    assert found.remedy == replay.remedy
    for other in (CARDS[0], CARDS[2]):
        assert verdict(recording, subject=other).outcome is Outcome.PASS


def test_a_card_that_has_left_has_no_vote_about_what_comes_later(recording):
    spoil(recording, GPU, PLACE)
    later = Place(6, "forward", "head")
    spoil(recording, CARDS[2], later, "eeee")
    assert verdict(recording).detail.startswith("step 3, gradient of block 5, up")
    for subject, other in ((CARDS[0], CARDS[2]), (CARDS[2], CARDS[0])):
        found = verdict(recording, subject=subject)
        assert found.outcome is Outcome.FAIL
        assert found.detail.startswith("step 6, output of head: ")
        assert found.detail.endswith(f"different on {other}: one of the two is wrong")
        assert found.remedy.startswith("do not train on either")


def test_the_first_differences_of_cards_by_literals():
    places = PLACES[:4]
    assert first_differences(places, {"a": ("1", "2", "3", "4")}) == {}
    found = first_differences(
        places, {"a": ("1", "2", "3", "4"), "b": ("1", "2", "3", "4"), "c": ("1", "0", "3", "4")}
    )
    assert {card: one.place for card, one in found.items()} == {"c": places[1]}
    apart = {"a": ("1", "2", "3", "4"), "b": ("1", "2", "3", "5")}
    assert {one.place for one in first_differences(places, apart).values()} == {places[3]}
    assert set(first_differences(places, apart)) == {"a", "b"}


def test_of_several_runs_that_differ_from_the_first_one_is_shown_and_all_are_counted(recording):
    for t_s, run, unreported in ((50.0, 4, 0), (51.0, 5, 2)):
        message = f"bf16 run {run} differs: {PLACE.in_words}"
        data = {"run": run, "unreported": unreported}
        recording.add(Event(t_s, "wrong_result", GPU, message, "replay", f"{GPU}#0", data))
    for differing, count in ((0, 4), (3, 4), (6, 6)):
        change(recording, GPU, differing=differing)
        found = verdict(recording)
        assert (found.outcome, found.measured, found.from_s) == (Outcome.FAIL, count, 50.0)
        assert found.detail == f"bf16 run 4 differs: {PLACE.in_words}"
        assert found.limit_source == "the first run of the same steps on this card"
    change(recording, GPU, steps=None)
    assert verdict(recording).measured == 4


def test_the_last_report_of_the_steps_counts(recording):
    event = next(one for one in recording.events if one.kind == "replay" and one.subject == GPU)
    damaged = replace(event, data={})
    recording.events = [damaged, *recording.events]
    assert verdict(recording).outcome is Outcome.PASS
    recording.events = [*recording.events, damaged]
    assert verdict(recording).outcome is Outcome.NOT_MEASURED


def test_a_wrong_result_of_another_stage_is_judged_elsewhere(recording):
    recording.add(Event(9.0, "wrong_result", GPU, "a product", "gemm", f"{GPU}#0"))
    assert verdict(recording).outcome is Outcome.PASS


def test_a_lone_card_is_compared_with_itself_and_says_so():
    alone = rig(cards=1)
    found = verdict(simulated_recording(alone, "extended"), subject=CARDS[0], loaded=alone)
    assert found.outcome is Outcome.PASS
    assert found.detail.endswith("runs on this card alone")


def relabel(recording, subject, **labels):
    """Other labels of a card's rounds of the stage."""
    recording.rounds = [
        replace(one, labels=one.labels | labels) if (one.stage, one.subject) == ("replay", subject) else one
        for one in recording.rounds
    ]


@pytest.mark.parametrize(
    "data", [{"width": 2432}, {"torch": "2.11"}, {"device": "NVIDIA H100"}, {"batch": 4}]
)
def test_cards_that_did_other_work_are_not_compared(recording, data):
    change(recording, GPU, **data)
    if "width" in data:
        relabel(recording, GPU, size=data["width"])
    spoil(recording, GPU, PLACE)
    assert verdict(recording).detail.endswith("on this card alone")
    assert verdict(recording, subject=CARDS[0]).detail.endswith("on 1 other card")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"losses": None}, "damaged"),
        ({"losses": ["9.5", "9.4"]}, "damaged"),
        ({"steps": "8"}, "damaged"),
        ({"blocks": None}, "damaged"),
        ({"blocks": 10**12}, "it reported 973 of the "),
        ({"blocks": 9}, "it reported 973 of the 1083 values"),
    ],
)
@pytest.mark.parametrize("criterion", [replay, loss])
def test_a_damaged_report_is_no_measurement(recording, data, reason, criterion):
    change(recording, GPU, **data)
    found = verdict(recording, criterion)
    assert found.outcome is Outcome.NOT_MEASURED
    assert reason in found.detail


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"width": 512}, "rounds of a model of width 2496, and one of 512 was reported"),
        ({"differing": 1}, "1 run that differs from the first one, of which no wrong result tells"),
        ({"differing": 2}, "2 runs that differ from the first one, of which no wrong result tells"),
        ({"runs": 1}, "1 runs were reported, and "),
    ],
)
def test_a_report_that_contradicts_the_rounds_is_no_measurement(recording, data, reason):
    change(recording, GPU, **data)
    found = verdict(recording)
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail.startswith(reason)


def test_a_value_that_was_not_reported_or_is_another_one_is_no_measurement(recording):
    records = recording.of(StepDigest)
    renamed = [replace(one, block="block 9") if one.place == PLACE else one for one in records]
    recording.put(StepDigest, renamed)
    assert "of other values than those" in verdict(recording).detail
    recording.put(StepDigest, [one for one in records if (one.subject, one.place) != (GPU, PLACE)])
    assert "it reported 972 of the 973 values" in verdict(recording).detail
    assert verdict(recording).outcome is Outcome.NOT_MEASURED
    assert verdict(recording, subject=CARDS[0]).detail.endswith("on 1 other card")


@pytest.mark.parametrize("criterion", [replay, loss])
def test_no_report_is_no_measurement(recording, criterion):
    recording.events = [one for one in recording.events if one.kind != "replay"]
    found = verdict(recording, criterion)
    assert (found.outcome, found.detail) == (Outcome.NOT_MEASURED, "no training step was replayed")


def test_a_single_run_is_compared_with_nothing(recording):
    own = [one for one in recording.rounds if one.stage == "replay" and one.subject == GPU]
    recording.put(Round, [one for one in recording.rounds if one not in own[1:]])
    found = verdict(recording)
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail == "fewer than 2 verified runs of the steps"


def test_a_loss_that_falls_passes(recording):
    found = verdict(recording, loss)
    assert (found.outcome, found.limit) == (Outcome.PASS, 97)
    assert found.measured == pytest.approx(60.2, abs=0.1)
    assert found.detail == "9.514 to 5.725 nats in 8 steps"


def losses(*ends):
    return [*["9"] * (8 - len(ends)), *ends]


def test_what_the_loss_was_between_first_and_last_does_not_count(recording):
    change(recording, GPU, losses=losses("5", "8.9"))
    found = verdict(recording, loss)
    assert (found.outcome, found.measured) == (Outcome.FAIL, pytest.approx(100 * 8.9 / 9))


@pytest.mark.parametrize(
    ("ends", "shown"), [(("nan", "7"), "the loss is nan in step 7"), (("inf",), "the loss is inf in step 8"),
                        ((None,), "the loss is nan in step 8")],
)  # fmt: skip
def test_a_loss_that_is_no_number_fails(recording, ends, shown):
    change(recording, GPU, losses=losses(*ends))
    found = verdict(recording, loss)
    assert (found.outcome, found.measured, found.detail) == (Outcome.FAIL, None, shown)


@pytest.mark.parametrize(
    ("first", "last", "outcome", "share"),
    [
        ("4", "3.88", Outcome.PASS, 97.0),  # at the limit
        ("4", "3.89", Outcome.FAIL, 97.25),
        ("4", "0", Outcome.PASS, 0.0),
        ("0.5", "0.4", Outcome.PASS, 80.0),
        ("0", "0", Outcome.NOT_MEASURED, None),  # of nothing there is no share
        ("-1", "-2", Outcome.NOT_MEASURED, None),
    ],
)
def test_the_share_of_the_first_loss_is_held_against_its_limit(recording, first, last, outcome, share):
    change(recording, GPU, losses=[first, *["3"] * 6, last])
    found = verdict(recording, loss)
    assert found.outcome is outcome
    assert found.measured is None if share is None else found.measured == pytest.approx(share)


def test_without_a_limit_the_loss_is_only_shown(recording):
    loaded = rig()
    settings = loaded.stages["replay"].model_copy(update={"loss_share": None})
    stages = loaded.rig.stages.model_copy(update={"replay": settings})
    loaded = replace(loaded, rig=loaded.rig.model_copy(update={"stages": stages}))
    assert verdict(recording, loss, loaded=loaded).outcome is Outcome.NO_LIMIT


def test_the_table_says_what_was_trained_and_whether_it_repeats(recording):
    recording.add(Event(50.0, "wrong_result", GPU, "run 4 differs", "replay", f"{GPU}#0", {}))
    (table,) = tables(recording)
    assert [row[:8] for row in table.rows[:2]] == [
        (CARDS[0], "bf16", "the same", "2496", "8", "8", "973", table.rows[0][7]),
        (GPU, "bf16", "differ", "2496", "8", "8", "973", table.rows[1][7]),
    ]
    assert table.rows[0][8] == "9.514 to 5.72458"
    recording.extend([one for one in recording.events if one.kind == "replay"])  # of another lap
    assert [one.rows for one in tables(recording)] == [table.rows]


def test_a_wrong_gradient_of_a_simulated_card_spoils_its_first_measured_run():
    loaded = rig()
    recording = simulated_recording(loaded, "extended", [f"wrong-gradient@{GPU}"])
    found = verdict(recording, loaded=loaded)
    assert (found.outcome, "run 2 differs" in found.detail) == (Outcome.FAIL, True), found.detail
