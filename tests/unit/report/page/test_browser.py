"""The page in a real Chromium: values are read off it, not out of its source."""

import io
import shutil
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import cache

import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image, ImageStat
from playwright import sync_api

from rigproof.history.listing import history_content
from rigproof.judging.catalogue import CATALOGUE
from rigproof.records.measurements import Stage
from rigproof.records.verdict import Decision, Outcome, Verdict
from rigproof.report.content.facts import run_facts
from rigproof.report.content.result import RunResult
from rigproof.report.page.history_page import write_history_page
from rigproof.report.page.page import write_page
from support.histories import lab

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here to open the page with")

GPUS = 8
DESKTOP, PHONE, PAPER = (
    {"width": 1280, "height": 900},
    {"width": 390, "height": 844},
    {"width": 794, "height": 1123},
)
MOST_MS = 240_000  # for a host that is busy with other tests
HOTTEST = "pc1/gpu5"
AXIS = (
    "(() => { const axis = Bokeh.documents[0].get_model_by_name('time'); return [axis.start, axis.end]; })()"
)
# Elements that Tab reaches: neither hidden nor in folded content.
FOCUSABLE = (
    "[...document.querySelectorAll('a[href], button, summary')].filter(one => one.checkVisibility()).length"
)
# Of the elements that are drawn. Asked for all at once: the browser answers as fast for a hundred as for one.
RIGHT_EDGES = """elements => elements.filter(one => one.checkVisibility())
    .map(one => one.getBoundingClientRect().right)"""
# The rule is off in the version that is pinned, and on in newer ones. What is in order is listed by rule:
# with its elements it would be two megabytes.
AXE = {"rules": {"label-content-name-mismatch": {"enabled": True}}, "resultTypes": ["violations"]}
# A checker looks at each cell for itself: of a criterion's rows the first one of each outcome is enough.
UNFOLDED_WITHOUT_EQUAL_ROWS = """() => {
    document.querySelectorAll('details').forEach(one => { one.open = true; });
    const seen = new Map();
    document.querySelectorAll('#criteria tbody tr').forEach(row => {
        const kind = row.innerText.split(/\\s+/).slice(0, 2).join(' ');
        seen.set(kind, [...(seen.get(kind) ?? []), row]);
    });
    // All of them after all texts: to read one after a change lays the page out anew.
    seen.forEach(([first, ...equal]) => equal.forEach(row => row.remove()));
    return seen.size;
}"""


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(recorded, tmp_path_factory):
    """The page of a simulated node with eight GPUs, of which one is too hot."""
    recording = copy(recorded)
    recording.run = replace(recorded.run, simulated=True)
    recording.gpus = dict(recording.gpus)
    subjects = [f"pc1/gpu{number}" for number in range(GPUS)]
    for subject in subjects[2:]:
        recording.gpus[subject] = replace(recording.gpus["pc1/gpu0"], subject=subject)
        for sample in recorded.gpu_samples.of("pc1/gpu0"):
            recording.add(replace(sample, subject=subject))
    verdicts = [
        Verdict(name, subject, Outcome.PASS, one.unit, 70.0, 80.0, "x.toml", direction=one.direction)
        for name, one in CATALOGUE.items()
        for subject in {"device": subjects, "node": ["pc1"]}.get(one.scope, ["rig"])
    ]
    for place, verdict in enumerate(verdicts):
        if (verdict.criterion, verdict.subject) == ("thermal.core_temperature", HOTTEST):
            verdicts[place] = replace(verdict, outcome=Outcome.FAIL, measured=91.0, remedy="clean it")
        if verdict.criterion == "memory.ecc":
            verdicts[place] = replace(verdict, outcome=Outcome.NOT_APPLICABLE, measured=None, limit=None)
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(path, RunResult(recording, run_facts(recording), verdicts, Decision.REJECTED, 61.2))
    return path.as_uri()


@pytest.fixture(scope="module")
def tab(browser):
    """A tab for each kind of window. The page costs half as much where it has been loaded before."""

    @cache
    def of_kind(width, height, options):
        page = browser.new_page(viewport={"width": width, "height": height}, **dict(options))
        page.set_default_timeout(MOST_MS)
        said = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.extend(asked_of_others(request.url)))
        return page, said

    return of_kind


def asked_of_others(url):
    return [] if url.partition(":")[0] in ("file", "data", "blob", "about") else [url]


@pytest.fixture
def opened(tab, address):
    """Opens the page, waits until its charts are drawn, and finds nothing on the console but greetings.

    It asks nobody for anything: it works offline.
    """

    @contextmanager
    def open_page(viewport=DESKTOP, color_scheme="light", address=address, **options):
        page, said = tab(*viewport.values(), tuple(options.items()))
        page.set_viewport_size(viewport)
        page.emulate_media(media="null", color_scheme=color_scheme)
        page.goto("about:blank")
        said.clear()
        page.goto(address)
        until(page, "document.documentElement.dataset.painted === 'yes'")
        yield page
        assert [line for line in said if not line.startswith("[bokeh ")] == []

    return open_page


def until(page, condition):
    """Waits for it. Not by wait_for_function, whose eval the page's own policy forbids."""
    for _ in range(MOST_MS // 50):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(condition)


def box(page, selector):
    found = page.locator(selector).first.bounding_box()
    assert found is not None, selector
    return found


def test_the_charts_begin_where_a_reader_looks_and_the_table_has_every_gpu(opened):
    with opened() as page:
        assert box(page, ".chart")["y"] < 1500
        first = page.locator(".matrix tbody tr").first
        assert first.inner_text().split() == [
            "FAIL", "core", "temperature", "chart", "thermal.core_temperature",
            "≤", "80", "°C", *["70"] * 5, "[91]", "70", "70",
        ]  # fmt: skip
        titles = page.locator("#verdicts .matrix").first.locator("tbody th").all_inner_texts()
        assert [title.split("\n")[0].removesuffix(" chart") for title in titles] == [
            "FAIL core temperature", "sustained rate", "trained together", "memory headroom", "power",
        "wake-up delay",
        ]  # fmt: skip


def test_each_chart_has_its_title_and_its_legend_above_it(opened):
    with opened() as page:
        charts = page.locator(".chart")
        assert charts.count() == 8
        for place in range(charts.count()):
            title, plot = (charts.nth(place).locator(one).bounding_box() for one in ("h3", ".plot"))
            legend = charts.nth(place).locator(".legend").bounding_box()
            assert title["y"] + title["height"] <= legend["y"]
            assert legend["y"] + legend["height"] <= plot["y"]
            assert plot["height"] > 100
            canvas = charts.nth(place).locator("canvas").first.bounding_box()
            assert plot["y"] <= canvas["y"] <= plot["y"] + plot["height"]


def test_a_figure_leads_to_its_verdict_and_that_to_its_chart(opened):
    with opened() as page:
        assert not page.locator("#criteria table").is_visible()
        page.locator(".matrix td.fail a").click()
        row = page.locator("#criteria tr:target")
        row.wait_for(state="visible")
        assert row.inner_text().split()[:3] == ["FAIL", "thermal.core_temperature", "chart"]
        assert HOTTEST in row.inner_text()
        assert 0 <= row.bounding_box()["y"] <= 900
        row.locator("a.to-chart").click()
        assert page.locator(".chart:target h3").inner_text() == "Core temperature, °C"
        until(page, "Math.abs(document.querySelector(':target').getBoundingClientRect().top) < 100")


def test_a_link_unfolds_what_it_leads_to_even_if_it_is_filtered_out(opened):
    with opened() as page:
        page.locator("nav a", has_text="All criteria").click()
        page.locator(".filter button", has_text="not applicable").click()
        assert page.locator("#criteria tbody tr:visible").count() == GPUS
        page.locator(".matrix td.fail a").click()
        page.locator("#criteria tr:target").wait_for(state="visible")


def test_the_wheel_scrolls_and_zooms_with_ctrl(opened):
    with opened() as page:
        whole = page.evaluate(AXIS)
        page.locator("#chart-core-temperature-c").scroll_into_view_if_needed()
        plot = box(page, "#chart-core-temperature-c .plot")
        page.mouse.move(plot["x"] + plot["width"] / 2, plot["y"] + plot["height"] / 2)
        before = page.evaluate("scrollY")
        page.mouse.wheel(0, -200)
        until(page, f"scrollY < {before}")
        assert page.evaluate(AXIS) == whole
        plot = box(page, "#chart-core-temperature-c .plot")
        page.mouse.move(plot["x"] + plot["width"] / 2, plot["y"] + plot["height"] / 2)
        at = page.evaluate("scrollY")
        page.keyboard.down("Control")
        page.mouse.wheel(0, -200)
        page.keyboard.up("Control")
        until(page, f"{AXIS}[1] - {AXIS}[0] < {whole[1] - whole[0]}")
        assert page.evaluate("scrollY") == at


def test_a_drag_zooms_all_charts_and_a_button_shows_the_whole_run_again(opened):
    with opened() as page:
        whole = page.evaluate(AXIS)
        page.locator("#chart-power-w").scroll_into_view_if_needed()
        plot = box(page, "#chart-power-w .plot")
        middle = plot["y"] + plot["height"] / 2
        page.mouse.move(plot["x"] + plot["width"] * 0.4, middle)
        page.mouse.down()
        page.mouse.move(plot["x"] + plot["width"] * 0.6, middle, steps=5)
        page.mouse.up()
        until(page, f"{AXIS}[1] - {AXIS}[0] < {(whole[1] - whole[0]) / 2}")
        assert page.evaluate("new Set(Bokeh.documents[0].roots().map(one => one.x_range)).size") == 1
        page.locator("[data-zoom=all]").click()
        assert page.evaluate(AXIS) == whole


def test_everything_is_reached_and_used_by_keyboard(opened):
    with opened() as page:
        reached = set()
        plots = page.locator(".plot").count()  # Bokeh's own, which Tab reaches too
        for _ in range(page.evaluate(FOCUSABLE) + plots):
            page.keyboard.press("Tab")
            here = "(document.activeElement.closest('.plot') ?? document.activeElement)"
            outline, place = page.evaluate(
                f"[getComputedStyle({here}).outlineStyle,"
                f" [...document.querySelectorAll('a, button, summary')].indexOf({here})]"
            )
            assert outline == "solid"
            reached.add(place)
        assert len(reached - {-1}) == page.evaluate(FOCUSABLE)
        whole = page.evaluate(AXIS)
        page.locator("[data-zoom=in]").focus()
        page.keyboard.press("Enter")
        start, end = page.evaluate(AXIS)
        assert whole[0] < start < end < whole[1]
        page.locator("[data-zoom=later]").focus()
        page.keyboard.press("Enter")
        assert page.evaluate(AXIS)[0] > start
        line = page.locator("#chart-power-w .legend button").first
        line.focus()
        page.keyboard.press("Space")
        assert line.get_attribute("aria-pressed") == "false"
        assert page.evaluate("Bokeh.documents[0].get_model_by_name('chart-power-w:0').visible") is False
        page.locator("#rig summary").focus()
        page.keyboard.press("Enter")
        assert page.locator("#rig table").is_visible()


def test_on_a_telephone_every_figure_is_visible(opened):
    with opened(PHONE) as page:
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        outside = page.evaluate(
            """[...document.querySelectorAll('td, .legend button, h2, h3, .zoom button')].filter(one => {
                if (!one.textContent.trim()) { return false; }
                const range = document.createRange();
                range.selectNodeContents(one);
                const box = range.getBoundingClientRect();
                return box.width === 0 || box.left < 0 || box.right > innerWidth;
            }).map(one => one.textContent)"""
        )
        assert outside == []
        cell = page.locator(".matrix td.fail")
        assert page.evaluate("one => getComputedStyle(one, '::before').content", cell.element_handle()) == (
            f'"{HOTTEST} "'
        )


def test_a_finger_scrolls_the_page_over_a_chart(opened):
    with opened(PHONE, has_touch=True, is_mobile=True) as page:
        whole = page.evaluate(AXIS)
        page.evaluate("document.querySelector('#chart-power-w').scrollIntoView()")
        until(page, "scrollY > 1000")
        before = page.evaluate("scrollY")
        plot = box(page, "#chart-power-w .plot")
        x, y = plot["x"] + plot["width"] / 2, plot["y"] + plot["height"] / 2
        finger = page.context.new_cdp_session(page)
        finger.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
        for moved in range(15, 151, 15):
            point = {"x": x, "y": y - moved}
            finger.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
        finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        until(page, f"scrollY > {before} + 100")
        assert page.evaluate(AXIS) == whole


def brightness(picture):
    return ImageStat.Stat(Image.open(io.BytesIO(picture)).convert("L")).mean[0]


def test_in_the_dark_it_is_dark_charts_included(opened):
    with opened(color_scheme="dark") as page:
        assert brightness(page.screenshot()) < 60
        chart = page.locator("#chart-sm-clock-mhz .plot")
        assert brightness(chart.screenshot()) < 60
        ink = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()")
        axes = "[...Bokeh.documents[0].all_models].filter(one => one.type === 'LinearAxis')"
        assert page.evaluate(f"[...new Set({axes}.map(one => one.major_label_text_color))]") == [ink]
        page.emulate_media(color_scheme="light")
        until(page, f"{axes}.every(one => one.major_label_text_color !== '{ink}')")
        assert brightness(chart.screenshot()) > 200


def test_on_paper_the_dark_page_is_light_and_its_charts_can_be_read(opened):
    with opened(color_scheme="dark") as page:
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert brightness(page.locator("#verdicts").screenshot()) > 180
        assert brightness(page.locator("#chart-sm-clock-mhz .plot").screenshot()) < 60


def test_on_paper_no_chart_is_cut(opened):
    with opened() as page:
        drawn = box(page, "#chart-power-w .plot")["width"]
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        page.set_viewport_size(PAPER)
        assert page.evaluate("document.documentElement.scrollWidth") <= PAPER["width"]
        for selector in (".plot", ".plot canvas", ".matrix td"):
            rights = page.locator(selector).evaluate_all(RIGHT_EDGES)
            assert rights, selector
            assert max(rights) <= PAPER["width"], selector
        assert page.evaluate("getComputedStyle(document.querySelector('.chart')).breakInside") == "avoid"
        assert drawn > PAPER["width"]
        page.emulate_media(media="screen")
        page.set_viewport_size(DESKTOP)
        assert box(page, "#chart-power-w .plot")["width"] == drawn


@pytest.mark.parametrize(("viewport", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_an_accessibility_checker_finds_nothing(opened, viewport, scheme):
    """Contrast of at least 4.5 is one of its rules."""
    with opened(viewport, color_scheme=scheme) as page:
        assert page.evaluate(UNFOLDED_WITHOUT_EQUAL_ROWS) >= len(CATALOGUE)
        found = Axe().run(page, options=AXE).response
    assert "color-contrast" in {rule["id"] for rule in found["passes"]}
    assert [(rule["id"], [node["html"] for node in rule["nodes"]][:3]) for rule in found["violations"]] == []


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """The page of a rig's history, in which a card was slower from a new driver on."""
    path = tmp_path_factory.mktemp("history") / "history.html"
    write_history_page(path, history_content(lab()), ["rejected cards", "pc2/gpu0: compute.exact"])
    return path.as_uri()


@pytest.mark.parametrize(("viewport", "scheme"), [(PHONE, "light"), (DESKTOP, "dark")])
def test_a_history_is_read_by_everybody_on_any_screen(opened, history, viewport, scheme):
    with opened(viewport, color_scheme=scheme, address=history) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
        assert max(page.locator("td, h2, h3, button, li").evaluate_all(RIGHT_EDGES)) <= viewport["width"]
        assert page.locator(".plot").count() == 5
        found = Axe().run(page, options=AXE).response
        dark = brightness(page.locator(".plot").nth(1).screenshot()) < 60
    assert "color-contrast" in {rule["id"] for rule in found["passes"]}
    assert [(rule["id"], [node["html"] for node in rule["nodes"]][:3]) for rule in found["violations"]] == []
    assert dark is (scheme == "dark")


# Where the third run's dot is in the window.
DOT = """() => {
    const plot = Bokeh.documents[0].roots()[1], view = Bokeh.index.find_one_by_id(plot.id);
    const dots = plot.renderers[1], values = dots.data_source.data, at = view.el.getBoundingClientRect();
    return [at.x + view.frame.x_scale.compute(values.place[2]),
        at.y + view.frame.y_scale.compute(values[dots.name][2])];
}"""
SELECTED = (
    "Bokeh.documents[0].roots().slice(1).map(one => [...one.renderers[1].data_source.selected.indices])"
)


def test_a_run_is_marked_in_all_charts_of_its_card(opened, history):
    with opened(address=history) as page:
        other = page.locator(".plot").nth(2)
        before = other.screenshot()
        page.mouse.move(*page.evaluate(DOT))
        page.wait_for_timeout(200)
        assert other.screenshot() != before
        page.mouse.down()
        page.mouse.up()
        until(page, f"{SELECTED}[0].length > 0")
        assert page.evaluate(SELECTED) == [[2], [2], [], []]
        names = page.evaluate("Bokeh.documents[0].get_model_by_name('names').data.text")
        assert names == ["", "driver 570.86.10 → 580.159.04"]


LAPS, LAP_S = 24, 1200.0
SHOWN = """() => {
    const charts = Bokeh.documents[0];
    const names = charts.get_model_by_name('names'), axis = charts.get_model_by_name('time');
    const plot = charts.roots().find(one => one.renderers.some(drawn => drawn.data_source === names));
    const pen = document.createElement('canvas').getContext('2d');
    pen.font = '9pt helvetica, sans-serif';
    const scale = plot.inner_width / (axis.end - axis.start);
    const {t_s, row, text} = names.data;
    const shown = text.map((one, place) =>
        [one, row[place], (t_s[place] - axis.start) * scale, pen.measureText(one).width]);
    return {width: plot.inner_width, names: shown};
}"""
TICKS = """ticks =>
    [...Bokeh.documents[0].all_models].find(one => one.tags.includes('hours')).doFormat(ticks)"""


@pytest.fixture(scope="module")
def night(recorded, tmp_path_factory):
    """The page of eight hours on two cards of unlike limits: 24 laps of three stages, hot at 2:41 h."""
    recording = copy(recorded)
    recording.run = replace(recorded.run, level="soak", utc_offset_s=3600)
    recording.stages, recording.earlier_attempts = {}, {}
    for lap in range(1, LAPS + 1):
        start_s = (lap - 1) * LAP_S
        for name, from_s, to_s in (("gemm", 0, 90), ("sustained", 95, 1100), ("pattern", 1105, 1195)):
            times_s = (start_s + from_s, start_s + to_s)
            recording.add(Stage(name, *times_s, "finished", ("a#0",), *times_s, lap=lap))
    for subject in ("pc1/gpu0", "pc1/gpu1"):
        sample = next(iter(recorded.gpu_samples.of(subject)))
        for place in range(1, 481):
            recording.add(replace(sample, t_s=place * 60.0))
    sustained = "throughput.sustained"
    verdicts = [
        Verdict(sustained, "pc1/gpu0", Outcome.PASS, "TFLOP/s", 78.0, 58.5, direction="at_least"),
        Verdict(sustained, "pc1/gpu1", Outcome.PASS, "TFLOP/s", 40.7, 30.5, direction="at_least"),
        Verdict(
            *("thermal.core_temperature", "pc1/gpu1", Outcome.FAIL, "°C", 91.0, 80.0),
            direction="at_most", from_s=9660.0, length_s=300.0, severity="reseat", detail="again at t=9990 s",
        ),
    ]  # fmt: skip
    path = tmp_path_factory.mktemp("night") / "report.html"
    write_page(path, RunResult(recording, run_facts(recording), verdicts, Decision.REJECTED, 28_810.0))
    return path.as_uri()


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_night_is_shown_in_hours_and_no_name_of_a_stage_is_over_another(tab, night, viewport):
    page, _ = tab(*viewport.values(), ())
    page.goto(night)
    until(page, "document.documentElement.dataset.painted === 'yes'")

    def shown():
        found = page.evaluate(SHOWN)
        ends = {}
        for text, row, left, width in sorted(found["names"], key=lambda one: one[2]):
            assert ends.get(row, 0) <= left, f"{text} is over another name"
            assert left + width <= found["width"] + 1, f"{text} is cut off"
            ends[row] = left + width
        return [text for text, *_ in found["names"]]

    laps = shown()
    assert laps[0] == "lap 1"
    assert all(text.startswith("lap ") for text in laps)
    assert (len(laps) == LAPS) == (viewport is DESKTOP)
    assert len(laps) >= 5
    assert page.evaluate(TICKS, [0, 3600, 27_000]) == ["0:00", "1:00", "7:30"]
    assert page.evaluate(TICKS, [9660, 9675]) == ["2:41:00", "2:41:15"]
    page.evaluate("Bokeh.documents[0].get_model_by_name('time').setv({start: 2500, end: 3700})")
    until(page, "!Bokeh.documents[0].get_model_by_name('names').data.text.includes('lap 1')")
    assert {"lap 3", "sustained"} <= set(shown())

    text = page.locator("#findings li").first.inner_text()
    assert "91 °C, limit ≤ 80 °C (from 06:45, 2 h 41 min into the run, 5 min long)" in text
    assert "again at 06:50 (2 h 46 min into the run)" in text
    assert (
        page.locator("#findings abbr").first.get_attribute("title").startswith("work on the machine by hand")
    )
    head = page.locator(".decision").inner_text()
    assert "began at 2026-01-02 04:04 UTC+01:00, took 8 h" in head
    for label in page.locator("td[data-label=limit]").all():
        limit = label.inner_text()
        assert not limit or any(map(str.isdigit, limit)), "the word limit stands before a unit alone"
    assert page.locator("td[data-label=in]").first.inner_text() == "TFLOP/s"
