from dataclasses import replace

import pytest

from rigproof.profiles.loading.load import over_defaults
from rigproof.records.measurements import Event
from rigproof.records.verdict import Decision
from rigproof.report.content.facts import run_facts
from rigproof.report.content.result import RunResult
from rigproof.report.content.stage_tables import tables_of
from rigproof.report.files.summary_md import summary_text
from rigproof.report.page.page import page_text
from rigproof.simulation.faults.injected import InjectedFault, Span
from rigproof.simulation.stage import CardWork
from rigproof.stages.registry import KINDS
from rigproof.stages.training.criteria import tables
from rigproof.stages.training.simulated import unnoticed
from support.recordings import healthy_recording
from support.rig_profile import loaded_rig


def recorded():
    return healthy_recording(loaded_rig().dump())


def table(recording, title):
    (found,) = [one for one in tables(recording) if one.title == title]
    return found


def test_each_precision_has_its_step_its_rate_and_its_ratio_to_fp32():
    found = table(recorded(), "Precisions")
    assert [row for row in found.rows if row[0] == "pc1/gpu0"] == [
        ("pc1/gpu0", "fp32", "16", "720 ms", "11,378", "44.4 TFLOP/s", "1.00 ×"),
        ("pc1/gpu0", "tf32", "16", "192 ms", "42,667", "167 TFLOP/s", "3.75 ×"),
        ("pc1/gpu0", "fp16", "16", "80 ms", "102,400", "400 TFLOP/s", "9.00 ×"),
    ]
    assert found.note.startswith(
        "pc1/gpu0 trains 640 M parameters (8 blocks of width 2496, 512 tokens per example)"
    )


def test_each_batch_size_has_its_step_its_throughput_and_its_peak():
    rows = table(recorded(), "Batch sizes").rows
    assert rows[0] == ("pc1/gpu0", "fp16", "1", "5.00 ms", "200.0", "102,400", "400 TFLOP/s", "10,500 MiB")
    assert [row[2] for row in rows if row[0] == "pc2/gpu0"] == ["1", "2", "4", "8", "16", "32"]


def test_a_batch_that_was_left_out_is_reported_with_its_predicted_peak():
    recording = recorded()
    data = {"what": "skipped", "batch": 64, "peak_mib": 140_000.0, "precision": "fp16"}
    recording.add(Event(91.0, "batch_search", "pc1/gpu0", "", "training", "pc1/gpu0#0", data))
    rows = [row for row in table(recording, "Batch sizes").rows if row[0] == "pc1/gpu0"]
    assert rows[-1] == ("pc1/gpu0", "fp16", "64", "left out", "", "", "", "(140,000 MiB)")


def test_the_search_reports_what_it_found_and_whether_it_came_to_its_end():
    recording = recorded()
    assert table(recording, "Largest batch").rows[0] == (
        "pc1/gpu0", "fp16", "230", "125,000 MiB", "130,000 MiB", "241",
    )  # fmt: skip
    recording.events = [
        replace(one, data=one.data | {"complete": False}) if one.data.get("what") == "largest" else one
        for one in recording.events
    ]
    assert table(recording, "Largest batch").rows[0][2] == "230 (time was over)"


def test_of_several_laps_the_last_search_is_shown():
    recording = recorded()
    rows = table(recording, "Largest batch").rows
    (first,) = [one for one in recording.events if one.data.get("what") == "largest"][:1]
    recording.events = [*recording.events, replace(first, data=first.data | {"batch": 231})]
    assert [row[2] for row in table(recording, "Largest batch").rows] == [
        "231",
        *(row[2] for row in rows[1:]),
    ]


def test_a_run_without_the_stage_has_no_table():
    recording = recorded()
    recording.rounds = [one for one in recording.rounds if one.stage != "training"]
    recording.events = [one for one in recording.events if one.stage != "training"]
    assert not [one for one in tables_of(recording) if one.section == "Training"]


def test_events_without_their_data_are_left_blank():
    recording = recorded()
    recording.events = [replace(one, data={"what": one.data.get("what")}) for one in recording.events]
    for found in tables(recording):
        assert all(len(row) == len(found.columns) for row in found.rows)


def test_summary_and_page_show_the_tables_under_one_heading():
    recording = recorded()
    result = RunResult(recording, run_facts(recording), (), Decision.ACCEPTED, 61.2)
    text = summary_text(result)
    assert text.count("\n**Training: Batch sizes**\n") == 1
    assert "| pc1/gpu0 | fp16 | 16 | 80 ms | 102,400 | 400 TFLOP/s | 9.00 × |" in text
    assert "|---|---|---:|---:|---:|---:|---:|" in text
    page = page_text(result)
    assert page.count("<h2>Training</h2>") == 1
    assert page.count("<h3>Batch sizes</h3>") == 1
    assert '<td class="figure" data-label="Of fp32">9.00 ×</td>' in page


@pytest.mark.parametrize(
    ("skus", "noticed"),
    [
        (["h200-sxm"], True),  # its file has a training step
        (["rtx-3090", "rtx-3090"], True),
        (["rtx-3090"], False),
        (["unknown"], False),
    ],
)
def test_a_card_that_slows_down_is_noticed_if_there_is_a_step_to_compare_with(skus, noticed):
    node = {"name": "n1", "cpus": 16, "ram_gib": 64, "gpus": [{"sku": sku} for sku in skus]}
    loaded = over_defaults({"name": "lab", "nodes": [node]}, "lab.toml", KINDS)
    work = CardWork(loaded, loaded.devices()[0])
    whole = InjectedFault("throughput-sag", "n1/gpu0", "training", by=0.4)
    assert (unnoticed(whole, work) == "") is noticed
    late = replace(whole, after=Span(0.4, share=True))
    assert unnoticed(late, work) == ""  # it is held against itself
    assert (unnoticed(replace(late, by=0.01), work) == "") is noticed
    small = unnoticed(replace(late, by=0.01), work)
    assert noticed or small.endswith(": write stage=training, after=40% and by=40%, or more")
    assert unnoticed(replace(whole, name="tensor-cores-unused"), work) == ""
