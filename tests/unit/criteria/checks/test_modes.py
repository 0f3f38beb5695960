import pytest

from rigproof.records.verdict import Outcome
from support.rig_profile import RIG

GPU, OTHER, MODES = "pc1/gpu0", "pc2/gpu0", "inventory.modes"


def found(bench, subject=GPU, **identity):
    bench.gpu(subject, **identity)
    return bench.verdict(MODES, subject)


def test_the_default_modes_pass(bench):
    assert bench.said(MODES, GPU) == (Outcome.PASS, "compute mode default")


@pytest.mark.parametrize(
    ("identity", "outcome", "words"),
    [
        ({"mig_enabled": True}, Outcome.FAIL, "MIG is on"),
        ({"compute_mode": "prohibited"}, Outcome.FAIL, "lets no program use CUDA"),
        ({"mig_pending": True}, Outcome.WARN, "the next reset of the GPU switches MIG on"),
        ({"persistence": False, "brand": "nvidia"}, Outcome.WARN, "persistence mode is off"),
        ({"persistence": False, "brand": "geforce_rtx"}, Outcome.PASS, ""),
        ({"persistence": None, "mig_enabled": None, "mig_pending": None}, Outcome.PASS, ""),
    ],
)
def test_modes_that_are_not_the_default_ones(bench, identity, outcome, words):
    verdict = found(bench, **identity)
    assert verdict.outcome is outcome
    assert words in verdict.detail


@pytest.mark.parametrize("mode", ["exclusive_process", "exclusive_thread"])
def test_an_exclusive_mode_fails_where_several_workers_are_planned(bench, mode):
    assert found(bench, compute_mode=mode).outcome is Outcome.FAIL
    verdict = found(bench, OTHER, compute_mode=mode)
    assert verdict.outcome is Outcome.WARN
    assert verdict.detail == f"its compute mode is {mode.replace('_', ' ')}: one process at a time"


def test_a_driver_that_reports_no_mode_does_not_apply(bench):
    none = {"compute_mode": None, "persistence": None, "mig_enabled": None}
    assert found(bench, **none).outcome is Outcome.NOT_APPLICABLE
    bench.event("nvml_error", GPU, "Unknown Error", query="nvmlDeviceGetComputeMode", code=999)
    assert bench.verdict(MODES, GPU).outcome is Outcome.NOT_MEASURED


def test_the_bench_has_two_workers_on_the_first_card():
    assert [node["gpus"][0]["workers"] for node in RIG["nodes"]] == [2, 1]
