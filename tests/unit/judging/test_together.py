"""An accepted rig of several devices says so if they did not exchange verified data."""

import json
from dataclasses import replace
from itertools import combinations

import pytest

from rigproof.criteria.criterion import Criterion
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import promised
from rigproof.judging.together import alone, not_together, remark
from rigproof.profiles.kinds.stages import Kinds
from rigproof.profiles.loading.load import default_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.planning import make_plan
from rigproof.profiles.planning.subjects import subjects
from rigproof.profiles.tables.stages import StageSettings
from rigproof.records.verdict import Decision, Outcome, Verdict
from rigproof.report.content import result as results
from rigproof.report.content.result import RunResult, result_of
from rigproof.report.content.verdict_json import write_verdict
from rigproof.report.files.metrics import write_metrics
from rigproof.report.files.summary_md import summary_text
from rigproof.report.terminal import plan_text
from rigproof.report.terminal.terminal import summary_lines
from rigproof.run import acceptance
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import FORMS, KINDS
from support.exchange import EXCHANGE, NAME, ExchangeKind, messages, plan, spec
from support.simulated import rig_from


def gpus(*counts: int) -> str:
    """The profile of nodes with so many cards each."""
    cards = [", ".join(['{ sku = "rtx-3090" }'] * count) for count in counts]
    head = 'address = "n{}.lan"\ncpus = 16\nram_gib = 64'
    nodes = (f'[[nodes]]\nname = "n{n}"\n{head.format(n)}\ngpus = [{one}]\n' for n, one in enumerate(cards))
    return f'name = "lab"\n[stages.copies]\n[stages.{NAME}]\n' + "".join(nodes)


def criterion(name: str, scope: str) -> Criterion:
    """One of the tests' own."""
    return replace(messages, name=name, scope=scope, stages=(name.partition(".")[0],))


def kind(name: str, *criteria: Criterion) -> ExchangeKind:
    """A stage of the rig's teams that exchanges, with these criteria."""

    class Own(ExchangeKind):
        pass

    Own.criteria = criteria
    planned = plan if name == NAME else leave_out
    return Own(name, "rests", StageSettings, spec=spec, crew="teams", plan=planned, unit="GB", exchanges=True)


def leave_out(*_about: object) -> None:
    """The plan of a stage that no level has."""


PAIRS = criterion("copies.word", "peers")
ADD, GATHER = criterion(f"{NAME}.add", "team"), criterion(f"{NAME}.gather", "team")
COPIES, SUMS = kind("copies", PAIRS), kind(NAME, ADD, GATHER)
PLAIN = tuple(replace(one, exchanges=False) for one in KINDS)  # as if only the tests' own did
OWN = Kinds((*PLAIN, COPIES, SUMS))
BOTH = ("copies", NAME)
IN_N0 = [f"n0/gpu{one}-n0/gpu{other}" for one, other in combinations(range(3), 2)]


@pytest.fixture
def rig(tmp_path):
    return lambda *counts: rig_from(tmp_path, gpus(*counts), OWN)


def good(loaded: LoadedRig, *criteria: Criterion) -> dict[tuple[str, str], Outcome]:
    return {(one.name, subject): Outcome.PASS for one in criteria for subject in promised(one, loaded)}


def missing(loaded: LoadedRig, outcomes, ended=BOTH) -> list[str]:
    return [team.text for team in not_together(loaded, OWN, ended, outcomes)]


@pytest.mark.parametrize(
    ("counts", "teams", "words"),
    [
        ((1,), [], ""),
        ((2,), ["n0"], "GPUs not tested together"),
        ((1, 1), ["rig"], "nodes not tested together"),
        ((2, 1), ["n0", "rig"], "GPUs not tested together"),
    ],
)
def test_a_rig_in_which_nothing_was_exchanged_says_so_for_each_of_its_teams(rig, counts, teams, words):
    loaded = rig(*counts)
    assert missing(loaded, {}) == teams
    assert remark(not_together(loaded, OWN, BOTH, {})) == words
    assert missing(loaded, good(loaded, ADD, GATHER)) == []


def test_without_a_stage_in_which_anything_is_exchanged_nothing_is_said(rig):
    kinds = Kinds((*PLAIN, EXCHANGE))
    assert not_together(rig(2, 2), kinds, (), {}) == ()
    assert alone(rig(1), kinds) == ""


def test_of_one_device_one_line_is_said(rig, tmp_path):
    assert alone(rig(1), OWN) == "one GPU: nothing to exchange with others"
    assert alone(rig(2), OWN) == alone(rig(1, 1), OWN) == ""


def test_copies_between_all_pairs_of_a_node_test_it_and_not_the_nodes_together(rig):
    loaded = rig(3, 3)
    outcomes = good(loaded, PAIRS)
    assert missing(loaded, outcomes) == ["rig"]
    assert remark(not_together(loaded, OWN, BOTH, outcomes)) == "nodes not tested together"


@pytest.mark.parametrize("pair", IN_N0)
@pytest.mark.parametrize("outcome", [Outcome.NOT_MEASURED, Outcome.FAIL, Outcome.NOT_APPLICABLE, None])
def test_one_pair_that_was_not_measured_leaves_its_node_untested(rig, pair, outcome):
    loaded = rig(3, 2)
    outcomes = good(loaded, PAIRS) | {(PAIRS.name, pair): outcome}
    assert missing(loaded, outcomes) == ["n0", "rig"]


@pytest.mark.parametrize("outcome", [Outcome.NOT_MEASURED, Outcome.FAIL])
def test_all_that_a_stage_judges_of_a_team_has_to_be_measured(rig, outcome):
    loaded = rig(2, 2)
    outcomes = good(loaded, ADD, GATHER)
    assert missing(loaded, outcomes | {(GATHER.name, "n1"): outcome}) == ["n1"]
    assert missing(loaded, outcomes | good(loaded, PAIRS) | {(GATHER.name, "n1"): outcome}) == []


@pytest.mark.parametrize("outcome", [Outcome.WARN, Outcome.NO_LIMIT, Outcome.NOT_APPLICABLE])
def test_a_rate_without_a_limit_is_of_verified_data_all_the_same(rig, outcome):
    loaded = rig(2)
    assert missing(loaded, good(loaded, ADD) | {(GATHER.name, "n0"): outcome}) == []
    nothing = dict.fromkeys(good(loaded, ADD, GATHER, PAIRS), Outcome.NOT_APPLICABLE)
    assert missing(loaded, nothing) == ["n0"]


@pytest.mark.parametrize(("ended", "found"), [((NAME,), []), (("copies",), ["n0"]), ((), ["n0"])])
def test_a_stage_that_did_not_end_tests_nobody(rig, ended, found):
    loaded = rig(2)
    assert missing(loaded, good(loaded, ADD, GATHER), ended) == found


@pytest.fixture
def result(monkeypatch, rig):
    """The result of a simulated run of two cards that are all good, in which these stages exchanged."""
    for module in (results, acceptance, plan_text):
        monkeypatch.setattr(module, "KINDS", OWN)
    monkeypatch.setattr("rigproof.report.content.facts.KINDS", OWN)
    monkeypatch.setattr(results, "default_rig", lambda _kinds, rig: default_rig(KINDS, rig))
    monkeypatch.setitem(FORMS, NAME, EXCHANGE.simulated)

    def made(outcome: Outcome, *counts: int) -> RunResult:
        loaded = rig(*counts)
        recording = simulated_recording(loaded, "quick")
        verdicts = [
            Verdict(each.name, one.text, outcome)
            for each in (ADD, GATHER)
            for one in subjects(loaded, "team")
        ]
        return result_of(recording, verdicts, decision=Decision.ACCEPTED, elapsed_s=60.0)

    return made


def test_every_output_says_it_where_it_says_accepted(result, tmp_path):
    found = result(Outcome.NOT_MEASURED, 2)
    said = "ACCEPTED, GPUs not tested together"
    assert summary_lines(found, None)[-1].startswith(f"SIMULATED {said}: ")
    assert summary_text(found).startswith(f"# rigproof: SIMULATED {said}\n")
    write_verdict(tmp_path / "verdict.json", found)
    assert json.loads((tmp_path / "verdict.json").read_text())["not_tested_together"] == ["n0"]
    write_metrics(tmp_path / "metrics.prom", found)
    (gauge,) = [
        line
        for line in (tmp_path / "metrics.prom").read_text().splitlines()
        if line.startswith("rigproof_not_tested_together{")
    ]
    assert gauge.endswith(" 1.0")
    whole = result(Outcome.PASS, 2)
    assert (whole.instead, whole.not_together, whole.alone) == ("", (), "")


def test_a_single_card_has_a_line_in_the_summary_and_none_of_it_in_the_verdict(result):
    found = result(Outcome.PASS, 1)
    assert (found.instead, found.not_together) == ("", ())
    assert "\nOne GPU: nothing to exchange with others.\n" in summary_text(found)


def test_the_plan_says_what_an_accepted_run_will_not(result, rig):
    catalogue = CATALOGUE | {each.name: each for each in (ADD, GATHER)}
    said = 'without a stage in which all GPUs exchange data: an accepted run is "ACCEPTED, '

    def lines(count: int, *without: str) -> list[str]:
        loaded = rig(count)
        made = make_plan(loaded, "quick")
        made = replace(made, stages=tuple(one for one in made.stages if one.name not in without))
        return list(plan_text.plan_lines(loaded, made, catalogue, promised))

    assert f'{said}GPUs not tested together"' in lines(2, NAME)
    assert not [line for line in lines(2) if line.startswith(said)]
    assert "one GPU: nothing to exchange with others" in lines(1)
