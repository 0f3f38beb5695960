import json
from pathlib import Path

import pytest

from rigproof.history.champions import StoredChampions
from rigproof.history.listing import (
    champion_lines,
    champions_listing,
)
from rigproof.history.reading import read_history, unreadable
from support.histories import listed


def content(
    rate=70.0,
    *,
    subject="pc1/gpu0",
    uuid="GPU-1",
    when="2026-01-02T03:04:05+00:00",
    title="throughput.gemm_bf16",
    unit="TFLOP/s",
    **more,
):
    extra = {
        "title": title,
        "rate": rate,
        "unit": unit,
        "subject": subject,
        "gpu_uuid": uuid,
        "gpu_name": "NVIDIA H200",
        "run_id": "run-1",
        "driver": "580.65",
        "torch": "2.13.0",
        **more,
    }
    return {"datetime": when, "benchmarks": [{"extra_info": extra, "stats": {"ops": 1.0, "rounds": 20}}]}


@pytest.fixture
def lab(tmp_path):
    folder = tmp_path / "history" / "lab"
    folder.mkdir(parents=True)
    (folder / "0001_run-1.json").write_text(json.dumps(content(70.0)))
    (folder / "0002_run-2.json").write_text(
        json.dumps(content(63.0, subject="pc2/gpu0", when="2026-02-02T03:04:05+00:00"))
    )
    return folder


def test_measurements_are_read_oldest_first(lab):
    history = read_history(lab)
    assert [(one.kept.rate, one.measured_at[:10], one.number) for one in history.rates] == [
        (70.0, "2026-01-02", "0001"),
        (63.0, "2026-02-02", "0002"),
    ]
    assert history.problems == ()


@pytest.mark.parametrize(("folder", "mark"), [("history", ""), ("history-simulated", "SIMULATED ")])
def test_simulated_and_real_rates_are_never_in_one_history(lab, folder, mark):
    own = lab.parent.rename(lab.parent.parent / folder) / "lab"
    for path, simulated in zip(sorted(own.iterdir()), (True, False), strict=True):
        stored = json.loads(path.read_text())
        stored["benchmarks"][0]["extra_info"]["simulated"] = simulated
        path.write_text(json.dumps(stored))
    found = read_history(own)
    assert [one.kept.simulated for one in found.rates] == [bool(mark)]
    (left_out,) = found.problems
    assert "left out: simulated and real rates are kept apart; move it out of this folder" in left_out
    for each in (False, True):
        lines = list(listed(own.parent, each=each))
        assert lines[0].startswith(f"{mark}lab: 1 ")
        assert any(line.strip().startswith(f"{mark}pc") for line in lines)


def test_a_card_keeps_its_history_when_it_moves(lab):
    assert list(listed(lab.parent, each=True)) == [
        "lab: 2 measurements of 2 runs; each change is against the line above it",
        "  pc2/gpu0 throughput.gemm_bf16  NVIDIA H200 GPU-1",
        "    0001  2026-01-02 03:04      70.00 TFLOP/s           driver 580.65, torch 2.13.0",
        "    0002  2026-02-02 03:04      63.00 TFLOP/s  -10.0 %  driver 580.65, torch 2.13.0",
    ]


def test_two_runs_are_compared_by_their_numbers(lab):
    (lab / "0003_run-3.json").write_text(json.dumps(content(77.0)))
    _, _, first, last = listed(lab.parent, "lab", ["0003", "0001"])
    assert [line.split()[0] for line in (first, last)] == ["0001", "0003"]
    assert "77.00 TFLOP/s  +10.0 %" in last


def test_a_run_that_was_shorter_than_its_level_says_what_it_did(lab):
    short = content(75.0)
    short["benchmarks"][0]["extra_info"]["shortened"] = "for 2 s of load, not a quick run"
    (lab / "0003_run-3.json").write_text(json.dumps(short))
    *_, last = listed(lab.parent, each=True)
    assert last.endswith("+19.0 %  driver 580.65, torch 2.13.0, for 2 s of load, not a quick run")


def test_each_figure_is_listed_by_itself_in_its_unit(lab):
    both = content(4200.0, title="memory.bandwidth copy", unit="GB/s")
    both["benchmarks"] += content(4400.0, title="memory.bandwidth read", unit="GB/s")["benchmarks"]
    (lab / "0003_run-3.json").write_text(json.dumps(both))
    assert list(listed(lab.parent, each=True))[4:] == [
        "  pc1/gpu0 memory.bandwidth copy  NVIDIA H200 GPU-1",
        "    0003  2026-01-02 03:04    4200.00 GB/s           driver 580.65, torch 2.13.0",
        "  pc1/gpu0 memory.bandwidth read  NVIDIA H200 GPU-1",
        "    0003  2026-01-02 03:04    4400.00 GB/s           driver 580.65, torch 2.13.0",
    ]


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b'{"datetime"',
        b"[]",
        b'{"benchmarks": [{}]}',
        b"\xff\xfe\x00",
        b"[" * 5000,
        json.dumps(content(float("nan"))).encode(),
        json.dumps(content(0.0)).encode(),
        json.dumps(content(70.0, sm_clock_mean_mhz=1e308)).encode(),
    ],
)
def test_a_damaged_file_is_left_out_and_named(lab, damage):
    (lab / "0003_run-3.json").write_bytes(damage)
    history = read_history(lab)
    assert len(history.rates) == 2
    (problem,) = history.problems
    assert "0003_run-3.json: left out: " in problem
    assert "move it out of this folder" in problem
    assert any("0003_run-3.json" in line for line in listed(lab.parent, "lab"))


def test_a_folder_in_place_of_a_file_is_left_out(lab):
    (lab / "0003_run-3.json").mkdir()
    assert "is a folder" in read_history(lab).problems[0]


def test_a_file_too_large_to_be_ours_is_left_out(lab, monkeypatch):
    monkeypatch.setattr("rigproof.history.reading.HISTORY_BYTES_MAX", 10)
    problems = read_history(lab).problems
    assert len(problems) == 2
    size = min(path.stat().st_size for path in lab.iterdir())
    assert f"{size} bytes are more than the 10 it can have" in problems[0]


def test_no_history_says_where_it_comes_from(tmp_path):
    assert list(listed(tmp_path / "history")) == [
        f"{tmp_path / 'history'}: nothing is kept yet; "
        "a real run keeps its good rates (simulated ones: --simulated)"
    ]


def test_a_rig_with_an_empty_folder_has_no_history_either(tmp_path):
    (tmp_path / "lab").mkdir()
    assert list(listed(tmp_path)) == [
        "lab: nothing is kept yet; a real run keeps its good rates (simulated ones: --simulated)"
    ]


def test_a_link_out_of_the_folder_is_left_out_unread(lab, tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(content(9.0)))
    (lab / "0003_run-3.json").symlink_to(secret)
    history = read_history(lab)
    assert len(history.rates) == 2
    assert "a symbolic link leads out of" in history.problems[0]


def test_what_is_not_known_of_a_run_is_said_and_all_rigs_are_listed(lab):
    old = content(35.0, subject="pc1/gpu1", uuid="GPU-2")
    for name in ("run_id", "gpu_name", "driver", "torch"):
        del old["benchmarks"][0]["extra_info"][name]
    attic = lab.parent / "attic"
    attic.mkdir()
    (attic / "0001_run-9.json").write_text(json.dumps(old))
    assert list(listed(lab.parent, each=True))[:4] == [
        "attic: 1 measurement of 1 run",
        "  pc1/gpu1 throughput.gemm_bf16   GPU-2",
        "    0001  2026-01-02 03:04      35.00 TFLOP/s           driver none, torch unknown",
        "lab: 2 measurements of 2 runs; each change is against the line above it",
    ]
    (line,) = listed(lab.parent, "cellar")
    assert line == f"{lab.parent}: cellar: no such rig; there are: attic, lab"


def test_on_a_terminal_names_are_bold_and_notable_changes_are_coloured(lab):
    for number, rate in ((3, 69.3), (4, 69.4)):
        (lab / f"000{number}_run-{number}.json").write_text(json.dumps(content(rate)))
    rig, card, first, down, up, same = listed(lab.parent, "lab", each=True, color=True)
    assert rig.startswith("\x1b[1mlab\x1b[0m: ")
    assert card.startswith("  \x1b[1mpc1/gpu0 throughput.gemm_bf16\x1b[0m  ")
    assert "\x1b" not in first + same
    assert "\x1b[31m -10.0 %\x1b[0m" in down
    assert "\x1b[32m +10.0 %\x1b[0m" in up


def test_whether_anything_was_left_out_is_reported_for_one_rig_or_for_all(lab, tmp_path):
    champions = tmp_path / "champions"
    (champions / "lab").mkdir(parents=True)
    (champions / "notes.txt").write_text("mine")
    (lab.parent / "notes.txt").write_text("mine")
    assert not unreadable([read_history(lab)], champions)
    damaged = lab / "0003_run-3.json"
    damaged.write_text("{")
    *_, last = listed(lab.parent, "lab")
    assert last.startswith(f"  {damaged}: left out: ")
    assert unreadable([read_history(lab)], champions)
    assert not unreadable([], champions, "attic")
    damaged.unlink()
    (champions / "lab" / "rig.json").write_text("{")
    assert unreadable([], champions, "lab")
    assert not unreadable([], champions, "cellar")


def test_where_there_are_no_champions_nothing_is_listed(tmp_path):
    assert list(champion_lines(StoredChampions(), "lab")) == []
    assert list(champions_listing(tmp_path / "nowhere")) == []


def test_what_two_real_cards_kept_of_five_runs():
    lines = list(listed(Path(__file__).parents[3] / "reports" / "samples" / "h200-x2-history"))
    assert "  from 0003 of 2026-11-27 on: level extended → quick" in lines
    of_card = {line.split()[0]: number for number, line in enumerate(lines) if line.startswith("vm/gpu")}
    (own,) = [line for line in lines[of_card["vm/gpu0"] : of_card["vm/gpu1"]] if "gemm_bf16" in line]
    # Nothing of the run that another program disturbed.
    assert own.endswith("655 TFLOP/s median 655 ±0.43 % n 4")
    (other,) = [line for line in lines[of_card["vm/gpu1"] :] if "gemm_bf16" in line]
    assert other.endswith("648 TFLOP/s median 647 ±0.32 % n 5")
