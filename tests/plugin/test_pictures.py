"""The pictures of the documents: their script makes them, and each is shown with words beside it."""

import io
import re
import shutil

import pytest
from PIL import Image

from support.acceptance import CHECKOUT, python

FOLDER = CHECKOUT / "docs" / "pictures"
SHOWN = re.compile(r"!\[([^]]*)\]\(([^)]+)\)")
KINDS = ("terminal-80-h200-x2.svg", "monitor-80.svg", "report-desktop.png")  # the others are made likewise
LARGEST, LARGEST_OF_ALL = 150_000, 1_500_000
PROGRAMS = {
    "tmux": ("tmux",),
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "pdftoppm": ("pdftoppm",),
}


def pictures(folder):
    return {path.name: path for path in folder.iterdir() if path.suffix in (".svg", ".png")}


def test_the_script_makes_each_kind_of_picture(tmp_path):
    for name, programs in PROGRAMS.items():
        if not any(map(shutil.which, programs)):
            pytest.skip(f"{name} is not installed")
    done = python(FOLDER / "make.py", *KINDS, "--output", tmp_path, patience_s=500)
    assert done.returncode == 0, done.stdout + done.stderr
    made = pictures(tmp_path)
    assert made.keys() == set(KINDS)
    assert made.keys() <= pictures(FOLDER).keys()
    for name, path in made.items():
        content = path.read_bytes()
        if path.suffix == ".png":
            assert len(Image.open(io.BytesIO(content)).convert("RGB").getcolors(1 << 24)) > 20, name
        else:
            assert "H200" in content.decode() or "h200" in content.decode(), name
    (accepted,) = [path.read_text() for name, path in made.items() if name.startswith("terminal")]
    assert "fit&#160;for&#160;training" in accepted
    assert "not&#160;tested&#160;together" not in accepted
    assert "core&#160;at" in made["monitor-80.svg"].read_text()


def test_each_picture_is_shown_with_words_for_those_who_do_not_see_it():
    found = pictures(FOLDER)
    shown = {}
    for page in [CHECKOUT / "README.md", *(CHECKOUT / "docs").rglob("*.md")]:
        for words, target in SHOWN.findall(page.read_text()):
            assert (page.parent / target).is_file(), f"{page}: {target}"
            assert len(words.split()) >= 8, f"{page}: {target} says too little"
            shown[(page.parent / target).name] = page
    assert shown.keys() == found.keys()


def test_they_are_small_name_no_folder_of_a_machine_and_ask_no_other_host():
    sizes = {name: path.stat().st_size for name, path in pictures(FOLDER).items()}
    assert max(sizes.values()) <= LARGEST
    assert sum(sizes.values()) <= LARGEST_OF_ALL
    for name, path in pictures(FOLDER).items():
        if path.suffix == ".svg":
            assert re.findall(r"(?:/tmp|/home|/root|/work|/var)/", path.read_text()) == [], name
            assert re.findall(r"(?:url\(|href=)[\"']?(https?:[^\"')]*)", path.read_text()) == [], name
