"""The page of a history says what the list says, and draws each step where it began."""

import json
import re
from dataclasses import replace

import pytest

from rigproof.history.listing import history_content, trend_lines
from rigproof.report.page.history_page import write_history_page
from support.histories import lab
from support.plots import read_plots


@pytest.fixture
def written(tmp_path):
    """The page of these rates: its text without scripts, and its plots as Bokeh's Python reads them."""

    def write(rates, notes=()):
        path = tmp_path / "history.html"
        write_history_page(path, history_content(rates), notes)
        text = path.read_text()
        (plots,) = re.findall(r'<script type="application/json" id="plots">(.*?)</script>', text, re.DOTALL)
        return re.sub(r"<script\b.*?</script>", "", text, flags=re.DOTALL), read_plots(json.loads(plots))

    return write


def table(text):
    rows = re.findall(r"<tr><th scope=\"row\">.*?</tr>", text, re.DOTALL)
    return [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", row)).strip() for row in rows]


def test_it_says_what_the_list_says(written):
    rates = lab()
    text, _ = written(rates, ["rejected cards: pc2/gpu0"])
    listed = [line for line in trend_lines(rates) if "TFLOP/s" in line or "GB/s" in line]
    for row, line in zip(table(text), listed, strict=True):
        for part in re.findall(r"[-+][\d.]+ % since \d+|±[\d.]+ %|[\d.]+ (?:TFLOP|GB)/s", line):
            assert part in row
    assert "-4 % since 0007" in table(text)[0]
    assert "from 0007 of 2026-01-08 on: driver 570.86.10 → 580.159.04" in text
    assert "11 runs, 2026-01-02 to 2026-01-12. All runs: torch 2.13.0, power limit 350 W" in text
    assert "rejected cards: pc2/gpu0" in text
    assert "SIMULATED" not in text


def test_a_step_is_drawn_where_it_began_with_its_percentage_and_run(written):
    _, (changes, gemm, copy, *others) = written(lab())
    (levels,) = [one.data_source.data for one in gemm.renderers if one.glyph.__class__.__name__ == "Segment"]
    assert levels["from"] == [0.6, 6.6]
    assert levels["to"] == [6.4, 11.4]
    assert levels["level"] == pytest.approx([70.0, 67.2], rel=0.002)
    assert levels["text"] == ["", "-4 % since 0007"]
    assert levels["color"] == ["#888888", "#d32f2f"]
    (steady,) = [one.data_source.data for one in copy.renderers if one.glyph.__class__.__name__ == "Segment"]
    assert steady["text"] == [""]
    (shades,) = {one.renderers[0].data_source for one in (changes, gemm, copy, *others)}
    assert shades.data["from_s"] == [0.0, 6.5]


def test_charts_share_their_runs_the_mark_over_them_and_a_cards_selection(written):
    _, (*plots,) = written(lab())
    assert len({one.x_range for one in plots}) == 1
    crosses = {
        tool for one in plots for tool in one.toolbar.tools if tool.__class__.__name__ == "CrosshairTool"
    }
    assert len(crosses) == 1
    assert crosses.pop().overlay.dimension == "height"
    dots = [one.renderers[1].data_source for one in plots[1:]]
    assert len({*dots[:2]}) == len({*dots[2:]}) == 1
    assert dots[0] is not dots[2]


def test_a_figure_that_a_run_did_not_measure_is_no_dot(written):
    rates = [one for one in lab() if one.number != "0003" or one.kept.unit != "GB/s"]
    _, (_, gemm, copy, *_) = written(rates)
    missing = [[value != value for value in plot.renderers[1].data_source.data[plot.renderers[1].name]]
               for plot in (gemm, copy)]  # fmt: skip
    assert missing == [[False] * 11, [number == 3 for number in range(1, 12)]]


def test_a_tip_says_how_fast_and_warm_the_card_was_as_far_as_it_was_read(written):
    hot = {"sm_clock_mean_mhz": 1605.4, "core_temperature_mean_c": 70.6}
    for changes, said in ((hot, "1605 MHz, 71 °C"), ({"core_temperature_mean_c": 70.6}, "71 °C"), ({}, "")):
        _, (_, gemm, *_) = written(lab(**changes))
        (tips,) = (tool for tool in gemm.toolbar.tools if tool.__class__.__name__ == "HoverTool")
        field = f"{gemm.renderers[1].name}-at"
        assert ("at", f"@{{{field}}}") in [tuple(one) for one in tips.tooltips]
        assert set(gemm.renderers[1].data_source.data[field]) == {said}


def test_two_runs_of_one_number_are_two_dots(written):
    """As where two jobs of CI began with the same history."""
    rates = [replace(one, file=one.file.replace("0011_", "0010_")) for one in lab()]
    text, (_, gemm, *_) = written(rates)
    assert list(gemm.renderers[1].data_source.data["place"]) == [*range(1, 12)]
    assert "11 runs" in text
    assert "-4 % since 0007" in table(text)[0]


def test_simulated_runs_say_so_first(written):
    text, _ = written(lab(simulated=True))
    assert "<title>rigproof: SIMULATED history of lab</title>" in text
    assert "SIMULATED: no real device was measured" in text
    assert text.count("SIMULATED pc") == 2


def test_what_a_file_says_is_no_markup(written):
    text, _ = written(lab(gpu_name="<img src=x onerror=alert(1)>", driver="</script><script>alert(2)"))
    assert "<img" not in text
    assert "alert(2)" not in re.sub(r"&lt;/script&gt;&lt;script&gt;alert\(2\)", "", text)


def test_links_lead_somewhere_and_nothing_is_asked_of_a_network(written):
    text, _ = written(lab())
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(set(ids)) == len(ids)
    assert {*re.findall(r'href="#([^"]+)"', text), *re.findall(r'aria-labelledby="([^"]+)"', text)} <= {*ids}
    assert re.findall(r'(?:src|href)="(?!#|data:)', text) == []
