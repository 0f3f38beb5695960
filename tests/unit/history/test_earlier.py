"""Which earlier runs a card is compared with: accepted ones, under the same conditions, each once."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rigproof.history.earlier import earlier_events
from rigproof.history.rounds import conditions
from rigproof.records.earlier import earlier_event, recorded_earlier
from rigproof.records.measurements import FigureRate
from rigproof.records.recording import RecordedPlan
from rigproof.stages.registry import KINDS

GPU, FIGURE = "pc1/gpu0", "gemm_bf16_tflops"


@pytest.fixture
def recording(recording):
    return replace(recording, plan=RecordedPlan({"stages": [{"name": "gemm", "expected_s": 18.0}]}))


@pytest.fixture
def keep(tmp_path: Path, recording):
    """Keep a rate of a run, and its verdict; `changes` of its facts."""

    def kept(number: int, rate: float = 650.0, verdict: str | None = "ACCEPTED", **changes: Any) -> None:
        run = f"202601{number:02d}T000000Z-lab"
        facts = conditions(recording, KINDS.figures[FIGURE], GPU)
        facts |= {"title": "throughput.gemm_bf16", "rate": rate, "run_id": run, "sm_clock_mean_mhz": 1700.0}
        facts |= {"labels": {"precision": ["bf16"], "size": [8192]}, **changes}
        one = {"extra_info": facts, "stats": {"rounds": 4}}
        history = tmp_path / "history" / "lab"
        history.mkdir(parents=True, exist_ok=True)
        content = {"datetime": f"2026-01-{number:02d}T00:01:00", "benchmarks": [one]}
        (history / f"{number:04d}_{run}.json").write_text(json.dumps(content))
        if verdict is not None:
            folder = tmp_path / "runs" / run
            folder.mkdir(parents=True, exist_ok=True)
            head = {"schema_version": 1, "verdict": verdict, "started_at": "2026-01-01T00:00:00Z"}
            head |= {"elapsed_s": 60.0, "rig": {"name": "lab", "nodes": []}, "criteria": []}
            (folder / "verdict.json").write_text(json.dumps(head, indent=1))

    return kept


@pytest.fixture
def found(tmp_path, recording):
    """The values that the card is compared with, and what is said of its other runs."""

    def read():
        events = [*earlier_events(tmp_path / "history" / "lab", tmp_path, recording, 3.0)]
        (own,) = recorded_earlier(events).values()
        return [[one.value for one in each.runs] for each in own.figures], [it.others for it in own.figures]

    return read


def test_without_a_history_there_is_nothing_to_record(tmp_path, recording):
    assert [*earlier_events(tmp_path / "history" / "lab", tmp_path, recording, 3.0)] == []


def test_runs_under_the_same_conditions_count_oldest_first_and_survive_the_recording(
    keep, found, tmp_path, recording
):
    for number in (2, 1, 3):
        keep(number, 650.0 + number)
    assert found() == ([[651.0, 652.0, 653.0]], [""])
    (event,) = earlier_events(tmp_path / "history" / "lab", tmp_path, recording, 3.0)
    assert (event.subject, event.message) == (
        GPU,
        "3 earlier runs of pc1/gpu0 were under the same conditions",
    )
    again = recorded_earlier([replace(event, data=json.loads(json.dumps(event.data)))])
    assert earlier_event(GPU, again[GPU], 3.0) == event
    (figure,) = again[GPU].figures
    assert (figure.figure, figure.unit, figure.runs[0].sm_clock_mhz) == (FIGURE, "TFLOP/s", 1700.0)
    now = FigureRate(FIGURE, 640.0, "TFLOP/s", {"precision": "bf16", "size": 8192}, 1)
    assert figure.same_work(now)
    assert not figure.same_work(now._replace(labels={"precision": "bf16", "size": 4096}))
    assert not figure.same_work(now._replace(unit="GB/s"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"driver": "570.124"}, "driver 570.124"),
        ({"driver": None}, "driver unknown"),
        ({"torch": "2.11.0"}, "torch 2.11.0"),
        ({"cuda": "13.0"}, "CUDA 13.0"),
        ({"power_limit_w": 600.0}, "power limit 600 W"),
        ({"level": "standard"}, "level standard"),
        ({"length_s": 3.0}, "stage length 3 s"),
        ({"length_s": None}, "stage length unknown"),  # of a version that did not keep it
        ({"workers": 2}, "workers 2"),
    ],
)
def test_other_conditions_do_not_count_and_are_said(keep, found, changes, said):
    keep(1)
    keep(2, 900.0, **changes)
    keep(3)
    assert found() == ([[650.0, 650.0]], [f"1 other had {said}"])


def test_a_power_limit_that_is_read_a_little_different_is_the_same(keep, found):
    keep(1, power_limit_w=699.5)
    assert found() == ([[650.0]], [""])


@pytest.mark.parametrize("size", [4096, 8192])
def test_other_work_is_a_figure_of_its_own(keep, found, size):
    keep(1)
    keep(2, 600.0, labels={"precision": ["bf16"], "size": [size]})
    assert found()[0] == ([[650.0, 600.0]] if size == 8192 else [[650.0], [600.0]])


@pytest.mark.parametrize("verdict", ["REJECTED", "INCOMPLETE"])
def test_only_accepted_runs_count_as_far_as_their_verdict_is_there(keep, found, verdict):
    keep(1, verdict=None)  # its folder was removed
    keep(2, verdict=verdict)
    keep(3, 640.0)
    assert found()[0] == [[650.0, 640.0]]


def test_what_was_not_accepted_counts_no_more_once_its_folder_is_gone(keep, found):
    keep(1, verdict=None)
    keep(2, 600.0, verdict=None, accepted=False)
    assert found()[0] == [[650.0]]


def test_a_copy_of_a_run_is_no_other_run(keep, found, tmp_path):
    keep(1)
    history = tmp_path / "history" / "lab"
    (original,) = history.iterdir()
    (history / "0009_copy.json").write_bytes(original.read_bytes())
    assert found()[0] == [[650.0]]


def test_this_run_is_not_compared_with_itself_when_it_is_resumed(keep, found, recording):
    keep(1)
    keep(2, 640.0, run_id=recording.run.run_id)
    assert found()[0] == [[650.0]]


def test_another_card_s_runs_and_unknown_figures_are_not_its_own(keep, tmp_path, recording):
    keep(1, gpu_uuid="GPU-other")
    assert [*earlier_events(tmp_path / "history" / "lab", tmp_path, recording, 3.0)] == []
    keep(2, figure="of_a_later_version")
    keep(3, figure=None)
    (event,) = earlier_events(tmp_path / "history" / "lab", tmp_path, recording, 3.0)
    assert event.data["figures"] == ()


def test_what_cannot_be_read_is_named_in_the_event(keep, tmp_path, recording):
    keep(1)
    broken = tmp_path / "history" / "lab" / "0002_x.json"
    broken.write_text("{")
    (event,) = earlier_events(tmp_path / "history" / "lab", tmp_path, recording, 3.0)
    (problem,) = event.data["problems"]
    assert str(broken) in problem
    assert len(event.data["figures"]) == 1


def test_no_more_than_the_last_sixty_runs_are_recorded(keep, found, tmp_path, recording):
    for number in range(1, 29):
        keep(number, 600.0 + number)
    history = tmp_path / "history" / "lab"
    for copy in range(2):
        for path in sorted(history.glob("00*.json"))[:28]:
            content = json.loads(path.read_text())
            content["datetime"] = content["datetime"].replace("2026", f"202{copy + 7}")
            content["benchmarks"][0]["extra_info"]["run_id"] += str(copy)
            (history / f"1{copy}{path.name[2:]}").write_text(json.dumps(content))
    ((values,), _) = found()
    assert len(values) == 60
    assert values[-1] == 628.0
