"""What is published: it builds to the same bytes anywhere, has all that a run needs, and PyPI takes it."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.acceptance import CHECKOUT
from support.environments import Environment, build, built

BUILT_FROM = ("rigproof", "hwprofiles", "tests/hardware", "docs", "LICENSE", "README.md", "pyproject.toml")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """What is built from, in another folder, with other times and rights."""
    for name in BUILT_FROM:
        source, target = CHECKOUT / name, tmp_path / "copy" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(
                source, target, ignore=shutil.ignore_patterns("__pycache__"), copy_function=shutil.copyfile
            )
        else:
            shutil.copyfile(source, target)
        for path in (target, *target.rglob("*")):
            os.utime(path, (1e9, 1e9))
            path.chmod(0o700 if path.is_dir() else 0o600)
    return tmp_path / "copy"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_wheel_has_the_same_bytes_wherever_it_is_built(elsewhere: Path, tmp_path: Path) -> None:
    folder = tmp_path / "wheel"
    folder.mkdir()
    assert digest(build(elsewhere, "wheel", folder)) == digest(built("wheel"))


def test_the_index_takes_both_and_an_sdist_holds_what_a_wheel_is_built_from(tmp_path: Path) -> None:
    files = [built("wheel"), built("sdist")]
    command = [sys.executable, "-m", "twine", "check", "--strict", *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.count("PASSED")) == (0, 2), done.stdout + done.stderr
    subprocess.run(["tar", "xzf", files[1], "-C", tmp_path], check=True)
    (source,) = tmp_path.iterdir()
    folder = tmp_path / "from-sdist"
    folder.mkdir()
    names = [zipfile.ZipFile(path).namelist() for path in (files[0], build(source, "wheel", folder))]
    assert sorted(names[0]) == sorted(names[1])


def test_an_installed_wheel_accepts_a_simulated_rig(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install_rigproof()
    (tmp_path / "work").mkdir()
    told = ["-m", "rigproof", "accept", "--simulate-inline", "--hwprofile", "h200-x2", "--level", "quick"]
    done = environment.python(*told, cwd=tmp_path / "work")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SIMULATED ACCEPTED" in done.stdout
    done = environment.python("-m", "rigproof", "verdict", cwd=tmp_path / "work")
    assert (done.returncode, done.stdout.splitlines()[0]) == (6, "none of this machine in reports/runs")
