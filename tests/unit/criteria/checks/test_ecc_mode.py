import pytest

from rigproof.records.verdict import Outcome

GPU, MODE = "pc1/gpu0", "health.ecc_mode"


def found(bench, **identity):
    bench.gpu(GPU, **identity)
    verdict = bench.verdict(MODE, GPU)
    return verdict.outcome, verdict.detail


@pytest.mark.parametrize(
    ("enabled", "pending", "outcome", "detail", "step"),
    [
        (True, True, Outcome.PASS, "ECC is on", ""),
        (True, None, Outcome.PASS, "ECC is on", ""),
        (True, False, Outcome.WARN, "ECC is on, but the next restart switches it off", "switch it on again"),
        (
            False,
            False,
            Outcome.FAIL,
            "ECC is switched off: no memory error is corrected or counted",
            "switch it on with `sudo nvidia-smi -i GPU -e 1`",
        ),
        (False, True, Outcome.FAIL, "ECC is off until the next restart", "restart the machine: ECC is on"),
    ],
)
def test_ecc_is_on_and_stays_on(bench, enabled, pending, outcome, detail, step):
    assert found(bench, ecc_enabled=enabled, ecc_pending=pending) == (outcome, detail)
    assert bench.verdict(MODE, GPU).remedy.startswith(step)


def test_a_profile_allows_it_to_be_off(bench):
    bench.limits(ecc_off=True)
    bench.loaded.sources["limits.ecc_off"] = "lab.toml"
    assert found(bench, ecc_enabled=False) == (Outcome.PASS, "ECC is off, as the profile states")
    assert bench.verdict(MODE, GPU).limit_source == "lab.toml"


@pytest.mark.parametrize("sku", ["rtx-3090", "unknown"])
@pytest.mark.parametrize("enabled", [None, False])
def test_a_card_whose_sku_promises_no_ecc_needs_none(bench, sku, enabled):
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": sku, "memory_gib": 141}]}])
    assert found(bench, ecc_enabled=enabled)[0] is Outcome.NOT_APPLICABLE


def test_a_mode_that_could_not_be_read_is_not_measured(bench):
    assert found(bench, ecc_enabled=None) == (Outcome.NOT_MEASURED, "NVML does not report the ECC mode")
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "unknown", "memory_gib": 141}]}])
    bench.event("nvml_error", GPU, "Unknown Error", query="nvmlDeviceGetEccMode", code=999)
    assert found(bench, sku=None, ecc_enabled=None)[0] is Outcome.NOT_MEASURED
