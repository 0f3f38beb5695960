from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rigproof.records.verdict import Outcome

GPU, OTHER = "pc1/gpu0", "pc2/gpu0"
LINK = "transfer.link"
SLOW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
UNKNOWN = [{"name": "pc1", "gpus": [{"sku": "unknown", "workers": 2, "memory_gib": 141}]}]


def without_link(bench, *sensors):
    """The H200's file says that its driver does not answer these."""
    sku = bench.loaded.skus["h200"].model_copy(update={"unsupported_sensors": sensors})
    bench.loaded = replace(bench.loaded, skus={**bench.loaded.skus, "h200": sku})
    return bench


def test_a_link_at_its_best_passes_with_the_rate_that_it_has_by_its_names(bench):
    verdict = bench.verdict(LINK, GPU)
    assert (verdict.outcome, verdict.detail) == (Outcome.PASS, "Gen5 x16")
    assert verdict.measured == verdict.limit == pytest.approx(63.0, abs=0.1)
    assert verdict.limit_source == "NVML's best link of card and slot"


@pytest.mark.parametrize(
    ("generation", "width", "gbps"),
    [(1, 16, 4.0), (2, 16, 8.0), (3, 16, 15.75), (4, 16, 31.5), (5, 8, 31.5), (4, 8, 15.75), (5, 1, 3.94)],
)
def test_a_link_under_its_best_fails_and_says_both(bench, generation, width, gbps):
    bench.samples(GPU, pcie_generation=generation, pcie_width=width)
    verdict = bench.verdict(LINK, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, pytest.approx(gbps, abs=0.02))
    assert verdict.detail == f"Gen{generation} x{width} where Gen5 x16 is possible, in the gemm stage"
    assert verdict.remedy.startswith("reseat card and riser")
    assert bench.verdict(LINK, OTHER).outcome is Outcome.PASS


def test_a_link_that_goes_down_while_the_card_idles_is_no_fault(bench):
    for from_s, to_s in ((0, 7), (25, 29), (71, 75), (92, 99), (113, 116), (133, 136)):
        bench.samples(GPU, from_s, to_s, pcie_generation=1)
    assert bench.verdict(LINK, GPU).outcome is Outcome.PASS


def test_a_moment_at_a_lower_generation_is_no_fault_but_half_of_a_quarter_is(bench):
    bench.samples(GPU, 38.55, 40.65, pcie_generation=1)  # 21 of 105 readings
    assert bench.verdict(LINK, GPU).outcome is Outcome.PASS
    bench.samples(GPU, 38.55, 40.75, pcie_generation=1, pcie_width=4)
    assert bench.said(LINK, GPU) == (
        Outcome.WARN,
        "down to Gen1 x4 in 21% of the readings from t=38 s on, where Gen5 x16 is possible, in the "
        "sustained stage",
    )
    bench.samples(GPU, 38.05, 44.05, pcie_generation=1)
    verdict = bench.verdict(LINK, GPU)
    assert (verdict.outcome, verdict.from_s, verdict.length_s) == (Outcome.FAIL, 38.5, 10.5)


def test_a_link_that_carries_no_data_is_not_judged(bench):
    """A GH200's, which NVML reports with one lane: its data goes over NVLink-C2C."""
    bench.gpu(GPU, pcie_generation_max=4, pcie_width_max=1)
    bench.samples(GPU, pcie_generation=4, pcie_width=1)
    assert bench.verdict(LINK, GPU).outcome is Outcome.PASS
    assert without_link(bench, "pcie").said(LINK, GPU) == (
        Outcome.NOT_APPLICABLE,
        "hwprofiles/gpus/h200.toml says that it has none",
    )


def test_a_slot_that_the_owner_knows_is_the_measure(bench):
    bench.samples(GPU, 5, pcie_generation=4, pcie_width=8)
    bench.limits(pcie_generation=4, pcie_width=8)
    assert bench.said(LINK, GPU) == (Outcome.PASS, "Gen4 x8")
    bench.samples(GPU, 5, pcie_generation=3)
    assert bench.verdict(LINK, GPU).outcome is Outcome.FAIL
    bench.samples(GPU, 5, pcie_generation=5, pcie_width=4)  # a better generation makes up for nothing
    verdict = bench.verdict(LINK, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, pytest.approx(7.88, abs=0.01))


def test_the_owner_can_state_what_nvml_does_not_say_but_no_more_than_it_does(bench):
    bench.limits(pcie_generation=5, pcie_width=16)
    bench.gpu(GPU, pcie_generation_max=4)
    bench.samples(GPU, 5, pcie_generation=4)
    assert bench.verdict(LINK, GPU).outcome is Outcome.PASS
    bench.gpu(GPU, pcie_generation_max=None, pcie_width_max=None)
    assert bench.verdict(LINK, GPU).outcome is Outcome.FAIL
    bench.limits()
    assert bench.said(LINK, GPU) == (Outcome.NOT_MEASURED, "NVML does not report the link's best generation")


@pytest.mark.parametrize("field", ["pcie_generation", "pcie_width"])
def test_a_link_that_is_not_read_or_that_there_is_not_is_no_measurement(bench, field):
    bench.samples(GPU, **{field: None})
    assert bench.verdict(LINK, GPU).outcome is Outcome.NOT_MEASURED
    bench.samples(GPU, **{field: 33})
    verdict = bench.verdict(LINK, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert "which no link has" in verdict.detail
    bench.samples(GPU, pcie_generation=5, pcie_width=16)
    bench.gpu(GPU, **{f"{field}_max": 0})
    assert bench.said(LINK, GPU)[1].startswith("NVML does not report the link's best ")


def test_a_link_that_was_not_read_or_misread_for_a_while_says_so(bench):
    bench.limits(sample_coverage_share=0.5)
    bench.samples(GPU, 49.95, 60.05, pcie_width=None)
    assert "no PCIe width was read for 10.2 s" in bench.verdict(LINK, GPU).detail
    bench.samples(GPU, pcie_width=16)
    bench.samples(GPU, 50, pcie_width=33)
    assert bench.verdict(LINK, GPU).detail == "sustained: the PCIe width reads 16 to 33, which no link has"
    without_link(bench, "pcie")
    bench.samples(GPU, pcie_generation=None, pcie_width=None, pcie_replays=None)
    assert bench.verdict(LINK, GPU).outcome is Outcome.NOT_APPLICABLE


# Replays


# Of DCGM, a minute and lane: 0.48 at Gen3, 0.96 at Gen4, 1.92 at Gen5, 3.84 at Gen6; by the same rule before.
@pytest.mark.parametrize(
    ("generation", "width", "allowed"),
    [(5, 16, 30.7), (4, 16, 15.4), (3, 16, 7.68), (3, 1, 0.48), (6, 16, 61.4), (2, 16, 4.8), (1, 4, 0.6)],
)
def test_replays_are_allowed_by_generation_and_lane(bench, generation, width, allowed):
    bench.gpu(GPU, pcie_generation_max=generation, pcie_width_max=width)
    bench.samples(GPU, 5, pcie_generation=generation, pcie_width=width)
    for replays in (0, 1, 5, 8, 9, 17, 18, 35, 36, 71, 72):
        bench.counters(GPU, "after", pcie_replays=2 + replays)  # 2 before, 69.5 s earlier
        warns = replays * 60 / 69.5 > allowed
        assert bench.verdict(LINK, GPU).outcome is (Outcome.WARN if warns else Outcome.PASS)


def test_a_warning_says_how_many_and_what_to_do(bench):
    bench.counters(GPU, "after", pcie_replays=697)
    verdict = bench.verdict(LINK, GPU)
    assert verdict.detail == (
        "Gen5 x16, but 600 replays a minute, over 30.7, which is 1e-12 of the bits that such a link can "
        "carry (hwprofiles/defaults.toml)"
    )
    assert verdict.remedy.startswith("clean the contacts")


def test_a_few_replays_in_a_short_run_are_no_rate(bench):
    bench.counters(GPU, "before", t_s=65.0)
    bench.counters(GPU, "after", pcie_replays=10)
    assert bench.verdict(LINK, GPU).outcome is Outcome.PASS


def test_replays_that_were_not_counted_let_nothing_pass(bench):
    bench.counters(GPU, "after", pcie_replays=1)
    assert "went back from 2 to 1" in bench.verdict(LINK, GPU).detail
    bench.counters(GPU, "after", pcie_replays=None)
    assert bench.verdict(LINK, GPU).outcome is Outcome.NOT_MEASURED
    bench.samples(GPU, 41, 44, pcie_width=4)  # which alone would warn
    assert bench.verdict(LINK, GPU).outcome is Outcome.NOT_MEASURED
    bench.samples(GPU, pcie_width=4)
    assert bench.verdict(LINK, GPU).outcome is Outcome.FAIL
    bench.samples(GPU, pcie_width=16)
    bench.drop("counters", GPU)
    assert bench.verdict(LINK, GPU).outcome is Outcome.NOT_MEASURED


def test_a_card_that_cannot_count_replays_is_judged_by_its_link(bench):
    for moment in ("before", "after"):
        bench.counters(GPU, moment, pcie_replays=None)
    assert bench.said(LINK, GPU) == (Outcome.PASS, "Gen5 x16; its replays are not counted")
    without_link(bench, "pcie_replays")
    assert bench.verdict(LINK, GPU).outcome is Outcome.PASS
    bench.limits(pcie_bit_error_rate=None)  # a recording older than the limit
    assert bench.said(LINK, GPU) == (Outcome.PASS, "Gen5 x16")
    bench.rig(nodes=UNKNOWN)
    assert bench.verdict(LINK, GPU).outcome is Outcome.PASS


def test_a_link_that_is_down_in_the_last_part_of_feeding_is_noticed(bench):
    bench.samples(GPU, 108.5, 113, pcie_generation=1)
    verdict = bench.verdict(LINK, GPU)
    assert (verdict.outcome, verdict.from_s) == (Outcome.FAIL, pytest.approx(108.75))


# Always


@SLOW
@given(
    generation=st.integers(1, 6),
    width=st.sampled_from([1, 2, 4, 8, 16]),
    from_s=st.floats(0, 60),
    worse=st.integers(1, 5),
)
def test_a_worse_link_never_passes_where_a_better_one_failed(new_bench, generation, width, from_s, worse):
    bench = new_bench()
    bench.samples(GPU, from_s, pcie_generation=generation, pcie_width=width)
    before = bench.verdict(LINK, GPU)
    bench.samples(GPU, from_s, pcie_generation=max(1, generation - worse))
    after = bench.verdict(LINK, GPU)
    assert not (before.outcome is Outcome.FAIL and after.outcome is not Outcome.FAIL)
    assert after.measured <= before.measured


def test_replays_that_rise_and_fall_back_are_not_known(bench):
    bench.samples(GPU, 40.0, 50.0, pcie_replays=100_000)
    assert "the counter of PCIe replays went back from 100000 to " in bench.verdict(LINK, GPU).detail
