"""In others' projects, where rigproof is only installed, nothing changes unless somebody asks for it."""

import re
from pathlib import Path

import pytest

from support.environments import Environment

SIMULATED = ("--hw-simulate-inline", "--hwprofile=dual-3090-3070", "--hw-level=quick")
# What could collide: markers, a fixture `subject`, options; and every warning is an error.
PROJECT = {
    "pytest.ini": """
[pytest]
addopts = --strict-markers --strict-config -W error
markers =
    hardware: needs the scale on the desk
    criterion: of ours
""",
    "conftest.py": """
import pytest

def pytest_addoption(parser):
    for name in ("level", "duration", "plan", "simulate", "inject", "share", "report-dir", "hw-serial"):
        parser.addoption(f"--{name}", default="ours")

@pytest.fixture
def subject(request):
    return request.config.getoption("--level")
""",
    "test_scale.py": """
import pytest

@pytest.mark.hardware
@pytest.mark.criterion("weight")
def test_weighs(subject):
    assert subject == "fine"

def test_adds():
    assert 1 + 1 == 2
""",
}
NOTHING_HEAVY = """
import sys, pytest
status = pytest.main(["-q", "-p", "no:cacheprovider", "--level=fine"])
ours = sorted(name for name in sys.modules if name.partition(".")[0] == "rigproof")
heavy = "bokeh jinja2 numpy pandas psutil pyarrow pydantic pynvml ray rich tomlkit torch typer".split()
print("OURS", *ours)
print("HEAVY", *(name for name in heavy if name in sys.modules))
sys.exit(status)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Environment:
    """An environment with rigproof in it."""
    environment = Environment(tmp_path_factory.mktemp("installed") / "venv")
    environment.install_rigproof()
    return environment


@pytest.fixture
def project(tmp_path) -> Path:
    """A project that knows nothing of rigproof."""
    for name, text in PROJECT.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def shown(done) -> str:
    """What pytest printed, without its list of what is installed, and how long it took."""
    text = re.sub(r"^(plugins|benchmark): .*\n", "", done.stdout + done.stderr, flags=re.MULTILINE)
    return re.sub(r"\d+\.\d+s", "…", text)


@pytest.mark.parametrize(
    "options",
    [
        ("-v", "-m", "hardware", "--level=fine"),
        ("-v", "--level=fine", "test_scale.py"),
        ("--markers",),
        ("--fixtures", "-v"),
    ],
    ids=" ".join,
)
def test_a_run_is_what_it_would_be_without_rigproof(installed, project, options):
    with_it = installed.pytest(*options, cwd=project)
    assert not (project / ".benchmarks").exists()
    without = installed.pytest("-p", "no:rigproof.plugin", *options, cwd=project)
    assert with_it.returncode == without.returncode == 0, with_it.stdout + with_it.stderr
    assert shown(with_it) == shown(without)


@pytest.mark.parametrize("requested", [False, True])
def test_pytest_benchmark_is_only_noticed_where_somebody_asked_for_it(tmp_path, requested):
    environment = Environment(tmp_path / "venv")
    environment.install_rigproof()
    if requested:
        (environment.info("pytest_benchmark") / "REQUESTED").touch()
    project = tmp_path / "project"
    project.mkdir()
    (project / "test_one.py").write_text("def test_one(benchmark):\n    benchmark(len, ())\n")
    done = environment.pytest(cwd=project)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert ("\nbenchmark: " in done.stdout) is requested
    assert (project / ".benchmarks").exists() is requested
    (project / ".benchmarks").mkdir(exist_ok=True)
    environment.pytest(cwd=project)
    assert (project / ".benchmarks").exists()  # somebody else's


def test_the_marker_hardware_selects_the_projects_own_test_alone(installed, project):
    done = installed.pytest("-m", "hardware", "--level=fine", cwd=project)
    assert "1 passed, 1 deselected" in done.stdout
    assert "rigproof:" not in done.stdout
    assert not (project / "reports").exists()


def test_nothing_heavy_is_imported(installed, project):
    done = installed.python("-c", NOTHING_HEAVY, cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, ours, heavy = done.stdout.splitlines()
    assert "rigproof.plugin" in ours.split(), "rigproof is not there at all"
    assert heavy.split() == ["HEAVY"]


@pytest.mark.parametrize("options", [(), ("-m", "hardware")], ids=["option alone", "option and marker"])
def test_an_option_of_rigproof_asks_for_an_acceptance_run_and_it_warns_of_nothing(
    installed, project, options
):
    done = installed.pytest(*SIMULATED, *options, cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr
    last, tests = done.stdout.splitlines()[-2:]
    assert last == "SIMULATED ACCEPTED: nothing failed on the simulated rig"
    assert re.search(r" \d+ passed, \d+ deselected(?:, \d+ (?:no limit|not applicable))+ in ", tests), tests
    assert "warning" not in done.stdout + done.stderr
    assert "test_weighs" not in (project / "reports" / "latest" / "junit.xml").read_text()


def test_a_projects_ini_file_can_ask_for_it(installed, tmp_path):
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\nrigproof = true\naddopts = {' '.join(SIMULATED)} --strict-config\n"
    )
    (tmp_path / "test_mine.py").write_text("def test_mine(): pass\n")
    assert "1 passed" in installed.pytest(cwd=tmp_path).stdout
    assert "SIMULATED ACCEPTED" in installed.pytest("-m", "hardware", cwd=tmp_path).stdout
