"""Pairs of a simulated rig: they work in turns under the real driver, and what becomes of one is judged."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import pytest

from rigproof.cluster.driver import stage_loop
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.devices.further import Further
from rigproof.judging.judge import judge, promised
from rigproof.judging.laps import judge_all
from rigproof.profiles.kinds.stages import StageKinds, StagePlan
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.subjects import turns_of
from rigproof.profiles.tables.stages import StageSettings
from rigproof.records.crews import CrewKind
from rigproof.records.measurements import Event
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome
from rigproof.run import acceptance
from rigproof.run.simulated.trial import simulated_recording
from rigproof.simulation.faults.parsing import FaultError
from rigproof.stages.kind import StageWork
from rigproof.stages.registry import FORMS, KINDS
from support.exchange import EXCHANGE, NAME, TURN_S, messages, plan
from support.simulated import rig_from

NODE = """
[[nodes]]
name = "{name}"
address = "{name}.lan"
cpus = 16
ram_gib = 64
gpus = [{{ sku = "rtx-3090" }}, {{ sku = "rtx-3090" }}]
"""
NODES = ("lab", "lab-2")
DEVICES = tuple(f"{node}/gpu{number}" for node in NODES for number in (0, 1))
TEXT = f'name = "lab"\n[stages.{NAME}]\n' + "".join(NODE.format(name=name) for name in NODES)
WITH_PAIRS = StageKinds((*KINDS, EXCHANGE))
PAIRS = tuple("-".join(pair) for pair in combinations(DEVICES, 2))
OURS = "lab/gpu0#0"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadedRig]:
    """Two nodes of two cards each; the tests' stage is one of rigproof's meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(acceptance, "KINDS", WITH_PAIRS)
        patch.setitem(FORMS, NAME, EXCHANGE.simulated)
        yield rig_from(tmp_path_factory.mktemp("rig"), TEXT, WITH_PAIRS)


@pytest.fixture(scope="module")
def healthy(loaded: LoadedRig) -> Recording:
    """A run without a fault."""
    return simulated_recording(loaded, "quick")


def outcomes(recording: Recording, loaded: LoadedRig) -> dict[str, Outcome]:
    evidence = Evidence(recording, loaded)
    return {pair: judge(messages, pair, evidence).outcome for pair in PAIRS}


def failed(recording: Recording) -> dict[str, str]:
    own = (one for one in recording.events if one.kind == "crew_failed" and one.stage == NAME)
    return {one.subject: one.message for one in own}


def test_every_pair_is_promised_and_measured(healthy: Recording, loaded: LoadedRig) -> None:
    assert promised(messages, loaded) == PAIRS
    assert outcomes(healthy, loaded) == dict.fromkeys(PAIRS, Outcome.PASS)
    assert not failed(healthy)
    stage = healthy.stages[NAME]
    assert (stage.status, set(stage.workers)) == ("finished", {f"{one}#0" for one in DEVICES})
    assert stage.settings["expected_s"] == 3 * TURN_S


def test_no_device_is_in_two_pairs_at_a_time(healthy: Recording) -> None:
    rounds = sorted((one for one in healthy.rounds if one.stage == NAME), key=lambda one: one.t_s)
    for worker in {one.worker for one in rounds}:
        order = [one.subject for one in rounds if one.worker == worker]
        assert len(dict.fromkeys(order)) == 3
        assert sum(one != other for one, other in pairwise(order)) == 2


def test_what_pairs_do_is_held_against_no_device(healthy: Recording, loaded: LoadedRig) -> None:
    """A device has no rounds of its own there, and waits between its turns."""
    bad = (Outcome.FAIL, Outcome.NOT_MEASURED)
    assert not [(one.criterion, one.subject) for one in judge_all(healthy, loaded) if one.outcome in bad]


def test_a_rig_of_one_card_has_no_pair_and_no_such_stage(loaded: LoadedRig, tmp_path) -> None:
    node = NODE.format(name="pc1").replace(', { sku = "rtx-3090" }', "")
    alone = rig_from(tmp_path, f'name = "one"\n[stages.{NAME}]\n{node}', WITH_PAIRS)
    recording = simulated_recording(alone, "quick")
    assert NAME not in recording.stages
    assert promised(messages, alone, recording.run.stages) == ()
    assert NAME in alone.kinds


def test_a_card_that_is_missing_explains_each_of_its_pairs(loaded: LoadedRig) -> None:
    recording = simulated_recording(loaded, "quick", ("gpu-missing@lab-2/gpu1",))
    its = {pair for pair in PAIRS if pair.endswith("lab-2/gpu1")}
    found = outcomes(recording, loaded)
    assert {pair for pair in PAIRS if found[pair] is Outcome.NOT_MEASURED} == its
    assert {pair for pair in PAIRS if found[pair] is Outcome.PASS} == set(PAIRS) - its
    evidence = Evidence(recording, loaded)
    assert {judge(messages, pair, evidence).detail for pair in its} == {"lab-2/gpu1 was not found"}
    assert failed(recording) == dict.fromkeys(its, "it did not begin: there is no process of lab-2/gpu1#0")
    assert recording.stages[NAME].status == "partial"


def test_a_worker_that_dies_ends_its_crew_and_the_next_ones_go_on(loaded: LoadedRig) -> None:
    recording = simulated_recording(loaded, "quick", (f"worker-killed@lab/gpu0:stage={NAME},after=1",))
    (died,) = (one for one in recording.events if one.kind == "worker_died")
    assert died.stage == NAME
    (subject,) = failed(recording)
    assert failed(recording) == {subject: f"it lost {OURS}; the others were told to stop"}
    rounds = [one for one in recording.rounds if one.subject == subject]
    assert max(one.t_s for one in rounds) < recording.stages[NAME].start_s + TURN_S - 1  # all stopped early
    others = [one for one in PAIRS if one != subject]
    assert {outcomes(recording, loaded)[one] for one in others} == {Outcome.PASS}
    assert recording.stages[NAME].status == "partial"
    cause = Evidence(recording, loaded).shared("pair", subject).cause()
    assert cause.startswith(f"it lost {OURS}")


def test_a_worker_that_hangs_costs_its_own_crew_alone(loaded: LoadedRig) -> None:
    recording = simulated_recording(loaded, "quick", (f"hung-kernel@lab/gpu0:stage={NAME}",))
    (hung,) = (one for one in recording.events if one.kind == "worker_hung")
    assert hung.worker == OURS
    assert sorted({one.subject for one in recording.rounds if one.stage == NAME}) == sorted(PAIRS)
    assert recording.stages[NAME].status == "partial"


@pytest.mark.parametrize(
    ("crew", "turns", "found"),
    [
        ("nodes", 1, {"lab": 1, "lab-2": 1}),
        ("node_pairs", 1, {"lab+lab-2": 2}),
        ("groups", 1, {"sku:rtx-3090": 4}),
        ("rig", 1, {"rig": 4}),
        ("pairs", 3, dict.fromkeys(PAIRS, 2)),
    ],
)
def test_whoever_works_together_has_a_rank_of_its_own_and_one_subject(
    loaded: LoadedRig, tmp_path, monkeypatch, crew: CrewKind, turns: int, found: dict[str, int]
) -> None:
    kinds = StageKinds((*KINDS, replace(EXCHANGE, crew=crew)))
    monkeypatch.setattr(acceptance, "KINDS", kinds)
    recording = simulated_recording(rig_from(tmp_path, TEXT, kinds), "quick")
    rounds = [one for one in recording.rounds if one.stage == NAME]
    workers = {one: {other.worker for other in rounds if other.subject == one} for one in found}
    assert {one: len(members) for one, members in workers.items()} == found
    assert {one.subject for one in rounds} == set(found)
    assert recording.stages[NAME].settings["expected_s"] == turns * TURN_S


@pytest.mark.parametrize("fault", ["foreign-memory@lab/gpu0", "worker-killed@lab/gpu0:stage=gemm,after=1"])
def test_any_worker_of_a_node_can_stand_for_it(loaded: LoadedRig, tmp_path, monkeypatch, fault: str) -> None:
    """A host is measured although its first card is not there."""
    kinds = StageKinds((*KINDS, replace(EXCHANGE, crew="nodes", duty="idle")))
    monkeypatch.setattr(acceptance, "KINDS", kinds)
    recording = simulated_recording(rig_from(tmp_path, TEXT, kinds), "quick", (fault,))
    rounds = [one for one in recording.rounds if one.stage == NAME]
    first = "lab/gpu1#0" if "memory" in fault else OURS  # which was replaced
    assert {(one.subject, one.worker) for one in rounds} == {("lab", first), ("lab-2", "lab-2/gpu0#0")}
    assert recording.stages[NAME].status == "finished"


@pytest.mark.parametrize("fault", ["bit-flip", "gpu-idle", "gpu-lost", "hung-kernel"])
def test_a_fault_of_a_card_does_not_act_while_its_host_is_measured(tmp_path, monkeypatch, fault: str) -> None:
    kinds = StageKinds((*KINDS, replace(EXCHANGE, crew="nodes", duty="idle")))
    monkeypatch.setattr(acceptance, "KINDS", kinds)
    monkeypatch.setitem(FORMS, NAME, EXCHANGE.simulated)
    rig = rig_from(tmp_path, TEXT, kinds)
    with pytest.raises(FaultError, match="it would never act, or nothing would notice it"):
        simulated_recording(rig, "quick", (f"{fault}@lab/gpu0:stage={NAME}",))
    rounds = list(simulated_recording(rig, "quick", (f"{fault}@lab/gpu0",)).rounds)
    own = [one for one in rounds if (one.stage, one.subject) == (NAME, "lab")]
    assert own
    assert all(one.verified for one in own)


def again(work: StageWork, recording: Recording) -> Further | None:
    """What a stage may ask for: every pair that failed meets once more."""
    lost = {one.subject for one in recording.events if one.kind == "crew_failed"}
    asked = {one.subject for one in recording.events if one.kind == "not_told"}
    if not lost - asked:
        return Further(events=(Event(0.0, "not_told", "rig", "over", NAME),)) if lost else None
    turns = turns_of("pairs", work.loaded, work.plan.workers)
    crew = next(one for turn in turns for one in turn if one.subject in lost - asked)
    specs = dict.fromkeys(crew.workers, EXCHANGE.spec(work, work.plan.workers[0], StageSettings()))
    return Further(specs, (crew,), (Event(0.0, "not_told", crew.subject, "once more", NAME),))


PLANNED_S = 3 * TURN_S


@pytest.fixture
def asking(loaded: LoadedRig, tmp_path, monkeypatch) -> Callable[..., Recording]:
    """Run the rig with these faults, where the stage asks for further turns by `again`, or another way."""

    def run(*faults: str, further: Callable[..., Further | None] = again) -> Recording:
        kinds = StageKinds((*KINDS, replace(EXCHANGE, further=further)))
        monkeypatch.setattr(acceptance, "KINDS", kinds)
        return simulated_recording(rig_from(tmp_path, TEXT, kinds), "quick", faults)

    return run


def told(recording: Recording) -> list[tuple[str, str]]:
    return [(one.subject, one.message) for one in recording.events if one.kind == "not_told"]


def test_where_all_is_well_no_further_turn_is_asked_for(asking, healthy: Recording) -> None:
    recording = asking()
    assert not told(recording)
    ended_s = (recording.stages[NAME].end_s, healthy.stages[NAME].end_s)
    assert ended_s[0] == pytest.approx(ended_s[1])


def test_a_stage_can_ask_for_further_turns_by_what_was_recorded(asking) -> None:
    recording = asking(f"worker-killed@lab/gpu0:stage={NAME},after=1")
    (subject,) = failed(recording)
    assert told(recording) == [(subject, "once more"), ("rig", "over")]
    stage = recording.stages[NAME]
    said_s = [one.t_s for one in recording.events if one.kind == "not_told"]
    late = [one for one in recording.rounds if one.stage == NAME and one.t_s > said_s[0]]
    assert {one.subject for one in late} == {subject}
    assert len({one.worker for one in late}) == 2
    assert stage.start_s < said_s[0] < said_s[1] <= stage.end_s
    # What the plan had counts, and nothing else.
    assert (stage.status, stage.settings["expected_s"]) == ("partial", PLANNED_S)
    assert stage.loaded_to_s < min(one.t_s for one in late)


def always(work: StageWork, _recording: Recording) -> Further:
    turn = turns_of("pairs", work.loaded, work.plan.workers)[0]
    task = EXCHANGE.spec(work, work.plan.workers[0], StageSettings())
    return Further({name: task for crew in turn for name in crew.workers}, turn)


def test_a_stage_that_never_has_enough_is_ended(asking, monkeypatch) -> None:
    monkeypatch.setattr(stage_loop, "FURTHER", 3)
    recording = asking(further=always)
    rounds = Counter(one.subject for one in recording.rounds if one.stage == NAME)
    assert sorted(set(rounds.values())) == [rounds[PAIRS[0]], 4 * rounds[PAIRS[0]]]
    assert recording.stages[NAME].status == "finished"


def test_a_worker_that_hangs_in_a_further_turn_is_ended_and_replaced_no_more_than_in_others(
    asking, monkeypatch
) -> None:
    monkeypatch.setattr(stage_loop, "FURTHER", 1)
    recording = asking(f"hung-kernel@lab/gpu0:stage={NAME}", further=always)
    assert {one.worker for one in recording.events if one.kind == "worker_hung"} == {OURS}
    assert recording.stages[NAME].status == "partial"


def test_who_is_to_blame_is_left_out_of_what_others_exchange_later(
    loaded: LoadedRig, tmp_path, monkeypatch
) -> None:
    """Of a crew the others go on, if there are two of them."""

    def blaming(_work: StageWork, recording: Recording) -> Further | None:
        if any(one.kind == "blamed" for one in recording.events):
            return None
        data = {"kind": "gpu", "devices": [DEVICES[3]], "apart": [DEVICES[3]]}
        return Further(events=(Event(0.0, "blamed", DEVICES[3], "it fails", NAME, data=data),))

    def planned(*about: Any) -> StagePlan:
        return replace(plan(*about), name="later")

    later = replace(EXCHANGE, name="later", crew="rig", exchanges=True, plan=planned)
    kinds = StageKinds((*KINDS, replace(EXCHANGE, further=blaming), later))
    monkeypatch.setattr(acceptance, "KINDS", kinds)
    monkeypatch.setitem(FORMS, "later", EXCHANGE.simulated)
    rig = rig_from(tmp_path, TEXT.replace("[[nodes]]", "[stages.later]\n[[nodes]]", 1), kinds)
    recording = simulated_recording(rig, "quick")
    assert set(recording.stages["later"].workers) == {f"{one}#0" for one in DEVICES[:3]}
    assert recording.stages["later"].status == "finished"
    (apart,) = (one for one in recording.events if one.kind == "set_apart")
    assert (apart.subject, apart.message) == (DEVICES[3], "later exchanges data without it: it fails")


def test_a_mistake_in_what_a_stage_asks_for_costs_nothing_that_was_measured(asking) -> None:
    def broken(_work: StageWork, _recording: Recording) -> None:
        raise ZeroDivisionError("nothing")

    recording = asking(further=broken)
    ((subject, message),) = told(recording)
    assert subject == "rig"
    said = r"looking for who is to blame failed: ZeroDivisionError: nothing \(test_crews\.py:\d+\)"
    assert re.fullmatch(said, message)
    assert recording.stages[NAME].status == "finished"
