"""A checkout that is not installed: it works with what is there, or says what to type."""

import shutil

import pytest

from support.acceptance import CHECKOUT
from support.environments import Environment


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of this checkout; of this one something could be installed."""
    folder = tmp_path_factory.mktemp("clone") / "rigproof"
    folder.mkdir()
    for name in ("conftest.py", "pyproject.toml", "constraints.txt"):
        shutil.copy(CHECKOUT / name, folder)
    for name in ("hwprofiles", "rigproof", "tests/hardware"):
        shutil.copytree(CHECKOUT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.mark.parametrize("safe", ["", "-P"], ids=["python3 -m pytest", "pytest"])
def test_it_works_where_its_requirements_are_installed(checkout, tmp_path, safe):
    """`pytest` itself does not look for modules in the current folder; nor does `python3 -P -m pytest`."""
    environment = Environment(tmp_path / "venv")
    options = ("--hw-simulate-inline", "--hwprofile=dual-3090-3070", "--hw-level=quick", "-q")
    done = environment.python(
        *filter(None, [safe]),
        *("-m", "pytest", "-m", "hardware", *options),
        f"--hw-report-dir={tmp_path / 'r'}",
        cwd=checkout,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SIMULATED ACCEPTED" in done.stdout


@pytest.mark.parametrize("options", [("-m", "hardware"), ("--hw-plan",)], ids=" ".join)
def test_it_says_what_to_type_where_they_are_not(checkout, tmp_path, options):
    environment = Environment(tmp_path / "venv")
    (environment.site / "pydantic").unlink()
    done = environment.pytest(*options, cwd=checkout)
    assert done.returncode == 4, done.stdout
    assert "has no module 'pydantic', which an acceptance run needs" in done.stderr
    assert f"in {checkout} type: python3 -m venv .venv && . .venv/bin/activate && pip install" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
