"""The documents as a site: built without a warning, and searched from its files in a real Chromium."""

import re
import shutil
import subprocess
import sys

import pytest
from playwright import sync_api

from support.acceptance import CHECKOUT

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PHONE = {"width": 390, "height": 844}
MOST_MS = 240_000  # for a host that is busy with other tests
PAGES = ("index.html", "docs/start.html", "docs/verdict.html", "docs/two-pcs.html", "docs/criteria.html")
MARKDOWN = re.compile(r"^(- |\d+\. |\| |```|#+ )", re.MULTILINE)  # that was not understood


def build(folder):
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    shutil.copy2(CHECKOUT / "zensical.toml", folder)
    pages = [sys.executable, CHECKOUT / "docs/site/pages.py", folder / "build/pages"]
    subprocess.run(pages, check=True)
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr
    return folder / "build/site"


def test_each_page_is_built_and_nothing_on_it_is_left_as_it_was_typed(site):
    pages = sorted(site.parent.joinpath("pages").rglob("*.md"))
    assert len(pages) > 30
    raw = {}
    for page in pages:
        place = page.relative_to(site.parent / "pages")
        place = place.with_name("index.html") if place.name == "README.md" else place.with_suffix(".html")
        text = (site / place).read_text()
        article = text[text.index("<article") : text.index("</article>")]
        plain = re.sub(r"<pre.*?</pre>", "", article, flags=re.DOTALL)
        if found := [plain[one.start() :][:80] for one in MARKDOWN.finditer(plain)]:
            raw[str(place)] = found
    assert not raw, "\n".join(f"{place}: {found}" for place, found in raw.items())


def test_each_document_is_in_the_order_of_pages():
    listed = set(re.findall(r'= "([\w/.-]+\.md)"', (CHECKOUT / "zensical.toml").read_text()))
    assert listed >= {str(one.relative_to(CHECKOUT)) for one in (CHECKOUT / "docs").glob("*.md")}


def test_a_link_that_leads_nowhere_is_not_built(site, tmp_path):
    shutil.copy2(site.parents[1] / "zensical.toml", tmp_path)
    for page in ("README.md", "docs/start.md"):
        (tmp_path / "build/pages" / page).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "build/pages" / page).write_text("# A page\n\n[Another](another.md)\n")
    done = build(tmp_path)
    assert done.returncode != 0
    assert "page does not exist" in done.stdout + done.stderr


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here to open the site with")
def test_it_is_read_and_searched_without_a_network(site):
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport=PHONE)
        page.set_default_timeout(MOST_MS)
        asked, errors = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        for name in PAGES:
            page.goto((site / name).as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], name
        page.keyboard.press("/")
        page.keyboard.type("overheat")
        page.get_by_text(re.compile(r"^\d\d results$")).wait_for()
        page.keyboard.press("Escape")
        assert [one for one in asked if not one.startswith(("file:", "data:", "blob:"))] == []
        assert errors == []
        browser.close()
