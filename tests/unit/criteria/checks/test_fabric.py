import pytest

from rigproof.records.verdict import Outcome

GPU, FABRIC = "pc1/gpu0", "health.fabric"
WELL = {"fabric_state": "completed", "fabric_status": 0, "fabric_health": 0, "nvlinks": (True,) * 18}


def found(bench, before=None, after=None):
    for moment, changes in (("before", before), ("after", after)):
        bench.counters(GPU, moment, **(WELL | (changes or {})))
    return bench.verdict(FABRIC, GPU)


def test_a_completed_fabric_passes(bench):
    verdict = found(bench)
    assert (verdict.outcome, verdict.detail) == (Outcome.PASS, "completed")
    assert verdict.limit_source == "NVML's fabric state"


@pytest.mark.parametrize("state", ["not_started", "in_progress", "unknown (9)"])
def test_a_fabric_that_is_not_set_up_fails_with_the_command_to_type(bench, state):
    verdict = found(bench, {"fabric_state": state}, {"fabric_state": state})
    assert verdict.outcome is Outcome.FAIL
    assert "sudo systemctl enable --now nvidia-fabricmanager" in verdict.remedy
    expected = f"the NVLink fabric is not set up, its state is “{state.replace('_', ' ')}” before the load"
    assert verdict.detail == expected


def test_a_gpu_that_was_not_admitted_or_lost_its_fabric_under_load_fails(bench):
    verdict = found(bench, after={"fabric_state": "in_progress"})
    assert (verdict.outcome, verdict.detail[-14:]) == (Outcome.FAIL, "after the load")
    verdict = found(bench, {"fabric_status": 71}, {"fabric_status": 71})
    assert verdict.outcome is Outcome.FAIL
    assert verdict.detail == "the fabric manager did not admit this GPU: NVML code 71 before the load"
    assert "journalctl -u nvidia-fabricmanager" in verdict.remedy


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (0x0001, Outcome.FAIL),  # degraded bandwidth
        (0x0002, Outcome.PASS),  # not degraded
        (0x0004, Outcome.WARN),  # route recovery
        (0x0010, Outcome.FAIL),  # route unhealthy
        (0x0040, Outcome.WARN),  # access timeout recovery
        (0x0100, Outcome.PASS),  # no incorrect configuration
        (0x0500, Outcome.FAIL),  # insufficient NVLinks
        (0x01AA, Outcome.PASS),  # every flag known and false
        (0x0011 | 0x0004, Outcome.FAIL),
        (0x0500 | 0x0004, Outcome.FAIL),  # a recovery hides no insufficient NVLinks
    ],
)
def test_the_health_mask_of_nvml(bench, mask, expected):
    assert found(bench, after={"fabric_health": mask}).outcome is expected


@pytest.mark.parametrize(
    "without",
    [
        {"fabric_state": None},
        {"fabric_state": "not_supported"},
        {"fabric_state": "in_progress", "nvlinks": None},
        {"fabric_state": "in_progress", "nvlinks": (False,) * 18},
    ],
)
def test_a_card_without_a_fabric_or_without_nvlinks_needs_none(bench, without):
    assert found(bench, without, without).outcome is Outcome.NOT_APPLICABLE


def test_a_state_that_was_not_read_again_is_not_measured(bench):
    assert found(bench, after={"fabric_state": None}).outcome is Outcome.NOT_MEASURED
    bench.recording.counters = [one for one in bench.recording.counters if one.moment == "before"]
    assert bench.verdict(FABRIC, GPU).outcome is Outcome.NOT_MEASURED


def test_a_query_that_failed_is_not_one_that_is_not_supported(bench):
    bench.event("nvml_error", GPU, "Unknown Error", query="nvmlDeviceGetGpuFabricInfoV", code=999)
    assert found(bench, {"fabric_state": None}, {"fabric_state": None}).outcome is Outcome.NOT_MEASURED
