"""What training together is judged by: who took part, gradients, and what it gains and costs."""

import re
from copy import copy
from dataclasses import replace

import pytest

from rigproof.criteria.criterion import Finding, Trouble
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.judging.judge import judge, promised
from rigproof.profiles.loading.load import over_defaults
from rigproof.profiles.planning.subjects import subjects
from rigproof.records.measurements import Event, Round
from rigproof.records.verdict import Outcome
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.ddp.criteria import in_words, tables, training
from rigproof.stages.ddp.evidence import Team, team_of
from rigproof.stages.ddp.stage import ALONE, OWN, TOGETHER, Gradients
from rigproof.stages.registry import KINDS
from support.collective_bench import RAN_SHORT
from support.equal_hosts import NONE
from support.lengths import lengths
from support.sentences import check_sentences

GPUS = tuple(f"pc1/gpu{number}" for number in range(3))


def rig(*nodes, lengths_s=None, **settings):
    """Nodes with these cards, for a run of this stage, and of others of these lengths."""
    named = [
        {
            "name": f"pc{number}",
            "address": f"10.0.0.{number}",
            "cpus": 16,
            "ram_gib": 64,
            "gpus": [{"sku": one} for one in cards],
        }
        for number, cards in enumerate(nodes, 1)
    ]
    tables_ = lengths(
        "standard", settle_s=1, measure_s=1, **(NONE | {"sustained": 2, "ddp": 20} | (lengths_s or {}))
    )
    tables_["stages"]["ddp"] |= settings
    return over_defaults({"name": "lab", **tables_, "nodes": named}, "lab.toml", KINDS)


class Run:
    """A run that is changed, and judged."""

    def __init__(self, loaded, recording=None):
        self.loaded = loaded
        self.recording = copy(recording or simulated_recording(loaded, "standard"))
        self.recording.events = list(self.recording.events)

    def verdict(self):
        return judge(training, "rig", Evidence(self.recording, self.loaded))

    @property
    def team(self):
        (every,) = subjects(self.loaded, "rig")
        return team_of(SharedEvidence(Evidence(self.recording, self.loaded), every))

    def gradients(self, **changes):
        """Change the gradients for which `where` is true."""
        where = changes.pop("where")
        found = [replace(one, **changes) if where(one) else one for one in self.recording.of(Gradients)]
        self.recording.put(Gradients, found)

    def rounds(self, change):
        """Make of each round of the stage what `change` does; None drops it."""
        own = [(change(one) if one.stage == "ddp" else one) for one in self.recording.rounds]
        self.recording.put(Round, [one for one in own if one is not None])


@pytest.fixture(scope="module")
def three():
    return Run(rig(["h200-sxm"] * 3))


@pytest.fixture(scope="module")
def unlike():
    return Run(rig(["rtx-3090"], ["rtx-3070"]))


@pytest.fixture
def run(three):
    return Run(three.loaded, three.recording)


@pytest.fixture
def pcs(unlike):
    return Run(unlike.loaded, unlike.recording)


def test_it_is_promised_where_several_devices_are(run):
    assert promised(training, run.loaded, run.recording.run.stages) == ("rig",)
    assert "ddp" not in simulated_recording(rig(["h200-sxm"]), "standard").run.stages


def test_equal_cards_share_alike_and_gain(run):
    found, team = run.verdict(), run.team
    assert found.outcome is Outcome.PASS
    assert [one.batch for one in team.ranks] == [16, 16, 16]
    assert (found.measured, found.unit) == (team.times_alone, "×")
    assert found.detail.startswith(f"together {team.times_alone:.2g} × pc1/gpu")
    assert 2.5 < team.times_alone < 3
    assert team.exchange_share == pytest.approx(1 - team.times_alone / 3, abs=0.02)


def test_unlike_cards_get_examples_by_their_rate_and_a_slow_lan_is_said(pcs):
    found, team = pcs.verdict(), pcs.team
    assert [one.batch for one in team.ranks] == [21, 11]
    assert team.times_alone < 1
    assert found.outcome is Outcome.PASS
    assert "× pc1/gpu0 alone (21 + 11 examples); the LAN costs 9" in found.detail
    assert found.detail.endswith(f", but 25 % with gradient_accumulation_steps={team.accumulated(0.25)}")


def test_a_team_that_is_slow_for_other_reasons_is_not_told_to_exchange_less_often(pcs):
    """Where both share what computes, as two workers of one host may."""
    team = Team(tuple(replace(one, apart_s=9.8, together_s=10.0) for one in pcs.team.ranks))
    assert re.fullmatch(
        r"slower together: 0\.0\d+ × pc1/gpu0 alone \(21 \+ 11 examples\); "
        r"the LAN costs 2 % of each step",
        in_words(team),
    )


def test_accumulated_steps_bring_the_cost_down_to_the_share(pcs):
    team = pcs.team
    steps = team.accumulated(0.25)
    waiting_s = team.step_s - team.apart_s
    assert waiting_s / (steps * team.apart_s + waiting_s) <= 0.25
    assert waiting_s / ((steps - 1) * team.apart_s + waiting_s) > 0.25


def slower_together(one):
    return replace(one, seconds=1.5 * one.seconds) if one.label("part") == TOGETHER else one


def test_less_than_steps_and_an_exchange_one_after_the_other_allow_fails(run):
    run.rounds(slower_together)
    found = run.verdict()
    assert found.outcome is Outcome.FAIL
    assert found.measured < found.limit


def test_a_slow_exchange_is_not_taken_as_given_where_the_run_has_faster_ones():
    """Without the run's all-reduces it is: then nobody knows how fast it could be."""
    run = Run(rig(["h200-sxm"] * 3, lengths_s={"collective": 4}))
    assert run.verdict().outcome is Outcome.PASS
    team = run.team
    assert team.exchange_s < team.most_exchange_s < 0.5 * team.step_s
    exchange_s = 2.1 * team.most_exchange_s
    run.recording.events = [
        replace(one, data={**one.data, "exchange_s": exchange_s}) if one.kind == "ddp_rank" else one
        for one in run.recording.events
    ]
    share = (team.step_s - exchange_s) / team.apart_s  # of the seconds of steps without an exchange
    run.rounds(lambda one: replace(one, seconds=share * one.seconds) if one.label("part") == ALONE else one)
    found = run.verdict()
    assert found.outcome is Outcome.FAIL
    assert re.search(r"; alone it takes \S+ s, by the run's all-reduces \S+ s at most", found.detail)
    run.recording.put(Round, [one for one in run.recording.rounds if one.stage != "collective"])
    assert run.verdict().outcome is Outcome.PASS


def test_without_a_limit_it_is_only_measured(three):
    stage = three.loaded.rig.stages.ddp.model_copy(update={"own_share": None})
    stages = three.loaded.rig.stages.model_copy(update={"ddp": stage})
    loaded = replace(three.loaded, rig=three.loaded.rig.model_copy(update={"stages": stages}))
    assert Run(loaded, three.recording).verdict().outcome is Outcome.NO_LIMIT


def test_a_card_that_computes_other_gradients_is_outvoted_by_two(run):
    run.gradients(digest="0" * 16, where=lambda one: one.of == OWN and one.subject == GPUS[1])
    found = run.verdict()
    assert found.outcome is Outcome.FAIL
    assert found.detail.startswith("own gradients of micro-batch 0: pc1/gpu1 different on ")
    assert "pc1/gpu0, pc1/gpu2, which agree" in found.detail
    assert found.remedy.startswith("do not train on this device")


def test_the_one_that_a_third_device_decided_about_is_named_first():
    """Of micro-batch 0 a card of another model was the third one."""
    run = Run(rig(["h200-sxm", "h200-sxm", "rtx-3070", "h200-sxm"]))
    run.gradients(digest="0" * 16, where=lambda one: one.of == OWN and one.subject == "pc1/gpu3")
    found = run.verdict()
    assert found.outcome is Outcome.FAIL
    assert found.detail == (
        "own gradients of micro-batch 1: pc1/gpu3 different on pc1/gpu0, pc1/gpu1, which agree"
    )


def test_of_two_nobody_can_tell_which_one_is_wrong():
    run = Run(rig(["h200-sxm"] * 2))
    run.gradients(digest="0" * 16, where=lambda one: one.of == OWN and one.subject == GPUS[1])
    found = run.verdict()
    assert found.outcome is Outcome.FAIL
    assert found.detail.endswith("one of the two is wrong")
    assert found.remedy.startswith("do not train on either")


def test_a_rank_that_holds_other_gradients_after_the_exchange_fails(run):
    run.gradients(digest="0" * 16, where=lambda one: one.of != OWN and one.subject == GPUS[2])
    found = run.verdict()
    assert (found.outcome, found.detail[:53]) == (
        Outcome.FAIL,
        "gradients after the exchange of step 0: pc1/gpu2 diff",
    )


def test_unlike_cards_are_compared_by_norm(pcs):
    pcs.gradients(norm=0.93, where=lambda one: one.of == OWN and one.subject == "pc2/gpu0")
    found = pcs.verdict()
    assert found.outcome is Outcome.FAIL
    assert "pc2/gpu0 norm 0.93, and 0.9 on pc1/gpu0: one of the two is wrong" in found.detail


@pytest.mark.parametrize("norm", [None, float("nan"), float("inf")])
def test_a_norm_that_is_no_number_fails_too(pcs, norm):
    pcs.gradients(norm=norm, where=lambda one: one.of == OWN and one.subject == "pc2/gpu0")
    found = pcs.verdict()
    assert found.outcome is Outcome.FAIL
    assert "micro-batch 0: pc2/gpu0 has some that are no finite numbers" in found.detail


@pytest.mark.parametrize(("of", "as_all"), [(GPUS, ", as all have"), (GPUS[1:2], "")])
@pytest.mark.parametrize("own", [True, False])
def test_gradients_that_are_all_zero_fail(run, own, of, as_all):
    run.gradients(norm=0.0, where=lambda one: (one.of == OWN) == own and one.subject in of)
    found = run.verdict()
    assert found.outcome is Outcome.FAIL
    assert found.detail.endswith(f"{of[0]} has zeros alone{as_all}")


def test_exchanged_gradients_that_are_no_numbers_fail_though_all_have_the_same(run):
    run.gradients(norm=None, where=lambda one: one.of != OWN)
    found = run.verdict()
    assert found.outcome is Outcome.FAIL
    assert found.detail.endswith(
        "after the exchange of step 0: pc1/gpu0 has some that are no finite numbers, as all have"
    )


@pytest.mark.parametrize("phase", ["warmup", "measure"])
@pytest.mark.parametrize(
    ("part", "of", "detail"),
    [
        (ALONE, GPUS[1:2], "losses of steps alone: pc1/gpu1 has some that are no finite numbers"),
        (
            TOGETHER,
            GPUS,
            "losses of steps together: pc1/gpu0 has some that are no finite numbers, as all have",
        ),
    ],
)
def test_a_loss_that_is_no_number_fails_and_names_whose_it_is(run, phase, part, of, detail):
    def lost(one):
        hit = one.label("part") == part and one.phase == phase and one.worker.rpartition("#")[0] in of
        return replace(one, verified=False) if hit else one

    run.rounds(lost)
    found = run.verdict()
    assert (found.outcome, found.detail) == (Outcome.FAIL, detail)


def test_gradients_that_overflow_in_fp16_are_no_error_and_of_unlike_devices_none_to_compare(run, pcs):
    for one in (run, pcs):
        one.rounds(lambda each: replace(each, labels={**each.labels, "precision": "fp16"}))
        one.gradients(norm=None, where=lambda _: True)
    assert run.verdict().outcome is Outcome.PASS
    found = pcs.verdict()
    assert found.outcome is Outcome.NOT_MEASURED
    assert "overflowed on pc" in found.detail


def test_losses_that_overflow_on_all_devices_alone_are_nobodys_fault(run):
    run.rounds(lambda one: replace(one, verified=False) if one.phase == "warmup" else one)
    found = run.verdict()
    assert (found.outcome, found.detail) == (Outcome.NOT_MEASURED, "losses of pc1/gpu0 are no finite numbers")


def test_each_watched_step_has_to_be_reported(run):
    run.recording.put(Gradients, [one for one in run.recording.of(Gradients) if one.of == OWN or one.number])
    found = run.verdict()
    assert found.outcome is Outcome.NOT_MEASURED
    assert "did not report the exchanged gradients of step 0" in found.detail


@pytest.mark.parametrize(
    ("where", "what"),
    [
        (lambda one: one.of == OWN, "did not report the own gradients of micro-batch"),
        (lambda one: one.of != OWN, "pc1/gpu1 did not report the exchanged gradients of step 0"),
    ],
)
def test_gradients_that_were_not_reported_are_no_pass(run, where, what):
    left = [one for one in run.recording.of(Gradients) if not (where(one) and one.subject == GPUS[1])]
    run.recording.put(Gradients, left)
    found = run.verdict()
    assert found.outcome is Outcome.NOT_MEASURED
    assert what in found.detail


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (
            lambda one: None if one.label("part") == ALONE else one,
            "0 verified rounds of pc1/gpu0's steps alone",
        ),
        (lambda one: replace(one, verified=False), "losses of pc1/gpu0 are no finite numbers"),
        (lambda one: replace(one, labels={**one.labels, "size": 64}), "not of the model of width"),
        (lambda one: replace(one, labels={**one.labels, "batch": 99}), "are not of 16 examples"),
        (lambda one: replace(one, seconds=0.0), "not a valid measurement"),
    ],
)
def test_rounds_that_do_not_fit_are_no_measurement(run, change, what):
    run.rounds(change)
    found = run.verdict()
    assert found.outcome is Outcome.NOT_MEASURED
    assert what in found.detail


def test_a_rank_that_told_nothing_is_named_with_its_cause(run):
    run.recording.events = [
        one for one in run.recording.events if not (one.kind == "ddp_rank" and one.data["device"] == GPUS[1])
    ]
    assert run.verdict().detail == "pc1/gpu1 did not train with the others"
    run.recording.add(
        Event(30.0, "crew_failed", "rig", "it lost pc1/gpu1#0; the others were told to stop", "ddp")
    )
    found = run.verdict()
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail.startswith("the devices did not train together: it lost pc1/gpu1#0")


def stopped(run, device, **data):
    told = {"rank": device, "operation": "exchanged", "sequence": 9, "mib": 64, "inside": True, "held": False}
    message = f"the rank of {GPUS[device]} was silent"
    worker = f"{GPUS[device]}#0"
    run.recording.add(Event(30.0, "rank_stuck", "rig", message, "ddp", worker, {**told, **data}))


def test_a_rank_that_the_others_wait_for_fails_by_name(run):
    for rank in range(3):
        stopped(run, rank, sequence=9 - (rank == 1), inside=rank != 1)
    found = run.verdict()
    assert found.outcome is Outcome.FAIL
    assert GPUS[1] in found.detail


def test_a_rank_that_a_signal_stopped_rejects_no_rig(run):
    for rank in range(3):
        stopped(run, rank, sequence=9 - (rank == 1), inside=rank != 1, held=rank == 1)
    found = run.verdict()
    assert found.outcome is Outcome.NOT_MEASURED
    assert GPUS[1] in found.detail
    assert "who sent the signal" in found.remedy


@pytest.mark.parametrize(("error", "asked"), RAN_SHORT)
def test_a_rank_whose_host_gives_it_too_little_rejects_no_rig(run, error, asked):
    def died(error):
        told = {"rank": 1, "operation": "exchanged", "sequence": 9, "mib": 64, "inside": True}
        return Event(30.0, "rank_died", "rig", f"its process failed: {error}", "ddp", f"{GPUS[1]}#0", told)

    run.recording.add(died(error))
    found = run.verdict()
    assert found.outcome is Outcome.NOT_MEASURED
    assert f"ran short on rank 1 ({GPUS[1]})" in found.detail
    assert found.remedy.startswith(asked)
    run.recording.events[-1] = died("RuntimeError: it broke")
    assert run.verdict().outcome is Outcome.FAIL


@pytest.fixture(scope="module")
def without_gpu1():
    """GPU 1 of three was set apart, and the other two trained."""
    loaded = rig(["h200-sxm"] * 3, lengths_s={"peer": 0.3, "collective": 4})
    return Run(loaded, simulated_recording(loaded, "standard", [f"peer-zeros@{GPUS[1]}"]))


@pytest.fixture
def others(without_gpu1):
    return Run(without_gpu1.loaded, without_gpu1.recording)


def test_why_a_device_was_set_apart_and_how_the_others_did_is_said(others):
    found = others.verdict()
    assert found.outcome is Outcome.NOT_MEASURED
    why = f"{GPUS[1]} is to blame: all its pairs fail transfer.peer, no others"
    assert found.detail.startswith(f"ddp exchanges data without it: {why}; the other 2 pass: 1.7")
    check_sentences([found])


def test_others_that_are_slow_without_a_device_fail(others):
    others.rounds(slower_together)
    found = others.verdict()
    assert found.outcome is Outcome.FAIL
    assert found.measured < found.limit
    assert found.detail.endswith(f"; {GPUS[1]} was left out")
    check_sentences([found])


@pytest.mark.parametrize(
    ("of", "outcome", "detail"),
    [
        (GPUS[2:], Outcome.FAIL, f"losses of steps alone: {GPUS[2]} has some that are no finite numbers"),
        (GPUS[::2], Outcome.NOT_MEASURED, f"losses of {GPUS[0]} are no finite numbers"),
    ],
)
def test_losses_without_a_device_are_of_those_that_trained(others, of, outcome, detail):
    hit = {f"{one}#0" for one in of}
    others.rounds(lambda one: replace(one, verified=False) if one.worker in hit else one)
    found = others.verdict()
    assert found.outcome is outcome
    assert detail in found.detail


def test_the_exchange_of_the_others_is_held_against_their_own_all_reduces(others):
    (every,) = subjects(others.loaded, "rig")
    team = team_of(SharedEvidence(Evidence(others.recording, others.loaded), left_of(every)))
    assert team.exchange_s < team.most_exchange_s < 0.5 * team.step_s


def left_of(every):
    return replace(every, members=(GPUS[0], GPUS[2]))


def test_of_others_that_are_all_stuck_in_the_same_step_nobody_is_told_to_have_ended(others):
    for device in (0, 2):
        stopped(others, device, rank=device // 2, size=2)
    found = others.verdict()
    assert found.outcome is Outcome.FAIL
    assert "all 2 ranks were stuck inside exchanged 9 (64 MiB): which one cannot be told" in found.detail
    assert found.detail.endswith(f"; {GPUS[1]} was left out")


@pytest.mark.parametrize("of", [OWN, "exchanged"])
@pytest.mark.parametrize("how", ["held", "lost", "unreported"])
def test_gradients_that_differed_before_a_rank_was_stopped_or_lost_fail(run, of, how):
    run.gradients(digest="0" * 16, where=lambda one: one.of == of and one.subject == GPUS[1])
    if how == "held":
        stopped(run, 0, held=True)
    if how == "lost":
        data = {"workers": [f"{GPUS[0]}#0"]}
        run.recording.add(Event(30.0, "crew_failed", "rig", "it lost pc1/gpu0#0", "ddp", data=data))
        run.rounds(lambda one: None if one.label("part") == TOGETHER else one)
    left = run.recording.of(Gradients)
    run.recording.put(Gradients, [one for one in left if one.of == of or how == "held"])
    found = run.verdict()
    assert found.outcome is Outcome.FAIL
    assert "pc1/gpu1 different on pc1/gpu0, pc1/gpu2, which agree" in found.detail


def test_wrong_gradients_are_not_excused_by_a_stranger_in_memory(run):
    run.gradients(digest="0" * 16, where=lambda one: one.of == OWN and one.subject == GPUS[1])
    assert training.caused_by_others(None, Trouble(Finding(Outcome.FAIL), ("ddp",))) is None
    assert run.verdict().outcome is Outcome.FAIL


@pytest.mark.parametrize("changes", [{"exchange_s": "?"}, {"rank": 1}, {"width": None}])
def test_what_cannot_be_is_not_measured(run, changes):
    run.recording.events = [
        replace(one, data={**one.data, **changes}) if one.kind == "ddp_rank" else one
        for one in run.recording.events
    ]
    assert run.verdict().outcome is Outcome.NOT_MEASURED


def test_the_table_has_each_rank(run):
    (table,) = tables(run.recording)
    assert [row[0] for row in table.rows] == list(GPUS)
    assert all(len(row) == len(table.columns) for row in table.rows)
