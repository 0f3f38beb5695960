"""What the listing says of a history with several rigs, cards and damaged files."""

import json

import pytest

from rigproof.history.champions import StoredChampions
from rigproof.history.listing import (
    champion_lines,
    champions_listing,
    listing_lines,
    read_history,
    unreadable,
)


def stored(rate=70.0, **extra):
    known = {"title": "throughput.gemm_bf16", "unit": "TFLOP/s", "subject": "pc1/gpu0", "gpu_uuid": "GPU-1"}
    return {"extra_info": known | {"rate": rate} | extra, "stats": {"ops": 1.0, "rounds": 20}}


def write(folder, name, *benchmarks, when="2026-01-02T03:04:05+00:00"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps({"datetime": when, "benchmarks": benchmarks}))


@pytest.fixture
def history(tmp_path):
    write(tmp_path / "lab", "0001_run-1.json", stored(), stored(35.0, gpu_uuid="GPU-2", subject="pc1/gpu1"))
    write(tmp_path / "attic", "0001_run-9.json", stored(gpu_name="NVIDIA L4"))
    return tmp_path


def test_cards_and_criteria_are_listed_by_themselves(history):
    assert list(listing_lines(history, "lab")) == [
        "lab: 2 measurements of 1 run",
        "  pc1/gpu0 throughput.gemm_bf16   GPU-1",
        "    0001  2026-01-02 03:04      70.00 TFLOP/s           driver none, torch unknown",
        "  pc1/gpu1 throughput.gemm_bf16   GPU-2",
        "    0001  2026-01-02 03:04      35.00 TFLOP/s           driver none, torch unknown",
    ]


def test_all_rigs_are_listed_by_name(history):
    heads = [line for line in listing_lines(history) if not line.startswith(" ")]
    assert heads == ["attic: 1 measurement of 1 run", "lab: 2 measurements of 1 run"]
    (line,) = listing_lines(history, "cellar")
    assert line == f"{history}: cellar: no such rig; there are: attic, lab"


def test_a_run_that_is_not_stated_is_that_of_the_files_name(history):
    first, _ = read_history(history / "lab").rates
    assert (first.run_id, first.gpu_name, first.driver, first.file) == ("run-1", "", None, "0001_run-1.json")
    assert read_history(history / "attic").rates[0].gpu_name == "NVIDIA L4"


def test_a_change_is_computed_from_the_rate_before(history):
    for number, rate in ((2, 77.0), (3, 38.5)):
        write(history / "lab", f"000{number}_run-{number}.json", stored(rate))
    lines = list(listing_lines(history, "lab"))[2:5]
    changes = [line.partition("TFLOP/s")[2].partition("driver")[0].strip() for line in lines]
    assert changes == ["", "+10.0 %", "-50.0 %"]


def test_on_a_terminal_names_are_bold_and_notable_changes_are_coloured(history):
    for number, rate in ((2, 77.0), (3, 38.5), (4, 38.6)):
        write(history / "lab", f"000{number}_run-{number}.json", stored(rate))
    rig, card, first, up, down, same, *_ = listing_lines(history, "lab", color=True)
    assert rig.startswith("\x1b[1mlab\x1b[0m: ")
    assert card.startswith("  \x1b[1mpc1/gpu0 throughput.gemm_bf16\x1b[0m  ")
    assert "\x1b" not in first + same
    assert "\x1b[32m +10.0 %\x1b[0m" in up
    assert "\x1b[31m -50.0 %\x1b[0m" in down


def test_what_was_left_out_stands_below_what_was_not(history):
    (history / "lab" / "0002_run-2.json").write_text("{")
    *_, last = listing_lines(history, "lab")
    assert last.startswith(f"  {history / 'lab' / '0002_run-2.json'}: left out: ")
    assert last.endswith("; move it out of this folder")


def test_whether_anything_was_left_out_is_reported_for_one_rig_or_for_all(history, tmp_path):
    champions = tmp_path / "champions"
    (champions / "lab").mkdir(parents=True)
    assert not unreadable(history, champions)
    (history / "attic" / "0002_run-2.json").write_text("{")
    assert unreadable(history, champions)
    assert unreadable(history, champions, "attic")
    assert not unreadable(history, champions, "lab")
    (champions / "lab" / "rig.json").write_text("{")
    assert unreadable(history, champions, "lab")
    assert not unreadable(history, champions, "cellar")


def test_files_beside_the_rigs_folders_are_none(history, tmp_path):
    (history / "notes.txt").write_text("mine")
    champions = tmp_path / "champions"
    champions.mkdir()
    (champions / "notes.txt").write_text("mine")
    assert not unreadable(history, champions)
    assert [line for line in listing_lines(history) if "notes" in line] == []
    assert list(champions_listing(champions)) == []
    assert list(champions_listing(tmp_path / "nowhere")) == []


def test_where_nothing_is_kept_nothing_is_listed():
    assert list(champion_lines(StoredChampions(), "lab")) == []
