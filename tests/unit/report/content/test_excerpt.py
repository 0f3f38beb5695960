"""A rig that is too large to be shown whole: what failed, some others, and the range of all."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from rigproof.records.rows import Rows
from rigproof.records.samples import GpuSample
from rigproof.records.verdict import Decision, Outcome
from rigproof.report.content.excerpt import Ranges, excerpt_of
from rigproof.report.content.facts import run_facts
from rigproof.report.content.result import RunResult
from rigproof.report.files.summary_md import summary_text
from rigproof.report.page import page
from rigproof.report.page.charts import charts_of
from support.plots import bokeh_plots


@pytest.fixture
def result(recording, verdicts):
    return RunResult(recording, run_facts(recording), verdicts, Decision.REJECTED, 61.2)


def test_a_small_rig_is_shown_whole(result):
    excerpt = excerpt_of(result)
    assert excerpt.result is result
    assert excerpt.note == ""


def test_what_failed_comes_first_and_the_rest_is_counted(result):
    excerpt = excerpt_of(result, most=1)
    assert excerpt.devices == ("pc1/gpu1",)
    assert excerpt.note == (
        "1 of 2 devices, failed ones first. The other 1 are in verdict.json and in the recording."
    )
    recording = excerpt.result.recording
    assert {one.subject for one in recording.gpu_samples} == {one.subject for one in recording.rounds}
    assert {one.subject for one in recording.rounds} == {"pc1/gpu1"}
    assert {one.subject for one in recording.host_samples} == {"pc1"}
    assert [one.subject for one in excerpt.result.facts.devices] == ["pc1/gpu1"]


def test_places_that_are_left_go_to_the_first_devices(result):
    fine = [replace(one, outcome=Outcome.PASS) for one in result.verdicts]
    assert excerpt_of(replace(result, verdicts=fine), most=1).devices == ("pc1/gpu0",)


def test_charts_show_the_range_of_all_devices(result):
    charts = charts_of(result, excerpt_of(result, most=1))
    names = {chart.title: [key.label for key in chart.keys] for chart in charts}
    all_of_them = ["lowest of all", "mean of all", "highest of all"]
    assert names["Core temperature, °C"] == ["pc1/gpu1", *all_of_them]
    assert names["Rate of each round, TFLOP/s"] == ["pc1/gpu1", *all_of_them]


def test_the_range_of_rates_is_that_of_work_in_the_same_unit(result):
    copies = [replace(one, seconds=1.0, work=9000.0, unit="GB") for one in result.recording.rounds]
    result.recording.rounds = [*result.recording.rounds, *copies]
    plots = bokeh_plots(charts_of(result, excerpt_of(result, most=1)))
    for title, highest in (("TFLOP/s", 100), ("GB/s", 9000)):
        sources = [line.data_source.data for line in plots[f"Rate of each round, {title}"].renderers]
        rates = np.concatenate([np.asarray(one["value"], float) for one in sources if "value" in one])
        assert np.nanmax(rates) <= highest, title


def test_ranges_of_columns_are_those_of_objects():
    samples = [
        GpuSample(t_s, subject, power_w=None if t_s == 3 else 100 * t_s + place)
        for t_s in (1.0, 2.0, 3.0, 4.0)
        for place, subject in enumerate(("a/gpu0", "a/gpu1"))
    ]
    rows = Rows.of_records(GpuSample, samples)
    found = Ranges(rows).of_field("power_w")
    assert found["lowest"].tolist()[:2] == [100, 200]
    assert found["mean"].tolist()[:2] == [100.5, 200.5]
    assert found["highest"].tolist()[-1] == 401
    assert np.isnan(found["mean"][2])
    assert Ranges(rows).of_field("energy_j") == {}


def test_the_page_and_the_summary_say_what_they_leave_out(result, monkeypatch):
    monkeypatch.setattr(page, "excerpt_of", partial(excerpt_of, most=1))
    monkeypatch.setattr(page, "ROWS_MAX", 2)
    monkeypatch.setattr(page, "FINDINGS_MAX", 1)
    text = page.page_text(result)
    assert "1 of 2 devices, failed ones first." in text
    assert f"{len(result.verdicts) - 2} more rows are in verdict.json." in text
    assert "more are in verdict.json</li>" in text
    monkeypatch.setattr("rigproof.report.files.summary_md.excerpt_of", partial(excerpt_of, most=1))
    summary = summary_text(result)
    assert "1 of 2 devices, failed ones first." in summary
    assert "pc1/gpu0 NVIDIA" not in summary
