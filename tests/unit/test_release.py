"""A release's notes are its section of CHANGELOG.md; a tag without one is none."""

import shutil
import subprocess
from pathlib import Path

import pytest

import rigproof
from support.acceptance import CHECKOUT
from support.workflow_steps import run_steps

RELEASE = CHECKOUT / ".github" / "workflows" / "release.yml"
CHANGELOG = (CHECKOUT / "CHANGELOG.md").read_text()
UNRELEASED = "## [Unreleased]\n"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in (".ci/notes", "CHANGELOG.md", "rigproof/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(CHECKOUT / name, tmp_path / name)
    return tmp_path


def notes(folder: Path, version: str) -> subprocess.CompletedProcess[str]:
    command = (folder / ".ci" / "notes", version)
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_each_version_has_its_own_section(copy: Path) -> None:
    sections = {one[1 : one.index("]")]: one.partition("\n")[2] for one in CHANGELOG.split("\n## ")[1:]}
    assert "Unreleased" in sections
    for version, text in sections.items():
        assert notes(copy, version).stdout.strip() == text.strip()
    older = "\n## [0.0.9] - 2026-01-02\n\n- The first.\n\n## [10.0.9] - 2026-01-01\n\n- Another.\n"
    (copy / "CHANGELOG.md").write_text(CHANGELOG + older)
    assert notes(copy, "0.0.9").stdout.strip() == "- The first."
    assert notes(copy, "Unreleased").stdout.strip() == sections["Unreleased"].strip()


@pytest.mark.parametrize("version", ["9.9.9", "", "0.1", "Unreleased] ", ".*"])
def test_a_version_that_is_not_there_is_refused(copy: Path, version: str) -> None:
    done = notes(copy, version)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"CHANGELOG.md says nothing under ## [{version}" in done.stderr


def test_nothing_in_a_section_is_refused(copy: Path) -> None:
    (copy / "CHANGELOG.md").write_text(
        CHANGELOG.replace(UNRELEASED, f"{UNRELEASED}\n## [0.1.0] - 2026-12-01\n")
    )
    assert notes(copy, "Unreleased").returncode == 1
    assert notes(copy, "0.1.0").returncode == 0


@pytest.mark.parametrize(
    ("tag", "heading", "made"),
    [
        (f"v{rigproof.__version__}", f"## [{rigproof.__version__}] - 2026-12-01", True),
        (f"v{rigproof.__version__}", "## [9.9.9] - 2026-12-01", False),
        ("v9.9.9", "## [9.9.9] - 2026-12-01", False),
    ],
)
def test_a_tag_makes_a_release_if_it_is_the_version(copy: Path, tag: str, heading: str, made: bool) -> None:
    (copy / "CHANGELOG.md").write_text(CHANGELOG.replace(UNRELEASED, f"{UNRELEASED}\n{heading}\n"))
    for program in ("gh", "pipx"):
        (copy / program).write_text(f'#!/bin/sh\necho {program} "$@"\n')
        (copy / program).chmod(0o755)
    environment = {"PATH": f"{copy}:/usr/bin:/bin", "RUNNER_TEMP": str(copy), "GITHUB_REF_NAME": tag}
    said = [done.stdout for _, done in run_steps(RELEASE, copy, environment)]
    files = f"--notes-file {copy}/notes.md dist/*"
    release = ["", "pipx run build\n", f"gh release create {tag} --verify-tag {files}\n"]
    assert said == (release if made else [""])
    if made:
        assert (copy / "notes.md").read_text().startswith("### Added\n")
