"""Whether the last verdict on this machine holds: from files as runs write them, on machines made up here."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import rigproof
from rigproof.history.standing import Here, NotAcceptedError, Wanted, seconds_of, standing
from rigproof.host.nvidia import KernelDriver
from rigproof.profiles.loading.files import digest
from rigproof.records.identity import GpuIdentity, HostInventory
from rigproof.records.measurements import BootReading
from rigproof.records.recording import Recording
from rigproof.records.verdict import Decision
from rigproof.report.content.facts import run_facts
from rigproof.report.content.result import RunResult
from rigproof.report.content.verdict_json import write_verdict
from rigproof.telemetry import inventory

ENDED = datetime.fromisoformat("2026-01-02T03:05:05Z")
OTHER = "GPU-99999999-2222-3333-4444-555555555555"
BOOT, UUID, CARD = "b00", "GPU-11111111-2222-3333-4444-555555555555", "0000:65:00.0"
DRIVER = KernelDriver(loaded=True, cards=(CARD,), expected=(CARD,), version="580.65", uuids=((CARD, UUID),))
HERE = Here("pc1", BOOT, DRIVER, None)
Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path, recording: Recording) -> Write:
    """Write the verdict.json of a run that was accepted on this machine, with changes to what it says."""
    recording.add(BootReading(30.0, "pc1", "after", BOOT))

    def run(name: str = "20260102T030405Z-lab-1", *, card: str = CARD, **changes: Any) -> None:
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        result = RunResult(recording, run_facts(recording), (), Decision.ACCEPTED, 60.0)
        write_verdict(folder / "verdict.json", result)
        content = json.loads((folder / "verdict.json").read_text())
        content["rig"]["nodes"][0]["gpus"][0]["pci_bus_id"] = f"0000{card.upper()}"
        content["rig"]["profile"] = changes.pop("profile", {})
        criteria = content.pop("criteria")  # the last that is read
        content = {**content, **changes, "criteria": criteria}
        (folder / "verdict.json").write_text(json.dumps(content, indent=1))

    return run


@pytest.fixture
def stand(tmp_path: Path):
    """How this machine stands an hour after the run."""

    def found(here: Here = HERE, hours: float = 1.0, **wanted: Any):
        return standing(tmp_path, Wanted(**wanted), here, ENDED + timedelta(hours=hours))

    return found


def test_an_accepted_run_holds_as_long_as_is_asked(write, stand) -> None:
    write()
    found = stand(max_age="24h", level="quick", hwprofile="lab")
    assert (found.exit_status, found.line) == (0, "ACCEPTED lab quick 1 h ago")
    assert stand(hours=1000).exit_status == 0
    found = stand(hours=25, max_age="24h")
    assert (found.exit_status, found.line) == (
        6,
        "none within 24h: the last is ACCEPTED lab quick 1 d ago",
    )


@pytest.mark.parametrize(
    ("changes", "line", "status"),
    [
        ({"verdict": "REJECTED", "exit_status": 1, "counts": {"fail": 2}}, "REJECTED{}: 2 failed", 1),
        ({"verdict": "INCOMPLETE", "counts": {"not_measured": 3}}, "INCOMPLETE{}: 3 not measured", 6),
        ({"verdict": "INCOMPLETE", "problems": ["no disk"]}, "INCOMPLETE{}: no disk", 6),
        ({"exit_status": 6}, "ACCEPTED{}: 0 not measured", 6),  # a file could not be written
        ({"not_tested_together": ["pc1"]}, "ACCEPTED{}, not tested together", 0),
    ],
)  # fmt: skip
def test_the_verdict_is_as_the_run_ended(write, stand, changes, line, status) -> None:
    write(**changes)
    found = stand()
    assert (found.line, found.exit_status) == (line.format(" lab quick 1 h ago"), status)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"simulated": True}, {}),
        ({"schema_version": 99}, {}),
        ({"shortened": [{"stage": "gemm"}]}, {}),
        ({}, {"level": "standard"}),
        ({"level": "of another version"}, {"level": "quick"}),
        ({"started_at": "yesterday"}, {}),
        ({"started_at": "2026-01-02T03:04:05Z", "elapsed_s": 1e999}, {}),
        ({"rig": {"name": "lab", "nodes": None}}, {}),
        ({"rig": {"name": "lab", "nodes": ["pc1"]}}, {}),
        ({"rig": {"name": "lab", "nodes": [{"gpus": 3}]}}, {}),
        ({"counts": []}, {}),
        ({"problems": 3}, {}),
        (
            {
                "rig": {
                    "name": "lab",
                    "nodes": [{"name": "pc9", "hostname": "pc9", "boot_id": "b09", "gpus": []}],
                }
            },
            {},
        ),
    ],
)
def test_what_does_not_count_is_passed_over(write, stand, changes, wanted) -> None:
    write("20260102T030405Z-lab-2", **changes)
    found = stand(**wanted)
    assert (found.exit_status, found.line[:5]) == (6, "none ")
    write("20260102T020405Z-lab-1", level="soak")
    assert stand(**wanted).line == "ACCEPTED lab soak 1 h ago"


def test_a_verdict_is_of_the_profile_that_is_asked_for(write, stand) -> None:
    write(profile={str(Path("lab.toml").absolute()): ""})
    assert stand(hwprofile="other").line.startswith("none of other in ")
    assert stand(hwprofile="./other.toml").line.startswith("none of ./other.toml in ")
    for name in ("lab", "lab.toml", "./lab.toml"):
        assert stand(hwprofile=name).line.startswith(
            "none that holds: lab.toml cannot be read since ACCEPTED"
        )


def test_a_shortened_run_or_one_at_a_lower_level_still_rejects(write, stand) -> None:
    write("20260102T020405Z-lab-1", level="standard")
    write("20260102T030405Z-lab-2", verdict="REJECTED", shortened=[{"stage": "gemm"}])
    assert stand(level="standard").exit_status == 1


@pytest.mark.parametrize("changes", [{}, {"verdict": "REJECTED", "exit_status": 1, "counts": {"fail": 1}}])
def test_what_was_judged_again_accepts_nothing_and_hides_nothing(write, stand, changes) -> None:
    write("20260102T020405Z-lab-1", level="soak")
    write("20260102T030405Z-lab-2", judged_again=True, **changes)
    found = stand()
    assert found.exit_status == (1 if changes else 6)
    assert changes or found.line == "none that holds: 20260102T030405Z-lab-2 was judged again"


@pytest.mark.parametrize(
    ("recorded", "status"),
    [
        ('{"type":"run","simulated":false}\n{"type":"node","hostname":"pc1"}\n', 6),
        ('{"type":"run","simulated":true}\n{"type":"node","hostname":"pc1"}\n', 0),
        ('{"type":"run","simulated":false}\n{"type":"node","hostname":"pc2"}\n', 0),
        (None, 0),
    ],
)
@pytest.mark.parametrize("verdict", [None, "{", '{"verdict": "REJECTED"'])
def test_behind_a_run_without_a_verdict_no_earlier_one_holds(
    write, stand, tmp_path, recorded, status, verdict
) -> None:
    write("20260102T020405Z-lab-1")
    killed = tmp_path / "runs" / "20260102T030405Z-lab-2"
    killed.mkdir()
    for name, text in (("recording.jsonl", recorded), ("verdict.json", verdict)):
        if text is not None:
            (killed / name).write_text(text)
    found = stand()
    assert found.exit_status == status
    assert status == 0 or found.line == "none that holds: 20260102T030405Z-lab-2 has no verdict"


def test_a_copy_under_another_name_is_no_run(write, stand) -> None:
    write("20260102T020405Z-lab-1", verdict="REJECTED", exit_status=1)
    write("backup-of-a-good-one")
    assert stand().exit_status == 1


@pytest.mark.parametrize(
    ("later", "status"),
    [(["quick"], 6), (["standard"], 6), (["soak"], 0), (["soak", "quick"], 0), (["quick", "quick"], 6)],
)
def test_a_short_run_does_not_clear_what_a_long_one_rejected(write, stand, later, status) -> None:
    write("20260102T000000Z-lab-0", level="soak", verdict="REJECTED", exit_status=1)
    for number, level in enumerate(later):
        write(f"20260102T01000{number}Z-lab-1", level=level)
    assert stand().exit_status == status


@pytest.mark.parametrize(
    ("since", "status"),
    [
        ([("other", "quick", "REJECTED")], 6),
        ([("other", "quick", "REJECTED"), ("other", "quick", "ACCEPTED")], 0),
        ([("other", "standard", "REJECTED"), ("other", "quick", "ACCEPTED")], 6),
        ([("other", "standard", "REJECTED"), ("lab", "quick", "ACCEPTED")], 6),
        ([("other", "quick", "REJECTED"), ("lab", "quick", "ACCEPTED")], 0),
        ([("other", "quick", "INCOMPLETE")], 0),
    ],
)
def test_what_another_profile_rejected_since_undoes_a_verdict(write, stand, since, status) -> None:
    write("20260102T000000Z-lab-0")
    for number, (rig, level, verdict) in enumerate(since):
        node = {"name": "pc1", "hostname": "pc1", "boot_id": BOOT, "gpus": []} if rig == "other" else None
        changes = {"rig": {"name": rig, "nodes": [node]}} if node else {}
        write(f"20260102T01000{number}Z-{rig}-1", level=level, verdict=verdict, **changes)
    found = stand(hwprofile="lab")
    assert found.exit_status == status, found.line


@pytest.mark.parametrize(
    ("here", "later", "status"), [(True, [], 6), (True, [2], 0), (True, [1, 1], 6), (False, [], 0)]
)
def test_a_run_of_some_cards_does_not_clear_what_one_of_more_rejected(write, stand, here, later, status):
    slots = (CARD, "0000:ca:00.0")
    gpus = [
        {"device": "cuda", "subject": f"pc1/gpu{number}", "uuid": uuid, "pci_bus_id": slot}
        for number, (uuid, slot) in enumerate(zip((UUID, OTHER), slots, strict=True))
    ]
    driver = replace(DRIVER, uuids=((CARD, UUID), (slots[1], OTHER)), expected=slots if here else (CARD,))
    for number, tested in enumerate([2, 1, *later]):
        told = {"name": "pc1", "hostname": "pc1", "boot_id": BOOT, "driver_version": "580.65"}
        rig = {"name": "pc1", "nodes": [told | {"gpus": gpus[:tested]}]}
        verdict = "ACCEPTED" if number else "REJECTED"
        write(f"20260102T01000{number}Z-pc1-1", rig=rig, verdict=verdict, exit_status=int(not number))
    found = stand(Here("pc1", BOOT, driver))
    assert found.exit_status == status, found.line
    assert not status or found.line == "none that holds: 20260102T010000Z-pc1-1 rejected it"


@pytest.mark.parametrize("changes", [{"judged_again": True}, {"shortened": [{"stage": "gemm"}]}])
def test_what_does_not_count_clears_no_rejection(write, stand, changes) -> None:
    write("20260102T000000Z-lab-0", level="soak", verdict="REJECTED", exit_status=1)
    write("20260102T010000Z-lab-1", level="soak", **changes)
    write("20260102T020000Z-lab-2")
    assert stand().line.startswith("none that holds: 20260102T000000Z-lab-0 rejected it")


@pytest.mark.parametrize(
    "changes", [{"interrupted": True}, {"counts": {"fail": 1}}, {"counts": {"not_measured": 2}}]
)
def test_what_contradicts_itself_is_not_accepted(write, stand, changes) -> None:
    write(**changes)
    assert stand().exit_status == 6


def test_gpus_that_were_not_tested_are_told(write, stand) -> None:
    write()
    more = replace(DRIVER, cards=(CARD, "0000:ca:00.0"), expected=(CARD, "0000:ca:00.0"))
    found = stand(Here("pc1", BOOT, more))
    assert (found.exit_status, found.notes[-1]) == (0, "not of the rig: 0000:ca:00.0")
    cpu = {
        "name": "pc1",
        "hostname": "pc1",
        "boot_id": BOOT,
        "gpus": [{"device": "cpu", "subject": "pc1/cpu0"}],
    }
    write("20260102T030406Z-lab-2", rig={"name": "lab", "nodes": [cpu]})
    assert stand().line.startswith("none that holds: there are GPUs here, and none was tested")
    assert stand(Here("pc1", BOOT, KernelDriver())).exit_status == 0


@pytest.mark.parametrize(
    ("setting", "status"),
    [(None, 0), ("0", 0), ("1", 6), ("0,1", 6), (OTHER[:8], 6), (UUID, 0), ("", 0), ("-1", 0), ("7", 0)],
)
def test_a_card_that_was_not_tested_is_no_ones_to_train_on(write, stand, setting, status) -> None:
    write()
    slots = (CARD, "0000:ca:00.0")
    more = replace(DRIVER, cards=slots, expected=slots, uuids=((CARD, UUID), (slots[1], OTHER)))
    found = stand(Here("pc1", BOOT, more, setting))
    assert found.exit_status == status, found.line
    named = f"none that holds: CUDA_VISIBLE_DEVICES={setting} names {slots[1]}, not tested"
    assert not status or found.line.startswith(named)


@pytest.mark.parametrize(
    ("setting", "order", "models", "status"),
    [
        ("0", None, ("RTX 3070", "RTX 3090"), 6),  # the 3090, wherever it is
        ("0", "FASTEST_FIRST", ("RTX 3070", "RTX 3090"), 6),
        ("0", "PCI_BUS_ID", ("RTX 3070", "RTX 3090"), 0),
        ("0", None, ("RTX 3090",), 0),
        (UUID, None, ("RTX 3070", "RTX 3090"), 0),
        (None, None, ("RTX 3070", "RTX 3090"), 0),
    ],
)
def test_an_index_may_mean_any_of_unlike_cards(write, stand, setting, order, models, status) -> None:
    write()
    slots = (CARD, "0000:ca:00.0")
    uuids = ((CARD, UUID), (slots[1], OTHER))
    more = replace(DRIVER, cards=slots, expected=slots, uuids=uuids, models=models)
    found = stand(Here("pc1", BOOT, more, setting, order))
    assert found.exit_status == status, found.line
    needs = "none that holds: CUDA_VISIBLE_DEVICES=0 needs CUDA_DEVICE_ORDER=PCI_BUS_ID"
    assert not status or found.line.startswith(needs)


@pytest.mark.parametrize(
    ("here", "why"),
    [
        (Here("pc1", "b01", DRIVER), "this machine was restarted since ACCEPTED"),
        (Here("pc1", None, DRIVER), "nobody knows whether this machine was restarted"),
        (Here("renamed", BOOT, KernelDriver()), "the driver is gone"),
        (Here("pc1", BOOT, replace(DRIVER, version="590.1")), "the driver changed to 590.1"),
        (Here("pc1", BOOT, replace(DRIVER, expected=())), "pc1/gpu0 is not there, or another card"),
        (
            Here("pc1", BOOT, replace(DRIVER, uuids=((CARD, OTHER),))),
            "pc1/gpu0 is not there, or another card",
        ),
    ],
)
def test_what_changed_since_undoes_a_verdict(write, stand, here, why) -> None:
    write()
    found = stand(here)
    assert found.exit_status == 6
    assert found.line.startswith(f"none that holds: {why}")


def test_a_card_that_has_not_told_its_uuid_is_known_by_its_slot(write, stand) -> None:
    write()
    assert stand(Here("pc1", BOOT, replace(DRIVER, uuids=()))).exit_status == 0
    moved = replace(DRIVER, expected=("0000:17:00.0",), uuids=(("0000:17:00.0", UUID),))
    assert stand(Here("pc1", BOOT, moved)).exit_status == 0  # the card is there, elsewhere


def test_a_run_that_ended_in_the_future_says_that_the_clock_is_wrong(write, stand) -> None:
    write()
    assert stand(hours=-1).line.endswith("ended in the future; set the clock")


def test_a_changed_profile_undoes_a_verdict_and_a_comment_does_not(write, stand, tmp_path) -> None:
    file = tmp_path / "lab.toml"
    file.write_text('name = "lab"\n')
    write(profile={str(file): digest({"name": "lab"})})
    assert stand(hwprofile=str(file)).exit_status == 0
    file.write_text('name = "lab"  # of the lab\n')
    assert stand().exit_status == 0
    file.write_text('name = "lab"\nlimits = {}\n')
    assert stand().line.startswith("none that holds: lab.toml changed since")


@pytest.mark.parametrize(
    ("limits_w", "doubt", "status"),
    [
        ({UUID: 700.0}, None, 0),
        ({UUID: 650.0}, None, 6),
        ({UUID: None}, None, 6),
        ({OTHER: 700.0}, None, 6),
        ({}, None, 6),
        ({UUID: 700.0}, "NVML did not answer within 5 s", 6),
    ],
)
def test_power_limits_are_compared_when_asked(write, stand, monkeypatch, limits_w, doubt, status) -> None:
    write()
    gpus = tuple(
        GpuIdentity("pc1/gpu0", "cuda", uuid, "NVIDIA H200", 0, 143771, power_limit_w=limit_w)
        for uuid, limit_w in limits_w.items()
    )
    monkeypatch.setattr(inventory, "detect", lambda _: HostInventory("pc1", 8, 16, "580.65", doubt, gpus))
    assert stand().exit_status == 0
    found = stand(power_limits=True)
    assert found.exit_status == status
    assert doubt is None or "NVML does not tell" in found.line


def test_a_line_has_at_most_80_characters(write, stand) -> None:
    write(verdict="INCOMPLETE", problems=["\x1b[2J" + "x" * 200])
    line = stand().line
    assert line.isprintable()
    assert len(line) == 80
    assert line.endswith("…")


def test_other_nodes_are_said_not_to_be_compared(write, stand, recording) -> None:
    write()
    assert len(stand().notes) == 1
    nodes = [{"name": "pc1", "hostname": "pc1", "boot_id": BOOT, "gpus": []}, {"name": "pc2", "gpus": []}]
    write("20260102T030406Z-lab-2", rig={"name": "lab", "nodes": nodes})
    assert stand().notes[1] == "not compared: pc2"


@pytest.mark.parametrize("text", ["", "24", "h", "1 h", "-1h", "1w", "1e3s", "nanh"])
def test_a_duration_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write it like 24h"):
        seconds_of(text)


def test_a_training_script_is_told_what_to_type(tmp_path) -> None:
    with pytest.raises(
        NotAcceptedError, match=r"none of lab.*`rigproof accept --level soak --hwprofile lab`"
    ):
        rigproof.require_accepted(level="soak", hwprofile="lab", report_dir=tmp_path)
    with pytest.raises(ValueError, match="no level"):
        rigproof.require_accepted(level="long", report_dir=tmp_path)


def test_nothing_heavy_is_imported_and_bad_options_are_refused(tmp_path) -> None:
    code = (
        "import sys, rigproof.cli.verdict\n"
        "heavy = {'torch', 'ray', 'pynvml', 'pydantic', 'numpy', 'typer', 'psutil', 'pytest'}\n"
        "print(*heavy & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("\n", "")
    for given in (["--max-age", "tomorrow"], ["--level", "long"], ["--unknown"]):
        command = [sys.executable, "-m", "rigproof", "verdict", *given]
        done = subprocess.run(
            command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (4, ""), given
        assert done.stderr.startswith("rigproof: ")
        assert done.stderr.count("\n") == 1
