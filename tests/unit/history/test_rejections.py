"""What cards were rejected for, from files as runs write them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rigproof.history import rejections
from rigproof.history.rejections import rejected_cards, rejection_lines
from rigproof.judging.catalogue import CATALOGUE

CARD, OTHER = "GPU-1111", "GPU-2222"
Write = Callable[..., None]


def failure(criterion: str, subject: str = "pc1/gpu0", **changes: Any) -> dict[str, Any]:
    return {"criterion": criterion, "subject": subject, "outcome": "fail", "remedy": "replace it", **changes}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write the verdict.json of a run in January with these criteria, and what the first card counted."""

    def run(day: int, *criteria: dict[str, Any], counted: Any = (), **changes: Any) -> None:
        folder = tmp_path / "runs" / f"202601{day:02d}T000000Z-lab"
        folder.mkdir(parents=True)
        gpus = [
            {"subject": f"pc1/gpu{number}", "device": "cuda", "uuid": uuid, "name": "NVIDIA H200"}
            for number, uuid in enumerate((CARD, OTHER))
        ]
        gpus[0] |= dict(counted)
        content = {
            "schema_version": 1,
            "verdict": "REJECTED" if criteria else "ACCEPTED",
            "simulated": False,
            "started_at": f"2026-01-{day:02d}T00:00:00Z",
            "elapsed_s": 60.0,
            "rig": {"name": "lab", "nodes": [{"name": "pc1", "gpus": gpus}]},
            **changes,
            "criteria": list(criteria),
        }
        (folder / "verdict.json").write_text(json.dumps(content, indent=1))

    return run


def test_a_card_has_all_that_it_was_rejected_for(write, tmp_path) -> None:
    write(1, failure("compute.exact"), failure("memory.ecc"))
    write(2)
    write(3, failure("compute.exact"))
    assert list(rejection_lines(tmp_path)) == [
        "rejected cards",
        "  pc1/gpu0 NVIDIA H200 GPU-1111: rejected in 2 of its last 3 runs: "
        "compute.exact (2, last 2026-01-03), memory.ecc (1, last 2026-01-01)",
    ]
    assert list(rejection_lines(tmp_path, "lab")) == list(rejection_lines(tmp_path))
    assert list(rejection_lines(tmp_path, "other")) == []


def test_what_is_judged_of_the_rig_is_a_criterion_of_that_name() -> None:
    assert rejections.LOSS in CATALOGUE


def test_an_xid_is_told_by_its_number(write, tmp_path) -> None:
    write(1, failure("health.xid", detail="Xid 79: fallen off the bus; Xid 154: recovery action changed"))
    write(2, failure("health.xid", detail="a recovery action"))
    write(3, failure("health.xid", detail="Xid 79 at t=9 s: fallen off the bus"))
    (_, line) = rejection_lines(tmp_path)
    assert line.endswith("health.xid 79 (2, last 2026-01-03), health.xid (1, last 2026-01-02)")


@pytest.mark.parametrize(
    ("criteria", "changes"),
    [
        ([], {}),
        ([failure("compute.exact")], {"simulated": True}),
        ([failure("compute.exact")], {"schema_version": 2}),
        ([failure("a.b", remedy="follows from compute.exact of pc1/gpu1")], {}),
        ([failure("a.b", outcome="warn")], {}),
        ([failure("lan.route", subject="pc1")], {}),
        ([failure("compute.exact")], {"verdict": "INCOMPLETE"}),
        (["no criterion"], {}),
        ([{"outcome": "fail"}], {}),
    ],
)
def test_what_says_nothing_of_a_card_is_left_out(write, tmp_path, criteria, changes) -> None:
    write(1, *criteria, **changes)
    assert rejected_cards(tmp_path) == {}


def test_what_its_runs_counted_is_told_in_all(write, tmp_path) -> None:
    write(1, failure("memory.ecc"), counted={"ecc_uncorrected": 2, "ecc_corrected": 14})
    write(2, counted={"ecc_corrected": 1, "ecc_uncorrected": "3", "lost_workers": True})
    (_, line) = rejection_lines(tmp_path)
    assert line.endswith(
        "rejected in 1 of its last 2 runs: memory.ecc (1, last 2026-01-01); "
        "in all 2 uncorrected ECC errors, 15 corrected ECC errors"
    )


def test_a_lost_worker_is_told_of_its_card_alone_and_not_if_others_ended_it(write, tmp_path) -> None:
    lost = failure("cluster.no_timeouts", subject="rig")
    write(1, lost, counted={"lost_workers": 1})
    write(2, lost)  # that of a node's agent
    write(3, counted={"lost_workers": 1}, verdict="INCOMPLETE")
    (_, line) = rejection_lines(tmp_path)
    assert line.startswith("  pc1/gpu0 ")
    assert line.endswith(
        "in 1 of its last 3 runs: cluster.no_timeouts (1, last 2026-01-01); in all 2 lost workers"
    )
    write(4, failure("cluster.no_timeouts", subject="rig", remedy="follows from health.xid of pc1/gpu1"))
    assert [line] == [one.replace("last 4 runs", "last 3 runs") for one in rejection_lines(tmp_path)][1:]


def test_a_card_keeps_its_record_in_another_slot_and_regains_its_name(write, tmp_path, monkeypatch) -> None:
    write(1, failure("compute.exact"))
    moved = {"subject": "pc2/gpu0", "device": "cuda", "uuid": CARD, "name": "NVIDIA H200"}
    write(2, rig={"name": "lab", "nodes": [{"name": "pc2", "gpus": [moved]}]})
    (card,) = rejected_cards(tmp_path).values()
    assert (card.subject, card.runs, len(card.rejections)) == ("pc2/gpu0", 2, 1)
    monkeypatch.setattr(rejections, "LAST", 1)
    assert rejected_cards(tmp_path) == {}


def test_of_many_criteria_three_are_named(write, tmp_path) -> None:
    write(1, *(failure(f"a.b{number}") for number in range(5)))
    (card,) = rejected_cards(tmp_path).values()
    assert card.sentence.endswith("a.b2 (1, last 2026-01-01), 2 more")


def test_a_folder_without_runs_has_nobody_to_name(tmp_path) -> None:
    assert rejected_cards(tmp_path) == {}
    (tmp_path / "runs" / "x").mkdir(parents=True)
    (tmp_path / "runs" / "x" / "verdict.json").write_text("{")
    assert list(rejection_lines(tmp_path)) == []
