"""What a card cannot have is not applicable; what it should have had, or lost, is not measured."""

import pytest

from rigproof.records.verdict import Decision, Outcome, decide

GPU, OTHER = "pc1/gpu0", "pc2/gpu0"
# By sensor, what cannot be judged without it.
NEEDED_BY = {
    "core_temperature_c": {"thermal.core_temperature"},
    "memory_temperature_c": {"thermal.memory_temperature"},
    "sm_clock_mhz": {"clock.ratio"},
    "clock_event_reasons": {"thermal.throttle"},
    "thermal_margin_c": {"thermal.margin"},
    "pcie_width": {"transfer.link"},
    "pcie_generation": {"transfer.link"},
    "utilization_percent": set(),  # how long a card waits is then judged by its work alone
}


@pytest.fixture
def unlisted(bench):
    """A card without a SKU file, and one with."""
    bench.rig(
        nodes=[
            {"name": "pc1", "gpus": [{"sku": "unknown", "workers": 2, "memory_gib": 141}]},
            {"name": "pc2", "gpus": [{"sku": "h200", "workers": 1}]},
        ]
    )
    limits = (
        "slowdown_margin_c",
        "temperature_gpu_max_c",
        "temperature_slowdown_c",
        "temperature_memory_max_c",
    )
    bench.gpu(GPU, sku=None, **dict.fromkeys(limits))
    return bench


def changed(bench, subject, from_s=0.0, **sensors):
    """What other readings make of a card's criteria: those that became so, by their outcome."""
    before = outcomes(bench, subject)
    bench.samples(subject, from_s, **sensors)
    became = {outcome: set() for outcome in Outcome}
    for criterion, outcome in outcomes(bench, subject).items():
        if before[criterion] is not outcome:
            became[outcome].add(criterion)
    return became


def outcomes(bench, subject):
    return {one.criterion: one.outcome for one in bench.verdicts() if one.subject == subject}


@pytest.mark.parametrize("sensor", NEEDED_BY)
def test_a_sensor_that_an_unlisted_card_never_had_is_not_applicable(unlisted, sensor):
    became = changed(unlisted, GPU, **{sensor: None})
    assert became[Outcome.NOT_APPLICABLE] == NEEDED_BY[sensor]
    assert became[Outcome.NOT_MEASURED] == set()


@pytest.mark.parametrize("sensor", NEEDED_BY)
def test_a_sensor_that_went_silent_is_not_measured(unlisted, sensor):
    missing = changed(unlisted, GPU, 40, **{sensor: None})[Outcome.NOT_MEASURED]
    assert missing >= NEEDED_BY[sensor]
    assert missing


@pytest.mark.parametrize("sensor", NEEDED_BY)
def test_a_sensor_that_a_listed_card_should_have_is_not_measured(unlisted, sensor):
    missing = changed(unlisted, OTHER, **{sensor: None})[Outcome.NOT_MEASURED]
    assert missing >= NEEDED_BY[sensor]
    assert missing
    assert decide(unlisted.verdicts()) is not Decision.ACCEPTED


@pytest.mark.parametrize("sensor", sorted(NEEDED_BY.keys() - {"memory_temperature_c"}))
def test_a_query_that_failed_is_not_one_that_is_not_supported(unlisted, sensor):
    unlisted.event("nvml_error", GPU, "Unknown Error", query="nvmlDeviceGetAny", code=999)
    became = changed(unlisted, GPU, **{sensor: None})
    assert became[Outcome.NOT_MEASURED] >= NEEDED_BY[sensor]
    assert not became[Outcome.NOT_APPLICABLE]


@pytest.mark.parametrize("limit", ["temperature_gpu_max_c", "temperature_slowdown_c"])
def test_a_sensor_whose_limit_the_driver_knows_is_there(unlisted, limit):
    unlisted.gpu(GPU, **{limit: 90})
    unlisted.samples(GPU, core_temperature_c=None)
    assert unlisted.verdict("thermal.core_temperature", GPU).outcome is Outcome.NOT_MEASURED


def test_a_card_without_any_sensor_of_power_is_known_to_be_active_by_its_utilisation(unlisted):
    unlisted.samples(GPU, power_w=None, power_average_w=None, energy_j=None)
    active = unlisted.verdict("activity.gpu_active", GPU)
    assert active.outcome is Outcome.PASS
    assert "utilisation" in active.detail
    assert unlisted.verdict("power.draw", GPU).outcome is Outcome.NOT_APPLICABLE


def test_counters_that_were_never_read_are_not_measured_on_any_card(unlisted):
    unlisted.gpu(GPU, ecc_enabled=None)
    for moment in ("before", "after"):
        unlisted.counters(GPU, moment, ecc_uncorrected=None, ecc_corrected=None, remapped_uncorrectable=None)
    names = ("memory.ecc", "memory.row_remap")
    assert {unlisted.verdict(name, GPU).outcome for name in names} == {Outcome.NOT_APPLICABLE}
    unlisted.recording.counters = [one for one in unlisted.recording.counters if one.subject != GPU]
    assert {unlisted.verdict(name, GPU).outcome for name in names} == {Outcome.NOT_MEASURED}
