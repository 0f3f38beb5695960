import re
from dataclasses import replace

import pytest
from bokeh.models import BoxAnnotation, Span, VStrip

from rigproof.records.measurements import Event
from rigproof.records.recording import Recording
from rigproof.records.samples import GpuSample, HostSample
from rigproof.records.verdict import SEVERITIES, Decision, Outcome, Verdict
from rigproof.report.content.clock_times import lasted
from rigproof.report.content.facts import run_facts
from rigproof.report.content.result import RunResult
from rigproof.report.page.charts import charts_of
from rigproof.report.page.page import page_text
from rigproof.report.page.plots import Chart, Model
from support.plots import bokeh_plots


@pytest.fixture
def result(recording, verdicts):
    return RunResult(recording, run_facts(recording), verdicts, Decision.REJECTED, 61.2)


def without_scripts(page):
    return re.sub(r"<script\b.*?</script>", "", page, flags=re.DOTALL)


def titles(result):
    return [chart.title for chart in charts_of(result)]


def test_the_page_says_the_verdict_the_rig_and_the_failures(result):
    page = without_scripts(page_text(result))
    assert "<h1><b>REJECTED</b> lab</h1>" in page
    assert "pc1/gpu1 thermal.core_temperature: 84 °C, limit ≤ 80 °C (from t=41 s, 15 s long)" in page
    assert "GPU-01111111-2222-3333-4444-555555555555" in page
    assert "NVIDIA GeForce RTX 3090" in page
    assert "580.65.06" in page
    assert "gemm 21 s with 2 workers" in page
    assert "SIMULATED" not in page


def test_a_failure_of_a_node_or_of_the_rig_is_red_too_and_the_length_is_that_of_all_reports(result):
    lost = [
        Verdict("cluster.nodes_present", "pc2", Outcome.FAIL, detail="gone"),
        Verdict("cluster.no_timeouts", "rig", Outcome.FAIL, "faults", 1, 0, direction="at_most"),
    ]
    page = without_scripts(page_text(replace(result, verdicts=[*result.verdicts, *lost], elapsed_s=1.0)))
    for figure in ("[no] on pc2", "[1] on the rig"):
        assert re.search(rf'<td class="spread fail"[^>]*><a href="#\w+">{re.escape(figure)}</a></td>', page)
    assert f" · {lasted(result.recording, 1.0)} ·" in page
    assert " · 1 s ·" not in page


def test_what_one_click_leads_to_is_there(result):
    """Each link's target, each label's owner, and no id twice."""
    page = without_scripts(page_text(result))
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(set(ids)) == len(ids)
    targets = re.findall(r'href="#([^"]+)"', page)
    assert {"verdicts", "findings", "criteria", "rig", "chart-core-temperature-c", "chart-tflop-s"} <= set(
        targets
    )
    assert set(targets) <= set(ids)
    (failed,) = re.findall(
        r'<td class="figure fail" data-label="pc1/gpu1"><a href="#(\w+)">\[84\]</a></td>', page
    )
    row = page[page.index(f'id="{failed}"') :]
    assert row.index("thermal.core_temperature") < row.index("chart-core-temperature-c") < row.index("84 °C")


def test_only_trouble_is_red(result):
    """What every good run records is not marked at all, and what only explains a run has another colour."""
    for kind in ("generation", "measured_again", "size_left_out", "xid"):
        result.recording.add(Event(30.0, kind, "pc1/gpu0", "a message"))
    charts = charts_of(result)
    timeline = charts[0]
    marks = {one.name: one for one in bokeh_plots(charts)[timeline.title].renderers if one.name}
    kinds = {name: list(one.data_source.data["kind"]) for name, one in marks.items()}
    assert kinds == {
        "chart-events:trouble": ["xid", "nvml_error"],
        "chart-events:notice": ["measured_again", "size_left_out"],
    }
    assert [(key.label, key.glyph) for key in timeline.keys] == [
        ("trouble", "chart-events:trouble"),
        ("for information", "chart-events:notice"),
    ]
    assert timeline.keys[0].color != timeline.keys[1].color
    events = page_text(result).partition('<details id="events">')[2].partition("</details>")[0]
    assert re.findall(r"<td>(\w+)</td><td>", events) == [
        "measured_again",
        "size_left_out",
        "xid",
        "nvml_error",
    ]


def test_the_tag_of_a_failure_is_explained_where_it_stands_and_below(result):
    tagged = [
        replace(one, severity="config") if one.outcome is Outcome.FAIL else one for one in result.verdicts
    ]
    page = without_scripts(page_text(replace(result, verdicts=tagged)))
    meaning = SEVERITIES["config"]
    assert f'<abbr title="{meaning}">[config]</abbr>' in page
    assert f"What kind of action each asks for: [config] {meaning}.</p>" in page
    assert "<abbr" not in without_scripts(page_text(result))


def test_each_row_has_its_criterions_name_and_each_criterion_its_title(result):
    page = without_scripts(page_text(result))
    assert '<code class="id">thermal.core_temperature</code></th>' in page
    assert '<span class="id">core temperature</span></td>' in page


def test_each_finding_leads_to_what_its_criterion_measures_on_the_page_itself(result):
    page = without_scripts(page_text(result))
    targets = re.findall(r'<a href="#([^"]+)"', page)
    assert {f"about-{name}" for name in ("thermal.core_temperature", "host.cpu_band", "power.draw")} <= set(
        targets
    )
    assert all(page.count(f'id="{target}"') == 1 for target in targets)
    assert "<code>limits.core_temperature_c</code>, if the rig states it" in page
    assert "docs/criteria.md" not in page


def test_failures_are_the_first_rows_and_every_verdict_has_one(result, verdicts):
    page = page_text(result)
    rows = re.findall(r'<tr class="[^"]*" data-outcome="(\w+)" id="v\d+">', page)
    assert rows == ["fail", "warn", "not_measured", "no_limit", "pass", "pass", "pass", "not_applicable"]
    assert re.findall(r'<button type="button" data-outcome="(\w*)"', page) == [
        "", "pass", "warn", "fail", "not_measured", "not_applicable", "no_limit",
    ]  # fmt: skip


def test_every_chart_that_has_something_to_show_is_there(result):
    assert sorted(titles(result)) == [
        "Core temperature, °C",
        "GPU memory in use, GiB",
        "GPU utilization, %",
        "Host CPU (green: the promised band), %",
        "Power (dashed: the enforced limit), W",
        "Rate of each round, TFLOP/s",
        "SM clock, MHz",
        "Stages and events",
    ]


def test_what_a_hypervisor_took_has_a_line_where_it_took_any(result):
    def keys():
        (chart,) = (one for one in charts_of(result) if one.title.startswith("Host CPU"))
        return [key.label for key in chart.keys]

    assert keys() == ["pc1"]
    samples = list(result.recording.host_samples)
    result.recording.host_samples = [replace(one, stolen_percent=7.0) for one in samples]
    assert keys() == ["pc1", "pc1 stolen"]


def test_work_of_each_unit_has_a_chart_of_its_own(result):
    copies = [replace(one, work=400.0, unit="GB", t_s=one.t_s + 60) for one in result.recording.rounds]
    result.recording.rounds = [*result.recording.rounds, *copies]
    assert {title for title in titles(result) if title.startswith("Rate")} == {
        "Rate of each round, TFLOP/s",
        "Rate of each round, GB/s",
    }


def test_charts_share_their_time_axis_and_show_limits_and_band(result):
    plots = bokeh_plots(charts_of(result))
    assert len({id(plot.x_range) for plot in plots.values()}) == 1
    assert [span.location for span in plots["Core temperature, °C"].select({"type": Span})] == [80, 80]
    power = plots["Power (dashed: the enforced limit), W"]
    assert sorted(span.location for span in power.select({"type": Span})) == [220, 350]
    boxes = plots["Host CPU (green: the promised band), %"].select({"type": BoxAnnotation})
    assert (70, 85) in {(box.bottom, box.top) for box in boxes}
    [shades] = [one for one in plots["SM clock, MHz"].renderers if isinstance(one.glyph, VStrip)]
    stages = zip(shades.data_source.data["from_s"], shades.data_source.data["to_s"], strict=True)
    assert {(3.0, 24.0), (24.5, 56.0)} <= set(stages)


def test_a_property_that_bokeh_does_not_know_is_noticed_here():
    """The page's own models check nothing: the tests above read them as Bokeh does."""
    for property_, value in (("heigth", 1), ("height", "high")):
        with pytest.raises((AttributeError, ValueError), match=property_):
            bokeh_plots([Chart("chart-x", "x", Model("Plot", **{property_: value}))])


def test_a_simulated_run_says_so_at_the_top(result):
    result.recording.run = replace(result.recording.run, simulated=True)
    page = page_text(result)
    assert "<title>rigproof: SIMULATED REJECTED lab</title>" in page
    assert "SIMULATED: no real device was measured" in without_scripts(page)


def test_an_empty_run_is_a_page_without_charts(recording):
    empty = Recording(recording.run)
    page = page_text(RunResult(empty, run_facts(empty), [], Decision.INCOMPLETE, 1.0))
    assert "Nothing was recorded" in page
    assert "<b>not found</b>" in page
    assert len(page) < 20_000


def test_nothing_of_a_run_is_markup(result):
    attack = "</script><img src=x onerror=alert(1)>"
    result.recording.add(Event(5.0, "worker_failed", attack, attack))
    result.recording.add(GpuSample(5.0, attack, core_temperature_c=50))
    bad = Verdict(attack, attack, Outcome.FAIL, attack, 1.0, 2.0, attack, attack, attack)
    page = page_text(replace(result, verdicts=[bad], problems=(attack,)))
    assert "<img src=x" not in page


def test_the_page_asks_for_nothing_outside_itself(result):
    page = page_text(result)
    assert "default-src 'none'" in page
    assert not re.findall(r'<(?:script|img|iframe|link)[^>]*(?:src|href)="(?!data:)', without_scripts(page))
    assert "<script src" not in page


def test_an_hour_of_eight_gpus_stays_small(result):
    recording = Recording(result.recording.run)
    recording.stages.update(result.recording.stages)
    for step in range(3600):  # a reading a second is as large as ten, once it is thinned out
        for gpu in range(8):
            recording.add(
                GpuSample(
                    step, f"pc1/gpu{gpu}", 99.0, 1000.0 + step, 60 + step % 7, 70.0, 300.0, None, None, 1700.0
                )
            )
        recording.add(HostSample(step, "pc1", 75.0 + step % 3))
    page = page_text(RunResult(recording, run_facts(recording), [], Decision.INCOMPLETE, 3600.0))
    assert len(page.encode()) < 6_000_000
