import json

import pytest

from rigproof.history.listing import listing_lines, read_history, unreadable


def content(
    rate=70.0,
    *,
    subject="pc1/gpu0",
    uuid="GPU-1",
    when="2026-01-02T03:04:05+00:00",
    title="throughput.gemm_bf16",
    unit="TFLOP/s",
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
    assert [(one.rate.value, one.measured_at[:10], one.rounds) for one in history.rates] == [
        (70.0, "2026-01-02", 20),
        (63.0, "2026-02-02", 20),
    ]
    assert history.problems == ()


def test_a_card_keeps_its_history_when_it_moves(lab):
    assert list(listing_lines(lab.parent)) == [
        "lab: 2 measurements of 2 runs; each change is against the line above it",
        "  pc2/gpu0 throughput.gemm_bf16  NVIDIA H200 GPU-1",
        "    0001  2026-01-02 03:04      70.00 TFLOP/s           driver 580.65, torch 2.13.0",
        "    0002  2026-02-02 03:04      63.00 TFLOP/s  -10.0 %  driver 580.65, torch 2.13.0",
    ]


def test_two_runs_are_compared_by_their_numbers(lab):
    (lab / "0003_run-3.json").write_text(json.dumps(content(77.0)))
    _, _, first, last = listing_lines(lab.parent, "lab", ["0003", "0001"])
    assert [line.split()[0] for line in (first, last)] == ["0001", "0003"]
    assert "77.00 TFLOP/s  +10.0 %" in last


def test_a_run_that_was_shorter_than_its_level_says_what_it_did(lab):
    short = content(75.0)
    short["benchmarks"][0]["extra_info"]["shortened"] = "for 2 s of load, not a quick run"
    (lab / "0003_run-3.json").write_text(json.dumps(short))
    *_, last = listing_lines(lab.parent)
    assert last.endswith("+19.0 %  driver 580.65, torch 2.13.0, for 2 s of load, not a quick run")


def test_each_figure_is_listed_by_itself_in_its_unit(lab):
    both = content(4200.0, title="memory.bandwidth copy", unit="GB/s")
    both["benchmarks"] += content(4400.0, title="memory.bandwidth read", unit="GB/s")["benchmarks"]
    (lab / "0003_run-3.json").write_text(json.dumps(both))
    assert list(listing_lines(lab.parent))[4:] == [
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
    ],
)
def test_a_damaged_file_is_left_out_and_named(lab, damage):
    (lab / "0003_run-3.json").write_bytes(damage)
    history = read_history(lab)
    assert len(history.rates) == 2
    (problem,) = history.problems
    assert "0003_run-3.json: left out: " in problem
    assert "move it out of this folder" in problem
    assert any("0003_run-3.json" in line for line in listing_lines(lab.parent, "lab"))


def test_a_folder_in_place_of_a_file_is_left_out(lab):
    (lab / "0003_run-3.json").mkdir()
    assert "is a folder" in read_history(lab).problems[0]


def test_a_file_too_large_to_be_ours_is_left_out(lab, monkeypatch):
    monkeypatch.setattr("rigproof.history.listing.HISTORY_BYTES_MAX", 10)
    problems = read_history(lab).problems
    assert len(problems) == 2
    size = min(path.stat().st_size for path in lab.iterdir())
    assert f"{size} bytes are more than the 10 it can have" in problems[0]


def test_an_unknown_rig_is_answered_with_the_known_ones(lab):
    assert list(listing_lines(lab.parent, "labb")) == [f"{lab.parent}: labb: no such rig; there are: lab"]


def test_no_history_says_where_it_comes_from(tmp_path):
    assert list(listing_lines(tmp_path / "history")) == [
        f"{tmp_path / 'history'}: nothing is kept yet; a run of real devices keeps its good rates"
    ]


def test_a_rig_with_an_empty_folder_has_no_history_either(tmp_path):
    (tmp_path / "lab").mkdir()
    assert list(listing_lines(tmp_path)) == [
        "lab: nothing is kept yet; a run of real devices keeps its good rates"
    ]


def test_a_link_out_of_the_folder_is_left_out_unread(lab, tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(content(9.0)))
    (lab / "0003_run-3.json").symlink_to(secret)
    history = read_history(lab)
    assert len(history.rates) == 2
    assert "a symbolic link leads out of" in history.problems[0]


@pytest.mark.parametrize("damage", [None, b"{", b"x" * 100])
def test_whether_anything_was_left_out_is_reported(lab, tmp_path, damage):
    if damage is not None:
        (lab / "0003_run-3.json").write_bytes(damage)
    assert unreadable(lab.parent, tmp_path / "champions", "lab") == (damage is not None)
    assert not unreadable(lab.parent, tmp_path / "champions", "another")
