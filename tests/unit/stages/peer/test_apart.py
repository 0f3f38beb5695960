"""In simulated runs a GPU with which all others fail, or that is lost, is left out of later exchanges."""

from collections.abc import Mapping

import pytest

from rigproof.judging.laps import judge_all
from rigproof.profiles.loading.load import over_defaults
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.levels import LevelName
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, Verdict, decide
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import KINDS
from support.equal_hosts import NONE
from support.lengths import lengths
from support.sentences import check_sentences

PEER, ALL_REDUCE, TOGETHER = "transfer.peer", "collective.all_reduce", "collective.training"
FAIL, NOT_MEASURED, PASS = Outcome.FAIL, Outcome.NOT_MEASURED, Outcome.PASS
WHY = "{} is to blame: all its pairs fail transfer.peer, no others"
Verdicts = Mapping[tuple[str, str], Verdict]


def rig(gpus: int, nodes: int = 1, soak_s: float = 30.0, peer_s: float = 0.1) -> LoadedRig:
    """Nodes with so many H100 each, that copy to each other, then work together."""
    of = {"cpus": 64, "ram_gib": 512, "gpus": [{"sku": "h100-sxm"}] * gpus}
    named = [{"name": f"n{one}", "address": f"n{one}.lan", **of} for one in range(nodes)]
    exchange = {"sustained": 16, "peer": peer_s, "collective": 4, "ddp": 3}
    tables = lengths("quick", "soak", settle_s=1, measure_s=1, **(NONE | exchange))
    tables["levels"] = {**tables["levels"], "soak_s": soak_s}
    return over_defaults({"name": "lab", **tables, "nodes": named}, "lab.toml", KINDS)


def ran(loaded: LoadedRig, *faults: str, level: LevelName = "quick") -> tuple[Recording, Verdicts]:
    """The recording of a run with these faults, and its verdicts; those on exchanges are good sentences."""
    recording = simulated_recording(loaded, level, faults)
    verdicts = judge_all(recording)
    check_sentences([one for one in verdicts if one.family == "collective" or one.criterion == PEER])
    assert decide(verdicts).value == "REJECTED"
    return recording, {(one.criterion, one.subject): one for one in verdicts}


def apart(recording: Recording) -> list[tuple[str, str | None]]:
    """Who is set apart, in which stage."""
    return [(one.subject, one.stage) for one in recording.events if one.kind == "set_apart"]


@pytest.mark.parametrize("gpus", [4, 8])
@pytest.mark.parametrize("fault", ["peer-zeros", "peer-slow"])
def test_the_others_go_on_without_a_gpu_that_fails_with_all_of_them(fault, gpus) -> None:
    bad = "n0/gpu2"
    recording, verdicts = ran(rig(gpus), f"{fault}@{bad}")
    failed = {
        subject: one for (name, subject), one in verdicts.items() if name == PEER and one.outcome is FAIL
    }
    assert len(failed) == gpus - 1
    assert all(
        bad in subject and f"{bad} is in all pairs that fail" in failed[subject].detail for subject in failed
    )
    (blamed,) = [one for one in recording.events if one.kind == "blamed"]
    assert (blamed.stage, blamed.subject, blamed.message) == ("peer", "n0", WHY.format(bad))
    assert apart(recording) == [(bad, "collective"), (bad, "ddp")]
    for stage in ("collective", "ddp"):
        assert set(recording.stages[stage].workers) == {f"n0/gpu{one}#0" for one in range(gpus) if one != 2}
        assert recording.stages[stage].status == "finished"
    found = verdicts[ALL_REDUCE, "n0"]
    assert found.outcome is NOT_MEASURED  # of the team that the profile promises
    assert f"{WHY.format(bad)}; the other {gpus - 1} pass: 21" in found.detail
    assert verdicts[TOGETHER, "rig"].outcome is NOT_MEASURED
    assert not any(one.kind in ("groups_tested", "not_told") for one in recording.events)


@pytest.mark.parametrize("fault", ["peer-zeros", "peer-slow"])
def test_of_two_gpus_nobody_is_set_apart(fault) -> None:
    recording, verdicts = ran(rig(2), f"{fault}@n0/gpu1")
    assert verdicts[PEER, "n0/gpu0-n0/gpu1"].outcome is FAIL
    assert not any(one.kind in ("blamed", "set_apart") for one in recording.events)
    assert verdicts[ALL_REDUCE, "n0"].outcome is PASS


def test_two_bad_gpus_of_a_node_are_no_reason_to_set_one_apart() -> None:
    recording, _ = ran(rig(4), "peer-zeros@n0/gpu1", "peer-zeros@n0/gpu2")
    assert apart(recording) == []


def test_each_node_has_its_own() -> None:
    recording, verdicts = ran(rig(3, nodes=2), "peer-zeros@n0/gpu1", "peer-slow@n1/gpu0")
    assert {device for device, _ in apart(recording)} == {"n0/gpu1", "n1/gpu0"}
    together = verdicts[ALL_REDUCE, "rig"]
    assert together.outcome is NOT_MEASURED
    assert (
        "collective exchanges data without n0/gpu1, n1/gpu0, which are to blame; the other 4 "
        in together.detail
    )


@pytest.mark.parametrize(("fault", "says"), [("wrong", "elements are wrong"), ("slow", "16 MiB")])
def test_what_is_wrong_among_the_others_fails(fault, says) -> None:
    recording, verdicts = ran(rig(4), "peer-zeros@n0/gpu2", f"collective-{fault}@n0/gpu1")
    assert ("n0/gpu2", "collective") in apart(recording)
    found = verdicts[ALL_REDUCE, "n0"]
    assert found.outcome is FAIL
    assert says in found.detail
    assert found.detail.endswith("; n0/gpu2 was left out")


def test_the_others_are_as_fast_without_a_gpu_whose_nvlink_is_down() -> None:
    recording, verdicts = ran(rig(4), "nvlink-down@n0/gpu2")
    assert ("n0/gpu2", "collective") in apart(recording)
    found = verdicts[ALL_REDUCE, "n0"]
    assert found.outcome is NOT_MEASURED
    assert "; the other 3 pass: 21" in found.detail


def test_a_rate_that_may_be_noise_is_no_reason() -> None:
    """It misses its limit by less than what is measured again."""
    recording, verdicts = ran(rig(4), "peer-slow@n0/gpu2:by=16.5%")
    assert verdicts[PEER, "n0/gpu0-n0/gpu2"].outcome is FAIL
    assert apart(recording) == []


def test_in_later_laps_all_pairs_are_measured_again_and_the_others_go_on() -> None:
    loaded = rig(4, soak_s=100.0)
    recording, verdicts = ran(loaded, "peer-zeros@n0/gpu2", level="soak")
    laps = {one.lap for one in recording.attempts}
    assert len(laps) > 1
    assert apart(recording) == [("n0/gpu2", stage) for _ in laps for stage in ("collective", "ddp")]
    assert verdicts[PEER, "n0/gpu0-n0/gpu2"].detail.startswith("in lap 1 of ")


@pytest.mark.parametrize(
    "fault",
    ["gpu-lost@n0/gpu1:stage=sustained", "gpu-lost@n0/gpu0:stage=sustained", "gpu-missing@n0/gpu1"],
)
def test_the_others_go_on_without_a_gpu_that_is_lost(fault) -> None:
    lost = "n0/gpu2" if "missing" in fault else fault[9:16]  # the driver counts those that are there
    others = {f"n0/gpu{one}#0" for one in range(3)} - {f"{lost}#0"}
    recording, verdicts = ran(rig(3), fault)
    assert apart(recording) == [(lost, "peer"), (lost, "collective"), (lost, "ddp")]
    for stage in ("peer", "collective", "ddp"):
        assert set(recording.stages[stage].workers) == others
        assert recording.stages[stage].status == "finished"
    for pair, found in ((pair, found) for (name, pair), found in verdicts.items() if name == PEER):
        assert found.outcome is (NOT_MEASURED if lost in pair else PASS)
        assert lost not in pair or lost in found.detail
    for found in (verdicts[ALL_REDUCE, "n0"], verdicts[TOGETHER, "rig"]):
        assert found.outcome is NOT_MEASURED
        assert lost in found.detail
        assert "; the other 2 pass: " in found.detail


def test_of_those_that_are_left_one_that_fails_with_all_others_is_left_out_too() -> None:
    lost, bad = "n0/gpu3", "n0/gpu1"
    recording, verdicts = ran(rig(4), f"gpu-lost@{lost}:stage=sustained", f"peer-zeros@{bad}")
    assert apart(recording) == [
        (lost, "peer"),
        *((one, stage) for stage in ("collective", "ddp") for one in (bad, lost)),
    ]
    assert verdicts[PEER, "n0/gpu0-n0/gpu2"].outcome is PASS
    assert "; the other 2 pass: " in verdicts[ALL_REDUCE, "n0"].detail


def test_a_gpu_that_was_lost_while_all_copied_has_no_part_in_collectives_although_its_process_lives() -> None:
    recording, verdicts = ran(rig(3, peer_s=1.0), "gpu-lost@n0/gpu1:stage=peer")
    assert ("n0/gpu1", "collective") in apart(recording)
    assert "n0/gpu1 does not answer; the other 2 pass: 21" in verdicts[ALL_REDUCE, "n0"].detail


def test_a_gpu_that_is_lost_in_collectives_is_left_out_of_training() -> None:
    recording, verdicts = ran(rig(4), "gpu-lost@n0/gpu1:stage=collective")
    assert apart(recording) == [("n0/gpu1", "ddp")]
    assert "n0/gpu1 does not answer; the other 3 pass: " in verdicts[TOGETHER, "rig"].detail


@pytest.mark.parametrize(("fault", "says"), [("wrong", "elements are wrong"), ("slow", "16 MiB")])
def test_what_is_wrong_among_those_that_are_left_fails(fault, says) -> None:
    lost = "gpu-lost@n0/gpu2:stage=peer"
    _, verdicts = ran(rig(4, peer_s=1.0), lost, f"collective-{fault}@n0/gpu1")
    found = verdicts[ALL_REDUCE, "n0"]
    assert found.outcome is FAIL
    assert says in found.detail
    assert found.detail.endswith("; n0/gpu2 was left out")


def test_two_nodes_go_on_without_a_third_that_is_lost() -> None:
    recording, verdicts = ran(rig(1, nodes=3), "node-lost@n1:stage=sustained")
    assert apart(recording) == [("n1/gpu0", "collective"), ("n1/gpu0", "ddp")]
    for name in (ALL_REDUCE, TOGETHER):
        assert "there is no process of n1/gpu0#0; the other 2 " in verdicts[name, "rig"].detail


@pytest.mark.parametrize(
    ("loaded", "fault"),
    [(rig(2), "gpu-lost@n0/gpu1:stage=sustained"), (rig(2, nodes=2), "node-lost@n1:stage=sustained")],
)
def test_where_too_few_are_left_nothing_is_begun(loaded, fault) -> None:
    recording, verdicts = ran(loaded, fault)
    assert apart(recording) == []
    found = verdicts[TOGETHER, "rig"]
    assert found.outcome is NOT_MEASURED
    assert "it did not begin: there is no process of n" in found.detail
