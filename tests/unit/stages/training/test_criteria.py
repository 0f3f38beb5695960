"""The training step's own rate: against the SKU file, the champion and the peers of the same run."""

from dataclasses import replace

import pytest

from rigproof.judging.laps import judge_all
from rigproof.profiles.loading.load import over_defaults
from rigproof.records.champions import ChampionRate
from rigproof.records.verdict import Outcome
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import KINDS
from rigproof.stages.training.stage import STEP
from support.fault_changes import GPU, OTHER
from support.peers import make_peers, subject_of
from support.rig_profile import H200, loaded_rig, stage_changes

NAME = "training.step"
SPEEDUP = "precision.speedup"
PRODUCTS = "0.2 of 680 TFLOP/s, its own throughput.gemm_fp16; hwprofiles/defaults.toml"
PEER = "0.94 of 400 TFLOP/s, the other one of h200 in this run; hwprofiles/defaults.toml"


def without_figure(bench):
    unknown = H200.model_copy(update={"steady": H200.steady.model_copy(update={"training_tflops": None})})
    bench.loaded = replace(bench.loaded, skus=bench.loaded.skus | {"h200": unknown})


def floor(bench, subject=GPU):
    verdict = bench.verdict(NAME, subject)
    return verdict.limit, verdict.limit_source


def test_a_card_that_is_slow_in_every_precision_keeps_its_ratio_and_fails_by_its_rate(bench):
    bench.rounds(
        GPU, "training", steps=lambda one: one.label("steps") / 3, work=lambda one: one.work / 3
    )  # in the same time
    assert bench.verdict(SPEEDUP, GPU).outcome is Outcome.PASS
    verdict = bench.verdict(NAME, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, pytest.approx(400 / 3))


def test_the_highest_of_sku_file_champion_and_peers_is_the_floor(bench):
    assert floor(bench) == (pytest.approx(400 * 0.94), PEER)
    bench.rounds(OTHER, "training", work=lambda one: one.work * 0.5)
    assert floor(bench) == (
        300,
        "0.75 of 400 TFLOP/s, printed or reached by others; hwprofiles/gpus/h200.toml",
    )
    labels = {"precision": "fp16", "size": 2496, "batch": 16}
    best = ChampionRate(410.0, "TFLOP/s", 700, labels, 1, "run-7")
    bench.champions = {f"GPU-{GPU}": {STEP.name: (best,)}}
    assert floor(bench)[0] == pytest.approx(410 * 0.95)
    bench.champions = {f"GPU-{GPU}": {STEP.name: (replace(best, labels=labels | {"batch": 8}),)}}
    assert floor(bench)[0] == 300


@pytest.mark.parametrize(
    "fields",
    [{"batch": 8}, {"size": 1024}, {"precision": lambda one: one.label("precision").replace("fp16", "bf16")}],
)
def test_who_trained_something_else_is_no_peer(bench, fields):
    without_figure(bench)
    bench.rounds(OTHER, "training", **fields)
    assert floor(bench) == (pytest.approx(0.2 * 680), PRODUCTS)


def test_a_peer_under_a_higher_power_limit_is_scaled_down_to_its_own(bench):
    without_figure(bench)
    bench.gpu(GPU, power_limit_w=500)
    assert floor(bench)[0] == pytest.approx(0.94 * 400 * 500 / 700)
    assert floor(bench, OTHER)[0] == pytest.approx(0.94 * 400)


def test_who_alone_reports_no_power_limit_has_no_peer(bench):
    without_figure(bench)
    bench.gpu(OTHER, power_limit_w=None)
    assert floor(bench)[1] == PRODUCTS
    bench.settings("training", training_unknown_share=None)
    without_figure(bench)
    verdict = bench.verdict(NAME, GPU)
    assert verdict.outcome is Outcome.NO_LIMIT
    assert (
        verdict.detail == "no floor: no figure is known for this work on such a device; this is its baseline"
    )


def test_the_rig_profile_s_own_floor_stands_alone(bench):
    gpu = {"sku": "h200", "workers": 2, "floors": {"training_tflops": 200.0}}
    nodes = [{"name": "pc1", "gpus": [gpu]}, {"name": "pc2", "gpus": [{"sku": "h200"}]}]
    bench.rig(nodes=nodes)
    assert floor(bench) == (200.0, "hwprofiles/rigs/two-nodes.toml")


@pytest.mark.parametrize("drop", ["unverified", "none", "two"])
def test_too_few_steps_are_no_measurement(bench, drop):
    def kept(one):
        return one.stage != "training" or one.label("precision") != "fp16" or one.subject != GPU

    others = [one for one in bench.recording.rounds if kept(one)]
    own = [one for one in bench.recording.rounds if not kept(one) and one.label("part") == "precision"]
    own = [one for one in own if one.phase == "measure"]
    variants = {"unverified": [replace(one, verified=False) for one in own], "none": [], "two": own[:2]}
    bench.recording.rounds = others + variants[drop]
    verdict = bench.verdict(NAME, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail == "too few verified rounds of fp16"


def test_a_step_that_no_silicon_can_do_is_not_measured(bench):
    bench.rounds(GPU, "training", work=lambda one: one.work * 1e6)
    for name in (NAME, SPEEDUP):
        assert bench.verdict(name, GPU).outcome is Outcome.NOT_MEASURED
    assert bench.verdict(NAME, OTHER).outcome is Outcome.PASS  # and it is nobody's peer


def unknown(bench, **settings):
    """The cards have no SKU file; pc1/gpu0 trains at 400 TFLOP/s and multiplies at 680."""
    nodes = [{"name": name, "gpus": [{"sku": "unknown", "workers": 2}]} for name in ("pc1", "pc2")]
    bench.loaded = loaded_rig({"nodes": nodes, **stage_changes("training", **settings)})


@pytest.mark.parametrize(("share", "outcome"), [(0.5, Outcome.PASS), (0.501, Outcome.FAIL)])
def test_a_card_without_a_sku_file_trains_at_a_share_of_its_own_products(bench, share, outcome):
    unknown(bench, training_unknown_share=share)
    bench.rounds(GPU, "training", work=lambda one: one.work * 0.85)
    verdict = bench.verdict(NAME, GPU)
    assert (verdict.outcome, verdict.limit) == (outcome, pytest.approx(680 * share))
    assert verdict.limit_source == (
        f"{share:g} of 680 TFLOP/s, its own throughput.gemm_fp16; hwprofiles/defaults.toml"
    )


def test_the_gemm_rate_is_a_floor_of_training_only_where_no_step_of_the_model_was_measured(bench):
    bench.settings("training", training_unknown_share=0.6)
    assert floor(bench)[1] == PEER
    without_figure(bench)
    assert floor(bench)[1] == PRODUCTS.replace("0.2", "0.6")


def test_a_card_without_products_in_fp16_or_without_the_limit_has_no_such_floor(bench):
    unknown(bench, training_unknown_share=None)
    assert bench.verdict(NAME, GPU).outcome is Outcome.NO_LIMIT
    unknown(bench)
    left = [one for one in bench.recording.rounds if one.stage != "gemm" or one.label("precision") != "fp16"]
    fp16 = [one for one in bench.recording.rounds if one not in left and one.subject == GPU]
    fp16 = [one for one in fp16 if one.phase == "measure"]
    bench.recording.rounds = left + fp16[:2]
    assert bench.verdict(NAME, GPU).outcome is Outcome.NO_LIMIT
    bench.recording.rounds = left + fp16[:3]
    assert bench.verdict(NAME, GPU).outcome is Outcome.PASS
    bench.recording.rounds = [*left, replace(fp16[0], work=-1.0)]
    assert bench.verdict(NAME, GPU).outcome is Outcome.NO_LIMIT


BATCHES = (1, 2, 4, 8, 16, 32)
SAME = {"part": "sweep", "batch": 16}  # as the step before the sweep


def stepped(share, **labels):
    """This share of the work in steps with these labels."""

    return lambda one: one.work * share if labels.items() <= one.labels.items() else one.work


@pytest.mark.parametrize(("share", "outcome"), [(0.85, Outcome.PASS), (0.849, Outcome.FAIL)])
def test_the_same_step_in_the_sweep_is_as_fast_as_before(bench, share, outcome):
    bench.rounds(GPU, "training", work=stepped(share, **SAME))
    verdict = bench.verdict(NAME, GPU)
    assert verdict.outcome is outcome
    if outcome is Outcome.FAIL:
        assert (verdict.measured, verdict.limit) == (pytest.approx(400 * share), pytest.approx(340))
        assert verdict.limit_source == (
            "0.85 of 400 TFLOP/s, the same step before the sweep; hwprofiles/defaults.toml"
        )
        assert verdict.detail == "a step of 16 examples in fp16 in the sweep"


@pytest.mark.parametrize("batch", BATCHES)
def test_each_batch_of_the_sweep_is_held_against_the_cards_own_other_batches(bench, batch):
    unknown(bench)
    bench.rounds(GPU, "training", work=stepped(0.3, part="sweep", batch=batch))
    verdict = bench.verdict(NAME, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, pytest.approx(400 * 0.3))
    assert verdict.detail == f"a step of {batch} examples in fp16 in the sweep"
    assert bench.verdict(NAME, OTHER).outcome is Outcome.PASS


def test_small_batches_may_do_less_work_a_second_as_long_as_they_take_no_longer(bench):
    unknown(bench)
    for batch in BATCHES:
        bench.rounds(GPU, "training", work=stepped(batch / 32, part="sweep", batch=batch))
    bench.rounds(GPU, "training", work=stepped(0.5, part="precision", precision="fp16"))
    assert bench.verdict(NAME, GPU).outcome is Outcome.PASS
    bench.rounds(GPU, "training", work=stepped(0.6, part="sweep", batch=1))
    verdict = bench.verdict(NAME, GPU)
    assert (verdict.outcome, verdict.limit) == (Outcome.FAIL, pytest.approx(0.7 * 400 / 32))
    assert "by its steps of " in verdict.limit_source


def test_a_comparison_that_was_slower_than_its_sweep_fails_a_card_that_nobody_knows(bench):
    unknown(bench)
    bench.rounds(GPU, "training", work=stepped(0.5, part="precision", precision="fp16"))
    verdict = bench.verdict(NAME, GPU)
    assert (verdict.outcome, verdict.detail) == (Outcome.FAIL, "a step of 16 examples in fp16")


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_a_step_in_32_bits_is_held_against_those_of_its_peers(bench, precision):
    bench.rounds(GPU, "training", work=stepped(0.84, precision=precision))
    verdict = bench.verdict(NAME, GPU)
    assert (verdict.outcome, verdict.detail) == (Outcome.FAIL, f"a step of 16 examples in {precision}")
    assert verdict.limit_source.startswith("0.85 of ")
    assert "the other one of h200 in this run" in verdict.limit_source
    assert bench.verdict(NAME, OTHER).outcome is Outcome.PASS


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_a_step_in_32_bits_is_held_against_the_cards_own_products(bench, precision):
    unknown(bench)
    bench.rounds(GPU, "training", work=stepped(0.3, precision=precision))
    verdict = bench.verdict(NAME, GPU)
    assert (verdict.outcome, verdict.detail) == (Outcome.FAIL, f"a step of 16 examples in {precision}")
    assert f"by its step in fp16 and its throughput.gemm_{precision} and gemm_fp16" in verdict.limit_source


def test_batches_of_the_sweep_wait_for_their_host_and_are_not_compared_with_another_one_s(bench):
    bench.rounds(GPU, "training", work=stepped(0.8, part="sweep", batch=1))
    assert bench.verdict(NAME, GPU).outcome is Outcome.PASS
    make_peers(bench, 2)
    first, second = map(subject_of, range(2))
    bench.rounds(first, "training", work=stepped(0.8, part="sweep", batch=1))
    assert bench.verdict(NAME, first).outcome is Outcome.FAIL
    assert bench.verdict(NAME, second).outcome is Outcome.PASS


def test_a_step_that_kept_its_own_rate_in_the_sweep_is_held_against_its_peers_too(bench):
    """Its own batch is no larger one, by which a step that waits for its host is known."""
    make_peers(bench, 3)
    first = subject_of(0)
    bench.rounds(first, "training", work=stepped(0.95, part="precision", precision="fp16"))
    bench.rounds(first, "training", work=stepped(0.83, **SAME))
    verdict = bench.verdict(NAME, first)
    assert (verdict.outcome, verdict.detail) == (Outcome.FAIL, "a step of 16 examples in fp16 in the sweep")
    assert (verdict.measured, verdict.limit) == (pytest.approx(332), pytest.approx(340))


def test_two_rounds_of_the_same_step_in_the_sweep_are_no_measurement(bench):
    bench.rounds(GPU, "training", work=stepped(0.5, **SAME))
    own = [one for one in bench.recording.rounds.of(GPU) if one.phase == "measure"]
    same = [one for one in own if SAME.items() <= one.labels.items()]
    others = [one for one in bench.recording.rounds if one not in same]
    for number, outcome in ((2, Outcome.PASS), (3, Outcome.FAIL)):
        bench.recording.rounds = others + same[:number]
        assert bench.verdict(NAME, GPU).outcome is outcome


def test_the_step_at_the_largest_batch_counts_though_a_smaller_one_does_more_work_a_second(bench):
    """As after an OOM: three rounds of each."""
    own = [one for one in bench.recording.rounds if one.subject == GPU and one.stage == "training"]
    fp16 = [one for one in own if (one.label("part"), one.label("precision")) == ("precision", "fp16")]
    smaller = {one.t_s for one in fp16[-3:]}
    bench.rounds(
        GPU,
        "training",
        batch=lambda one: 8 if one.t_s in smaller else one.label("batch"),
        work=lambda one: one.work * (1.1 if one.t_s in smaller else 1.0),
    )
    verdict = bench.verdict(NAME, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.PASS, pytest.approx(400))


def test_of_several_slow_steps_the_one_furthest_under_its_limit_is_reported(bench):
    bench.rounds(GPU, "training", work=stepped(0.6, precision="fp32"))  # of 62.5 TFLOP/s
    bench.rounds(GPU, "training", work=stepped(0.2, part="sweep", batch=1))  # of 400
    assert bench.verdict(NAME, GPU).detail == "a step of 1 examples in fp16 in the sweep"


def test_a_step_that_is_too_slow_is_reported_before_its_sweep(bench):
    bench.slow(GPU, 0.5, "training")
    bench.rounds(GPU, "training", work=stepped(0.5, **SAME))
    assert bench.verdict(NAME, GPU).measured == pytest.approx(200)


@pytest.mark.parametrize("name", [NAME, SPEEDUP])
def test_steps_of_another_model_than_was_reported_are_no_measurement(bench, name):
    bench.rounds(GPU, "training", size=512)
    verdict = bench.verdict(name, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail == "rounds of a model of width 512, and another one was reported"


# What was reported of the losses


def report(bench, subject=GPU, precision="fp16", **data):
    """Other losses of one precision than were reported; without data none at all."""
    of = ("training", subject, precision)
    events = []
    for one in bench.recording.events:
        if (one.kind, one.subject, one.data.get("precision")) != of:
            events.append(one)
        elif data:
            events.append(replace(one, data=one.data | data))
    bench.recording.events = events


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"last_loss": 15.0}, "the loss has not fallen in fp16: 15.0000 after 9.5000"),
        ({"last_loss": float("nan")}, "the loss is nan in fp16"),
        ({"difference": 0.5}, "losses in fp16 are 0.5 apart from those in fp32, tolerance 0.002"),
    ],
)
def test_losses_that_show_wrong_steps_fail(bench, data, said):
    report(bench, **data)
    bench.stranger(74.0, used_mib=(520,) * 9, sm_percent=(90,) * 9)
    verdict = bench.verdict(NAME, GPU)
    assert (verdict.outcome, verdict.detail) == (Outcome.FAIL, said)
    assert bench.verdict(NAME, OTHER).outcome is Outcome.PASS


def test_wrong_losses_fail_although_the_steps_ended_too_early_for_a_rate(bench):
    report(bench, difference=0.5)
    bench.recording.rounds = [one for one in bench.recording.rounds if one.label("precision") != "fp16"]
    assert bench.verdict(NAME, GPU).outcome is Outcome.FAIL


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16"])
@pytest.mark.parametrize("data", [{}, {"last_loss": None}, {"last_loss": -1.0}])
def test_steps_whose_losses_were_not_reported_are_no_measurement(bench, precision, data):
    report(bench, precision=precision, **data)
    for criterion in (NAME, SPEEDUP):
        verdict = bench.verdict(criterion, GPU)
        assert verdict.outcome is Outcome.NOT_MEASURED
        assert verdict.detail == f"the losses of its steps in {precision} were not reported"


def test_a_loss_of_which_no_fall_is_expected_yet_fails_nobody(bench):
    """Four updates are compared with those of fp32; only later losses must be below the first one."""
    bench.rounds(GPU, "training", steps=lambda one: one.label("steps") / 100)
    report(bench, precision="fp32", last_loss=9.6)
    assert bench.verdict(NAME, GPU).outcome is Outcome.PASS


def test_a_lone_h100_that_trains_at_sixty_percent_fails_by_the_figure_of_its_model():
    node = {"name": "n1", "cpus": 16, "ram_gib": 256, "gpus": [{"sku": "h100-sxm"}]}
    alone = over_defaults({"name": "alone", "nodes": [node]}, "alone.toml", KINDS)
    recording = simulated_recording(alone, "standard")
    rounds = recording.rounds
    recording.rounds = [
        replace(one, work=0.6 * one.work) if one.stage == "training" else one for one in rounds
    ]
    found = {one.criterion: one for one in judge_all(recording, alone) if one.subject == "n1/gpu0"}
    assert found[NAME].outcome is Outcome.FAIL
    assert "360 TFLOP/s, measured on 3 cards" in found[NAME].limit_source
