import pytest

from rigproof.records.verdict import Outcome

GPU, MODE = "pc1/gpu0", "health.ecc_mode"


def found(bench, **identity):
    bench.gpu(GPU, **identity)
    verdict = bench.verdict(MODE, GPU)
    return verdict.outcome, verdict.detail


@pytest.mark.parametrize("pending", [True, None])
def test_a_card_whose_ecc_is_on_passes(bench, pending):
    assert found(bench, ecc_pending=pending) == (Outcome.PASS, "ECC is on")


def test_ecc_that_is_off_fails(bench):
    outcome, detail = found(bench, ecc_enabled=False, ecc_pending=False)
    assert outcome is Outcome.FAIL
    assert detail == "ECC is switched off: no memory error is corrected or counted"
    assert "nvidia-smi -i GPU -e 1" in bench.verdict(MODE, GPU).remedy


def test_ecc_that_is_on_after_the_next_restart_only_needs_it(bench):
    assert found(bench, ecc_enabled=False, ecc_pending=True)[0] is Outcome.FAIL
    assert bench.verdict(MODE, GPU).remedy == "restart the machine: ECC is on from then"


def test_ecc_that_the_next_restart_switches_off_warns(bench):
    outcome, detail = found(bench, ecc_enabled=True, ecc_pending=False)
    assert (outcome, detail) == (Outcome.WARN, "ECC is on, but the next restart switches it off")


def test_a_profile_allows_it_to_be_off(bench):
    bench.limits(ecc_off=True)
    bench.loaded.sources["limits.ecc_off"] = "lab.toml"
    assert found(bench, ecc_enabled=False) == (Outcome.PASS, "ECC is off, as the profile states")
    assert bench.verdict(MODE, GPU).limit_source == "lab.toml"


@pytest.mark.parametrize("enabled", [None, False])
def test_a_card_whose_sku_has_no_ecc_needs_none(bench, enabled):
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "rtx-3090"}]}])
    assert found(bench, ecc_enabled=enabled)[0] is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize("enabled", [None, False])
def test_an_unknown_card_is_promised_none(bench, enabled):
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "unknown", "memory_gib": 141}]}])
    assert found(bench, sku=None, ecc_enabled=enabled)[0] is Outcome.NOT_APPLICABLE


def test_a_mode_that_could_not_be_read_is_not_measured(bench):
    assert found(bench, ecc_enabled=None) == (Outcome.NOT_MEASURED, "NVML does not report the ECC mode")
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "unknown", "memory_gib": 141}]}])
    bench.event("nvml_error", GPU, "Unknown Error", query="nvmlDeviceGetEccMode", code=999)
    assert found(bench, sku=None, ecc_enabled=None)[0] is Outcome.NOT_MEASURED
