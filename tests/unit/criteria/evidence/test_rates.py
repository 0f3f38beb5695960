"""What a device holds in the sustained stage, and with whom it is compared."""

from dataclasses import replace

import pytest

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.rates import of_sustained, peers_of, settled, sustained_rate, with_peers
from rigproof.profiles.tables.sku import PowerPoint
from rigproof.records.verdict import Outcome
from support.peers import make_peers, subject_of

GPU = "pc1/gpu0"


def device_of(bench, subject=GPU):
    return Evidence(bench.recording, bench.loaded).device(subject)


def reason(look):
    with pytest.raises(NotMeasured) as error:
        look()
    return error.value.reason


def test_a_device_has_settled_with_its_first_measured_round_that_was_verified(bench):
    window, verified = settled(device_of(bench))
    assert (window.from_s, window.to_s) == (31.0, 70.0)
    assert len(verified) == 2 * 88  # those of the warm-up too
    bench.rounds(GPU, "sustained", 31.0, 34.9, verified=False)
    assert settled(device_of(bench))[0].from_s == 34.5


def test_a_device_that_settled_before_the_others_counts_from_where_all_were_under_load(bench):
    bench.stage("sustained", loaded_from_s=35.0)
    assert settled(device_of(bench))[0].from_s == 35.0


@pytest.mark.parametrize("to_s", [31.0, 30.9])
def test_a_device_that_settled_after_the_load_has_no_rate(bench, to_s):
    bench.stage("sustained", loaded_from_s=26.0, loaded_to_s=to_s)
    assert (
        reason(lambda: settled(device_of(bench))) == "its first verified round began after the load had ended"
    )


def test_why_there_is_no_verified_round_is_reported(bench):
    bench.rounds(GPU, "sustained", verified=False)
    assert reason(lambda: sustained_rate(device_of(bench))) == "no verified rounds in the sustained stage"
    bench.event("oom", GPU, "3 GiB wanted", 41.0)
    assert reason(lambda: sustained_rate(device_of(bench))) == (
        "no verified rounds in the sustained stage: 3 GiB wanted (at t=41 s)"
    )


def test_a_rate_is_reported_with_its_precision_and_rounds_of_two_are_none(bench):
    rate = sustained_rate(device_of(bench))
    assert (rate.tflops, rate.precision) == (pytest.approx(660.0), "bf16")
    bench.rounds(GPU, "sustained", 69.9, precision="fp16")
    assert reason(lambda: sustained_rate(device_of(bench))) == (
        "its rounds are in bf16, fp16, but a rate is for a single precision"
    )
    bench.rounds(GPU, "sustained", precision="fp16")
    assert sustained_rate(device_of(bench)).precision == "fp16"


@pytest.mark.parametrize(("from_s", "measured"), [(50.0, True), (50.5, False)])
def test_a_warm_up_of_more_than_half_of_the_load_leaves_no_rate(bench, from_s, measured):
    """The load takes 40 s; rounds half a second."""
    bench.rounds(GPU, "sustained", 31.0, from_s + 0.25, phase="warmup")
    if measured:
        assert settled(device_of(bench))[0].from_s == from_s
    else:
        assert reason(lambda: settled(device_of(bench))) == (
            "it measured only 20 of 40 s of load, because its warm-up took too long"
        )


def test_a_rate_is_made_once_and_its_reason_too(bench):
    device = device_of(bench)
    assert sustained_rate(device) is sustained_rate(device)
    bench.rounds(GPU, "sustained", verified=False)
    without = device_of(bench)
    assert reason(lambda: sustained_rate(without)) == reason(lambda: sustained_rate(without))


def peers(bench, index=0):
    return peers_of(device_of(bench, subject_of(index)), "sustained rate", of_sustained)


@pytest.mark.parametrize(
    ("own_w", "other_w", "middle"),
    [
        (700, 700, 660),
        (699, 700, 660 * 699 / 700),  # this SKU file has no curve
        (350, 700, 330),
        (700, 350, 660),  # what more power would add is not known
        (700, 1400, 330),  # no curve covers more than the default
        (None, None, 660),
        (float("nan"), float("inf"), 660),
    ],
)
def test_the_rate_of_a_peer_is_what_this_card_s_power_limit_leaves_of_it(bench, own_w, other_w, middle):
    make_peers(bench, 2)
    for index, limit_w in enumerate((own_w, other_w)):
        bench.gpu(subject_of(index), power_limit_w=limit_w)
    found = peers(bench)
    assert (found.number, found.in_words) == (1, "the other one")
    assert found.middle == pytest.approx(middle)


def test_the_curve_of_the_sku_file_says_what_a_power_limit_leaves(bench):
    make_peers(bench, 2)
    curve = (PowerPoint(limit_share=0.8, rate_share=0.95),)
    sku = bench.loaded.skus["h200"].model_copy(update={"power_curve": curve})
    bench.loaded = replace(bench.loaded, skus=bench.loaded.skus | {"h200": sku})
    bench.gpu(subject_of(0), power_limit_w=560.0)
    assert peers(bench).middle == pytest.approx(660 * 0.95)


@pytest.mark.parametrize("limit_w", [None, float("nan"), float("inf")])
def test_a_card_whose_power_limit_is_unknown_is_not_compared_with_one_that_reports_it(bench, limit_w):
    make_peers(bench, 2)
    bench.gpu(subject_of(0), power_limit_w=limit_w)
    assert peers(bench) is peers(bench, 1) is None


def test_who_was_not_found_is_nobodys_peer(bench):
    make_peers(bench, 2)
    device = device_of(bench, subject_of(1))
    sustained_rate(device)
    del bench.recording.gpus[subject_of(1)]
    assert of_sustained(device) is None
    assert peers(bench) is None


def test_who_has_no_rate_or_no_peer_is_not_compared(bench):
    make_peers(bench, 2)
    assert of_sustained(device_of(bench, subject_of(1))) is not None
    bench.rounds(subject_of(1), "sustained", verified=False)
    assert of_sustained(device_of(bench, subject_of(1))) is None
    bench.loaded = replace(
        bench.loaded,
        rig=bench.loaded.rig.model_copy(
            update={"limits": bench.loaded.rig.limits.model_copy(update={"peer_share": None})}
        ),
    )
    assert with_peers(bench.loaded, bench.loaded.devices()) == []


@pytest.mark.parametrize(("own", "middle"), [(0, 1.0), (1, 0.98), (2, 1.0)])
def test_of_two_peers_the_faster_one_counts(bench, own, middle):
    make_peers(bench, 3)
    for index, share in enumerate((0.97, 1.0, 0.98)):
        bench.slow(subject_of(index), share)
    found = peers(bench, own)
    assert (found.number, found.in_words) == (2, "the faster one of 2 others")
    assert found.middle == pytest.approx(660 * middle)


def test_peers_without_any_work_are_no_measure(bench):
    make_peers(bench, 3)
    peers = (subject_of(1), subject_of(2))
    theirs = [one for one in bench.recording.rounds if one.subject in peers and one.stage == "sustained"]
    others = [one for one in bench.recording.rounds if one not in theirs]
    began_s = bench.recording.stages["sustained"].start_s  # the load came later
    early = [replace(theirs[-1], subject=one, worker=f"{one}#0", t_s=began_s + 1.0) for one in peers]
    bench.recording.rounds = [*others, *early]
    bench.stage("sustained", status="partial")
    verdict = bench.verdict("throughput.peer_outlier", subject_of(0))
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail == "the rate of most of its peers is zero; there is nothing to compare"


def test_a_share_may_be_at_its_limit(bench):
    make_peers(bench, 2)
    bench.slow(subject_of(0), 0.5)
    limits = bench.loaded.rig.limits.model_copy(update={"peer_share": 0.5})
    bench.loaded = replace(bench.loaded, rig=bench.loaded.rig.model_copy(update={"limits": limits}))
    verdict = bench.verdict("throughput.peer_outlier", subject_of(0))
    assert (verdict.outcome, verdict.measured, verdict.limit) == (Outcome.PASS, 50.0, 50.0)


def test_slow_peers_are_a_measure_too(bench):
    make_peers(bench, 2)
    for index in (0, 1):
        bench.slow(subject_of(index), 0.001)
    assert bench.verdict("throughput.peer_outlier", subject_of(0)).outcome is Outcome.PASS
