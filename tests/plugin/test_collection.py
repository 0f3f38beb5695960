"""What is collected: every promise of the catalogue once in an acceptance run, nothing of it in any other."""

import importlib.util
import inspect
from collections import Counter

import pytest

from rigproof.host.package import suite_folder
from rigproof.judging.catalogue import CATALOGUE
from rigproof.stages.registry import KINDS
from support.acceptance import run_pytest
from support.rig_profile import CANNED


def hardware_tests():
    """Every test function of the suite with its module's name."""
    for path in sorted(suite_folder().glob("test_*.py")):
        spec = importlib.util.spec_from_file_location(f"hardware_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, function in vars(module).items():
            if name.startswith("test_"):
                yield path.stem, name, function, module


def criterion_of(function):
    (marker,) = (mark for mark in function.pytestmark if mark.name == "criterion")
    return marker.args[0]


def test_each_criterion_has_exactly_one_test():
    found = Counter(criterion_of(function) for _, _, function, _ in hardware_tests())
    for name in CATALOGUE:
        family, _, what = name.partition(".")
        assert found[name] == 1, f"{name} needs one test: test_{what} in tests/hardware/test_{family}.py"
    assert set(found) == set(CATALOGUE)


def test_each_criterion_finds_its_test_by_its_name():
    for file, name, function, _ in hardware_tests():
        family, _, what = criterion_of(function).partition(".")
        assert (file, name) == (f"test_{family}", f"test_{what}")


def test_each_test_is_marked_hardware_and_says_what_it_shows():
    for _, _, function, module in hardware_tests():
        assert module.pytestmark.name == "hardware"
        assert function.__doc__


def test_each_test_asks_for_the_stages_that_its_criterion_judges():
    for _, name, function, _ in hardware_tests():
        stages = CATALOGUE[criterion_of(function)].stages
        asked = set(inspect.signature(function).parameters)
        assert asked & {"rig", "finished", *KINDS.names}, name
        if stages:
            assert asked & {"finished", stages[-1]}, name


def test_each_promised_subject_of_each_criterion_is_one_test_with_a_readable_id(acceptance):
    run = acceptance("healthy")
    assert set(run.junit) == {
        f"test_{criterion.partition('.')[2]}[{subject}]" for criterion, subject in run.criteria
    }
    assert {"test_core_temperature[pc1/gpu0]", "test_combined[rig]", "test_cpu_band[pc2]"} <= set(run.junit)
    # Its two cards have different numbers of workers, so that none is a peer of the other.
    canned = {name for name, one in CATALOGUE.items() if CANNED.issuperset(one.stages)}
    assert {criterion for criterion, _ in run.criteria} == canned - {"throughput.peer_outlier"}


def test_plain_pytest_collects_no_hardware_test():
    done = run_pytest("--collect-only", "-q", "tests/hardware")
    assert done.returncode == 5, done.stdout + done.stderr
    assert "no tests collected" in done.stdout
    assert "::test_" not in done.stdout


@pytest.mark.parametrize("expression", ["not slow", "slow or not hardware"])
def test_an_expression_that_does_not_ask_for_the_marker_loads_nothing(expression):
    """Every test that is not slow is selected by the first, also those of the suite."""
    done = run_pytest("--collect-only", "-m", expression, "-o", "markers=slow", "tests/unit/plugin")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rigproof:" not in done.stdout


SIMULATED = ("--hw-simulate-inline", "--hwprofile=dual-3090-3070")


def test_an_option_that_was_typed_selects_the_marker(tmp_path):
    done = run_pytest(*SIMULATED, "--collect-only", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tests/hardware/test_thermal.py::test_core_temperature[pc1/gpu0]" in done.stdout
    assert "tests/unit" not in done.stdout


def test_an_option_beside_an_expression_that_selects_other_tests_is_refused():
    done = run_pytest(*SIMULATED, "-m", "not hardware")
    assert done.returncode == 4, done.stdout
    assert "--hw-simulate-inline: an acceptance run has this option" in done.stderr
    assert "write -m hardware" in done.stderr


@pytest.mark.parametrize("options", [SIMULATED, ("--hw-plan",)], ids=" ".join)
def test_an_option_of_addopts_is_a_default_and_asks_for_nothing(monkeypatch, options):
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(options))
    done = run_pytest("--collect-only", "-q", "tests/unit/plugin")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tests/unit/plugin/test_signals.py::" in done.stdout


def test_an_option_of_addopts_counts_in_an_acceptance_run(monkeypatch):
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(SIMULATED))
    done = run_pytest("--collect-only", "-q", "-m", "hardware")
    assert "test_core_temperature[pc1/gpu0]" in done.stdout


def test_collecting_an_acceptance_run_makes_no_run(hardware, tmp_path, two_nodes):
    done = hardware(f"--hwprofile={two_nodes}", "--collect-only", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tests/hardware/test_thermal.py::test_core_temperature[pc1/gpu0]" in done.stdout
    assert not (tmp_path / "reports").exists()


def test_spreading_tests_over_processes_is_refused(acceptance):
    run = acceptance("healthy", "--numprocesses=2")
    assert run.status == 4, run.output
    assert "the acceptance suite itself loads all GPUs at the same time; give -n 0" in run.output
    assert "Traceback" not in run.output
    assert not (run.reports / "runs").exists()


def test_the_short_form_of_it_is_refused_too(acceptance):
    run = acceptance("healthy", "-n", "2")
    assert run.status == 4, run.output
    assert "give -n 0" in run.output


def test_a_file_that_cannot_be_collected_is_reported_as_pytest_reports_it(hardware, tmp_path):
    broken = tmp_path / "test_broken.py"
    broken.write_text("import no_such_module\n")
    done = hardware(*SIMULATED, str(broken))
    assert "ModuleNotFoundError: No module named 'no_such_module'" in done.stdout
    assert "AttributeError" not in done.stdout + done.stderr
    assert done.returncode == 2
