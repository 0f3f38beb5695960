"""In simulated runs the stage finds who is to blame; where all is well it asks for no further turn."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.judging.judge import judge
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.collective.criteria import CRITERIA
from support.simulated import rig_from

STAGE = "collective"
NODE = """
[[nodes]]
name = "n{number}"
address = "n{number}.lan"
cpus = 64
ram_gib = 512
gpus = [{gpus}]
"""


@pytest.fixture
def rig(tmp_path: Path) -> Callable[[int, int], LoadedRig]:
    """A rig of so many nodes with so many H100 each, that does little else."""

    def made(nodes: int, gpus: int) -> LoadedRig:
        cards = ", ".join(['{ sku = "h100-sxm" }'] * gpus)
        text = "".join(NODE.format(number=number, gpus=cards) for number in range(nodes))
        return rig_from(tmp_path, f'name = "lab"\n{text}')

    return made


def said(recording: Recording) -> list[tuple[str, str, str]]:
    found = [one for one in recording.events if one.kind in ("blamed", "not_told")]
    return [(one.kind, one.subject, one.message) for one in found]


def turns(recording: Recording) -> int:
    return sum(one.kind == "groups_tested" for one in recording.events)


def test_where_all_is_well_no_group_is_tested_by_itself(rig) -> None:
    recording = simulated_recording(rig(2, 2), "quick")
    assert (turns(recording), said(recording)) == (0, [])
    assert recording.stages[STAGE].status == "finished"


@pytest.mark.parametrize(
    ("nodes", "gpus", "fault", "failing"),
    [
        (1, 8, "collective-hang@n0/gpu5", {"n0"}),
        (3, 4, "collective-wrong@n1/gpu2", {"n1", "rig"}),
        (4, 4, "nvlink-down@n1/gpu2", {"n1"}),  # between nodes the LAN is slower
    ],
)
def test_a_card_that_spoils_its_team_is_found_and_named_in_the_verdict(
    rig, nodes, gpus, fault, failing
) -> None:
    loaded = rig(nodes, gpus)
    recording = simulated_recording(loaded, "quick", (fault,))
    name = fault.partition("@")[2]
    why = f"{name} is to blame: it fails with each partner"
    assert said(recording) == [("blamed", name.partition("/")[0], why)]
    assert 0 < turns(recording) <= 7
    (blamed,) = (one for one in recording.events if one.kind == "blamed")
    assert blamed.data["apart"] == [name]
    evidence = Evidence(recording, loaded)
    found = {one.subject: judge(CRITERIA[0], one.subject, evidence) for one in evidence.teams}
    failed = {subject for subject, verdict in found.items() if verdict.outcome is Outcome.FAIL}
    assert failed == failing
    assert all(why in found[one].detail for one in failed)
    assert max(len(found[one].detail) for one in failed) <= 255


def test_of_two_cards_alone_it_is_said_that_nobody_can_tell(rig) -> None:
    recording = simulated_recording(rig(1, 2), "quick", ("collective-hang@n0/gpu1",))
    ((kind, subject, message),) = said(recording)
    assert (kind, subject, turns(recording)) == ("not_told", "n0", 0)
    assert message.startswith("who is to blame cannot be told: there is nobody else that is fine")


def test_what_a_signal_did_is_no_reason_to_look_for_a_card(rig) -> None:
    recording = simulated_recording(rig(1, 4), "quick", ("rank-killed@n0/gpu1",))
    assert (turns(recording), said(recording)) == (0, [])
