"""What a device did under load, and the pieces in which it is judged."""

import math

import pytest

from rigproof.criteria.criterion import Finding, Limit, NotApplicable, NotMeasured
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.loads import (
    Piece,
    PieceReadings,
    load_of,
    measured_stretches,
    over_loads,
    over_stages,
)
from rigproof.criteria.evidence.windows import Window
from rigproof.records.measurements import TFLOP, Round
from rigproof.records.rows import Rows
from rigproof.records.samples import GpuSample
from rigproof.records.verdict import Outcome

GPU = "pc1/gpu0"
BOTH = ("continuous", "bursts")  # sustained and training
LIMIT = Limit(100.0, "defaults.toml")
LOW = Finding(Outcome.PASS, 101.0, LIMIT, "just over")
HIGH = Finding(Outcome.PASS, 150.0, LIMIT, "far over")
UNLIMITED = Finding(Outcome.NO_LIMIT, 5.0, detail="no limit")
WARNED = Finding(Outcome.WARN, 99.0, LIMIT, "hm")
FAILED = Finding(Outcome.FAIL, 99.0, LIMIT, "under")
WORSE = Finding(Outcome.FAIL, 50.0, LIMIT, "far under")
ONE, TWO, THREE, FOUR = (8.0, 10.0), (12.0, 14.0), (16.0, 18.0), (20.0, 21.0)
# Once a second; None where a sample lacks the power.
POWER_W = [5.0, None, 1.0, 3.0, 99.0, 2.0, 4.0, 6.0, 8.0, None, None]


def device_of(bench):
    return Evidence(bench.recording, bench.loaded).device(GPU)


def judged(bench, sustained, training, duties=BOTH):
    """What stands of one finding, or reason, for each of the two stages."""
    findings = {"sustained": sustained, "training": training}

    def find(stage):
        if isinstance(findings[stage], Exception):
            raise findings[stage]
        return findings[stage]

    return over_stages(device_of(bench), duties, find)


def reason(look):
    with pytest.raises(NotMeasured) as error:
        look()
    return error.value


# Which finding stands


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (LOW, HIGH),
        (UNLIMITED, LOW),
        (WARNED, UNLIMITED),
        (FAILED, WARNED),
        (WORSE, FAILED),
        (FAILED, NotMeasured("aborted")),
    ],
)
def test_the_worse_one_stands_and_names_its_stage(bench, one, other):
    first, second = judged(bench, one, other), judged(bench, other, one)
    assert (first.outcome, first.measured, first.limit) == (one.outcome, one.measured, one.limit)
    assert first.detail == f"{one.detail}, in the sustained stage"
    assert second.detail == f"{one.detail}, in the training stage"


def test_a_stage_that_is_named_already_is_not_named_twice(bench):
    named = Finding(Outcome.PASS, 101.0, LIMIT, "just over in sustained")
    assert judged(bench, named, HIGH).detail == "just over in sustained"
    assert judged(bench, Finding(Outcome.PASS, 101.0, LIMIT), HIGH).detail == "in the sustained stage"
    assert judged(bench, LOW, None, duties=("continuous",)).detail == "just over"


@pytest.mark.parametrize("good", [LOW, UNLIMITED, WARNED])
def test_what_was_not_measured_in_one_stage_does_not_pass_by_another(bench, good):
    assert reason(lambda: judged(bench, good, NotMeasured("no round"))).reason == "training: no round"
    assert reason(lambda: judged(bench, NotMeasured("no round of sustained"), good)).reason == (
        "no round of sustained"
    )


def test_what_has_to_be_measured_is_reported_before_what_does_not_apply(bench):
    found = reason(lambda: judged(bench, NotApplicable("no sensor"), NotMeasured("no round")))
    assert (type(found), found.reason) == (NotMeasured, "training: no round")
    found = reason(lambda: judged(bench, NotApplicable("no sensor"), LOW))
    assert (type(found), found.reason) == (NotApplicable, "sustained: no sensor")


def test_a_level_without_such_a_stage_measures_nothing(bench):
    found = reason(lambda: over_stages(device_of(bench), (), lambda stage: LOW))
    assert found.reason == "the level has no stage in which this is judged"


def test_a_figure_without_a_limit_is_far_from_any(bench):
    free = Finding(Outcome.PASS, 1.0, detail="free")
    assert judged(bench, free, HIGH).detail == "far over, in the training stage"
    zero = Finding(Outcome.PASS, 0.2, Limit(0.0, "x"), "of nothing")  # held against one
    assert judged(bench, zero, HIGH).detail == "of nothing, in the sustained stage"
    assert judged(bench, zero, LOW).detail == "just over, in the training stage"


def test_a_margin_is_a_share_of_its_limit(bench):
    small = Finding(Outcome.PASS, 1.3, Limit(1.0, "x"), "small")  # 30 % over, by 0.3
    large = Finding(Outcome.PASS, 1200.0, Limit(1000.0, "x"), "large")  # 20 % over, by 200
    assert judged(bench, small, large).detail == "large, in the training stage"


# Where it is judged


def windows_of(bench, stage="sustained"):
    return [(one.from_s, one.to_s) for one in load_of(device_of(bench), stage).stretches]


def rounds_at(bench, stage, *ends_s, seconds=0.5, phase="measure"):
    """One worker's rounds of a stage, and none besides."""
    others = [one for one in bench.recording.rounds if (one.subject, one.stage) != (GPU, stage)]
    bench.recording.rounds = others + [a_round_of(stage, end_s, seconds, phase) for end_s in ends_s]
    bench.stage(stage, status="partial")  # the load may be longer than the rounds of one


def every(from_s, to_s, step_s=0.5):
    return [from_s + n * step_s for n in range(1, round((to_s - from_s) / step_s) + 1)]


def test_a_load_is_its_stages_window_and_the_time_of_its_rounds_warm_up_included(bench):
    load = load_of(device_of(bench), "sustained")
    assert (load.stage, load.duty, load.window) == ("sustained", "continuous", Window(30.0, 70.0))
    assert load.stretches[0].from_s == 28.0  # its first round began at 26
    assert load.stretches[-1].to_s == 70.0
    assert load.measured_s == pytest.approx(42.0)


def test_a_continuous_load_is_judged_in_quarters(bench):
    assert windows_of(bench) == [pytest.approx((28.0 + n * 10.5, 28.0 + (n + 1) * 10.5)) for n in range(4)]


@pytest.mark.parametrize(
    ("first_to_s", "windows"),
    [
        (40.0, ((32, 40), (50, 56.6667), (56.6667, 63.3333), (63.3333, 70))),
        (33.0, ((32, 33), (50, 55), (55, 60), (60, 65), (65, 70))),  # much shorter, and not left out
    ],
)
def test_two_stretches_of_a_continuous_load_are_cut_into_pieces_of_about_a_quarter(
    bench, first_to_s, windows
):
    rounds_at(bench, "sustained", *every(30.0, first_to_s), *every(50.0, 70.0))
    assert windows_of(bench) == [pytest.approx(one) for one in windows]


def test_the_first_two_seconds_of_the_device_in_a_stage_do_not_count(bench):
    rounds_at(bench, "gemm", *every(6.0, 12.0))
    assert windows_of(bench, "gemm") == [(8.0, 12.0)]
    rounds_at(bench, "gemm", *every(6.0, 7.5), *every(9.0, 12.0))  # the first stretch is over by then
    assert windows_of(bench, "gemm") == [(9.0, 12.0)]


def test_stretches_of_bursts_are_judged_one_by_one(bench):
    rounds_at(bench, "gemm", *every(6.0, 10.0), *every(12.0, 15.0))
    assert windows_of(bench, "gemm") == [(8.0, 10.0), (12.0, 15.0)]


@pytest.mark.parametrize(("to_s", "found"), [(13.0, [(12.0, 13.0)]), (12.9, [])])
def test_a_stretch_of_a_second_is_the_shortest(bench, to_s, found):
    rounds_at(bench, "gemm", *every(6.0, 10.0), to_s, seconds=0.5)
    bench.recording.rounds = [
        one if one.t_s != to_s or one.subject != GPU else a_round_of("gemm", to_s, to_s - 12.0)
        for one in bench.recording.rounds
    ]
    assert windows_of(bench, "gemm") == [(8.0, 10.0), *found]


def a_round_of(stage, end_s, seconds, phase="measure", precision="bf16"):
    labels = {"precision": precision, "size": 1024}
    return Round(end_s, stage, "pc1/gpu0#0", GPU, phase, seconds, 1.0, TFLOP, True, labels)


def in_turn(bench, *parts):
    """Rounds of gemm in parts (from, to, phase, precision), each as one round."""
    others = [one for one in bench.recording.rounds if (one.subject, one.stage) != (GPU, "gemm")]
    bench.stage("gemm", status="partial")
    bench.recording.rounds = others + [
        a_round_of("gemm", to_s, to_s - from_s, phase, precision) for from_s, to_s, phase, precision in parts
    ]


def test_warm_up_counts_from_a_second_after_a_break_on(bench):
    in_turn(bench, (6, 10, "measure", "bf16"), (12, 15, "warmup", "bf16"), (15, 17, "measure", "bf16"))
    assert windows_of(bench, "gemm") == [(8, 10), (13, 17)]
    in_turn(bench, (6, 10, "measure", "bf16"), (12, 12.5, "warmup", "bf16"), (12.5, 17, "measure", "bf16"))
    assert windows_of(bench, "gemm") == [(8, 10), (12.5, 17)]


def test_a_load_of_warm_up_alone_counts_too(bench):
    in_turn(bench, (6, 10, "measure", "bf16"), (12, 15, "warmup", "bf16"))
    assert windows_of(bench, "gemm") == [(8, 10), (13, 15)]


def test_a_load_is_cut_where_its_work_changes(bench):
    in_turn(bench, (6, 10, "measure", "bf16"), (10, 13, "warmup", "fp32"), (13, 15, "measure", "fp32"))
    assert windows_of(bench, "gemm") == [(8, 10), (10, 15)]


def test_short_parts_of_a_load_are_judged_together(bench):
    short = [(10 + 0.4 * n, 10.4 + 0.4 * n, "measure", ("fp32", "tf32")[n % 2]) for n in range(5)]
    in_turn(bench, (6, 10, "measure", "bf16"), *short, (12.0, 14.0, "measure", "bf16"))
    [one, *_], two, (*_, last) = pieces_of(bench, "gemm")
    assert one == (8, 10)
    assert two == [pytest.approx(part) for part in ((10, 10.4), (10.4, 10.8), (10.8, 11.2))]
    assert last == (12, 14)


def thinned(bench, *kept_s):
    """Only these samples of the GPU."""
    bench.recording.gpu_samples = [
        one
        for one in bench.recording.gpu_samples
        if one.subject != GPU or any(abs(one.t_s - kept) < 0.01 for kept in kept_s)
    ]


def pieces_of(bench, stage, shortest_s=0.0):
    pieces = load_of(device_of(bench), stage).pieces_of(shortest_s)
    return [[(one.from_s, one.to_s) for one in piece.stretches] for piece in pieces]


@pytest.fixture
def in_stretches(bench):
    """Three stretches of 2 s in gemm, and one of 1 s."""
    ends_s = (every(from_s, to_s) for from_s, to_s in ((6.0, 10.0), TWO, THREE, FOUR))
    rounds_at(bench, "gemm", *(end_s for ends in ends_s for end_s in ends))
    return bench


def test_stretches_with_five_samples_are_judged_alone(in_stretches):
    assert pieces_of(in_stretches, "gemm") == [[ONE], [TWO], [THREE], [FOUR]]
    kept = (8.5, 8.7, 8.9, 9.1, 9.3, 12.5, 12.7, 12.9, 13.1, 13.3, 16.2, 16.4, 16.6, 16.8, 17.0)
    thinned(in_stretches, *kept, 20.1, 20.3, 20.5, 20.7, 20.9)
    assert pieces_of(in_stretches, "gemm") == [[ONE], [TWO], [THREE], [FOUR]]


@pytest.mark.parametrize(
    ("kept_s", "pieces"),
    [
        ((8.5, 8.7, 8.9, 9.1, 12.5, 16.2, 16.4, 16.6, 16.8, 20.1), [[ONE, TWO], [THREE, FOUR]]),
        ((8.5, 8.7, 8.9, 9.1, 12.5, 16.2, 16.4, 16.6, 16.8), [[ONE, TWO, THREE, FOUR]]),
        ((8.5, 8.7, 8.9, 9.1, 9.3, 12.5, 16.2), [[ONE, TWO, THREE, FOUR]]),
        ((8.5,), [[ONE, TWO, THREE, FOUR]]),
        ((), [[ONE, TWO, THREE, FOUR]]),
    ],
)
def test_stretches_of_fewer_samples_are_judged_with_their_neighbours(in_stretches, kept_s, pieces):
    thinned(in_stretches, *kept_s)
    assert pieces_of(in_stretches, "gemm") == pieces
    assert load_of(device_of(in_stretches), "gemm").samples == len(kept_s)


@pytest.mark.parametrize(
    ("shortest_s", "pieces"),
    [
        (2.0, [[ONE], [TWO], [THREE, FOUR]]),
        (2.1, [[ONE, TWO], [THREE, FOUR]]),
        (4.1, [[ONE, TWO, THREE, FOUR]]),
    ],
)
def test_pieces_are_as_long_as_a_mean_needs(in_stretches, shortest_s, pieces):
    assert pieces_of(in_stretches, "gemm", shortest_s) == pieces


def test_a_piece_is_as_long_as_its_stretches_and_reaches_from_the_first_to_the_last(in_stretches):
    thinned(in_stretches, 8.5, 8.7, 12.5, 12.7, 16.5, 20.1)
    load = load_of(device_of(in_stretches), "gemm")
    (piece,) = load.pieces
    assert (piece.span, piece.length_s, load.measured_s) == (Window(8.0, 21.0), 7.0, 7.0)


@pytest.mark.parametrize(("samples", "fails"), [(4, False), (5, True)])
def test_fewer_than_five_samples_fail_no_card(in_stretches, samples, fails):
    thinned(in_stretches, *(8.5 + 0.1 * n for n in range(samples)))
    in_stretches.only("gemm")

    def judge(finding):
        return over_loads(device_of(in_stretches), ("arms",), lambda load: finding)

    assert judge(LOW).detail == "just over"
    if fails:
        assert judge(FAILED).outcome is Outcome.FAIL
    else:
        assert reason(lambda: judge(FAILED)).reason == (
            "only 4 samples while gemm was measured, too few to fail a card: raise `sampling.rate_hz`"
        )


def test_a_stretch_under_a_second_measures_nothing(bench):
    rounds_at(bench, "gemm", *every(6.0, 8.9, 0.29), seconds=0.29)
    found = reason(lambda: windows_of(bench, "gemm"))
    assert found.reason == "gemm was never measured for 1 s without a break"


def test_a_reason_of_another_stage_is_not_ascribed_to_the_one_that_asked(bench):
    doubt = NotMeasured("sustained: the power stands still")
    assert reason(lambda: judged(bench, doubt, doubt)).reason == "sustained: the power stands still"
    other = NotMeasured("gemm: the power stands still")
    assert reason(lambda: judged(bench, other, LOW)).reason == "gemm: the power stands still"


def test_a_fed_device_works_from_its_first_measured_round_to_its_last(bench):
    rounds_at(bench, "feeding", *every(97.0, 99.0), *every(105.0, 106.5))
    assert windows_of(bench, "feeding") == [(99.0, 106.5)]


@pytest.mark.parametrize(
    ("to_s", "pieces"), [(15.9, [(8.0, 15.9)]), (16.0, [(8, 10), (10, 12), (12, 14), (14, 16)])]
)
def test_a_stretch_of_eight_seconds_is_judged_in_quarters(bench, to_s, pieces):
    rounds_at(bench, "gemm", *every(6.0, 15.0, 1.0), to_s, seconds=1.0)
    assert windows_of(bench, "gemm") == [pytest.approx(one) for one in pieces]


def test_without_a_measured_round_there_is_no_load_and_why_is_reported(bench):
    rounds_at(bench, "gemm", *every(6.0, 10.0), phase="warmup")
    assert reason(lambda: windows_of(bench, "gemm")).reason == "no round of gemm was measured"
    bench.event("oom", GPU, "3 GiB wanted", 8.0, stage="gemm")
    found = reason(lambda: windows_of(bench, "gemm")).reason
    assert found == "no round of gemm was measured: 3 GiB wanted (at t=8 s)"


def test_a_stage_that_was_broken_off_is_no_load(bench):
    bench.stage("sustained", status="interrupted")
    assert reason(lambda: windows_of(bench)).reason == "the sustained stage was aborted"


def test_each_load_is_judged_by_what_the_device_did_in_it(bench):
    seen = []
    over_loads(device_of(bench), ("arms", "continuous"), lambda load: seen.append(load) or HIGH)
    assert [load.stage for load in seen] == ["gemm", "sustained", "sharing"]


@pytest.mark.parametrize(("phase", "from_s"), [("warmup", 31.0), ("measure", 28.0)])
def test_measured_work_counts_from_two_seconds_into_its_stage_on(bench, phase, from_s):
    """The device's rounds begin at 26 s; those that begin at 31 s and later are measured in any case."""
    bench.only("sustained")
    bench.rounds(GPU, "sustained", to_s=31.2, phase=phase)
    device = Evidence(bench.recording, bench.loaded).device(GPU)
    (stretch,) = measured_stretches(device)
    assert stretch.from_s == pytest.approx(from_s)
    assert stretch.length_s > 0


def piece(*places):
    return Piece(tuple(Window(one.start, one.stop) for one in places), places)


def test_the_figures_of_each_piece_are_of_the_readings_in_all_its_stretches():
    samples = Rows.of_records(
        GpuSample, [GpuSample(float(t_s), "a", power_w=value) for t_s, value in enumerate(POWER_W)]
    )
    pieces = [piece(slice(0, 2), slice(2, 4)), piece(slice(5, 9)), piece(slice(9, 11))]
    found = PieceReadings(pieces, samples, "power_w")
    assert found.counts.tolist() == [3, 4, 0]
    for figure, expected in (
        ("means", [3.0, 5.0, math.nan]),
        ("medians", [3.0, 5.0, math.nan]),
        ("upper_medians", [3.0, 6.0, math.nan]),
        ("lowest", [1.0, 2.0, math.nan]),
    ):
        assert getattr(found, figure).tolist() == pytest.approx(expected, nan_ok=True)
    assert list(map(len, found.parts)) == [4, 4, 2]  # with those that lack it


def test_joined_pieces_keep_all_their_stretches():
    first = Piece((Window(0, 2),), (slice(0, 3),))
    second = Piece((Window(5, 6), Window(8, 9)), (slice(5, 7), slice(8, 10)))
    joined = Piece.of([first, second])
    assert joined.stretches == (Window(0, 2), Window(5, 6), Window(8, 9))
    assert (joined.samples, joined.span, joined.length_s) == (7, Window(0, 9), 4)
    assert Piece.of([first]) is first
