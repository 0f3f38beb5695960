from dataclasses import replace

import pytest

from rigproof.records.verdict import Outcome
from support.bench import Bench
from support.rig_profile import H200

GPU, OTHER, NVLINK = "pc1/gpu0", "pc1/gpu1", "health.nvlink"
TWO = [{"name": "pc1", "gpus": [{"sku": "h200"}, {"sku": "h200"}]}]
ALL = (True,) * 18


def two_cards(*, stated: bool = True, **limits) -> Bench:
    """Two H200 in a node, all links of both active; `stated`: their SKU file says how many."""
    bench = Bench({"nodes": TWO})
    for name, value in ({"nvlink_replays": 0, "nvlink_crc_per_s": 100.0} | limits).items():
        updated = bench.loaded.rig.limits.model_copy(update={name: value})
        bench.loaded = replace(bench.loaded, rig=bench.loaded.rig.model_copy(update={"limits": updated}))
        bench.loaded.sources[f"limits.{name}"] = "lab.toml"
    sku = H200.model_copy(update={"nvlinks": 18 if stated else None})
    bench.loaded = replace(bench.loaded, skus=dict(bench.loaded.skus) | {"h200": sku})
    bench.recording.gpus[OTHER] = replace(bench.recording.gpus[GPU], subject=OTHER, uuid="GPU-2")
    bench.recording.counters += [
        replace(one, subject=OTHER) for one in bench.recording.counters if one.subject == GPU
    ]
    for subject in (GPU, OTHER):
        links(bench, ALL, subject)
    return bench


def links(bench, active, subject=GPU, *, at=("before", "after"), **errors):
    """What both readings of a card's links say, or the one `at` a moment; the last link has the errors."""
    counted = {"nvlink_replays": 0, "nvlink_recoveries": 0, "nvlink_crc_errors": 0} | errors
    for moment in at:
        bench.counters(subject, moment, nvlinks=active)
        for name, value in counted.items() if active else ():
            others = [0 if link else None for link in active[:-1]]
            by_link = None if value is None else (*others, value if active[-1] else None)
            bench.counters(subject, moment, **{name: by_link})


def outcome_of(bench):
    verdict = bench.verdict(NVLINK, GPU)
    return verdict.outcome, verdict.measured, verdict.limit


def test_all_links_active_and_without_errors_pass():
    bench = two_cards()
    assert outcome_of(bench) == (Outcome.PASS, 18, 18)
    assert bench.verdict(NVLINK, GPU).limit_source == "hwprofiles/gpus/h200.toml"


@pytest.mark.parametrize(
    ("active", "at", "number", "detail"),
    [
        ((True, False, *ALL[2:]), ("before", "after"), 17, "link 1 down"),
        ((*ALL[:16], False, False), ("after",), 16, "links 16, 17 went down during the run"),
        (ALL[:12], ("before", "after"), 12, "it has no others"),
        ((False,) * 6 + ALL[6:], ("before", "after"), 12, "links 0, 1, 2, 3, … down"),
    ],
)
def test_links_that_are_down_fail_and_are_named(active, at, number, detail):
    bench = two_cards()
    links(bench, active, at=at)
    assert outcome_of(bench) == (Outcome.FAIL, number, 18)
    assert bench.verdict(NVLINK, GPU).detail == detail


@pytest.mark.parametrize(
    ("virtualization", "other", "expected"),
    [
        ("passthrough", 6, Outcome.WARN),
        ("none", 6, Outcome.FAIL),
        ("passthrough", 18, Outcome.FAIL),
    ],
)
def test_a_virtual_machine_may_have_only_the_links_between_its_own_cards(virtualization, other, expected):
    bench = two_cards()
    bench.gpu(GPU, virtualization=virtualization)
    links(bench, (*ALL[:6], *(False,) * 12))
    links(bench, (*ALL[:other], *(False,) * (18 - other)), OTHER)
    assert outcome_of(bench) == (expected, 6, 18)
    remedy = bench.verdict(NVLINK, GPU).remedy
    assert ("`limits.nvlinks = 6`" in remedy) is (expected is Outcome.WARN)


@pytest.mark.parametrize("counter", ["nvlink_replays", "nvlink_recoveries"])
def test_the_links_of_a_virtual_machine_may_have_errors_too(counter):
    bench = two_cards()
    bench.gpu(GPU, virtualization="passthrough")
    few = (*(False,) * 12, *ALL[:6])
    links(bench, few)
    links(bench, few, OTHER)
    assert outcome_of(bench)[0] is Outcome.WARN
    links(bench, few, at=("after",), **{counter: 9})
    assert outcome_of(bench)[0] is Outcome.FAIL
    assert "on link 17 during the run" in bench.verdict(NVLINK, GPU).detail


def test_no_link_at_all_between_two_cards_fails_even_in_a_virtual_machine():
    bench = two_cards()
    bench.gpu(GPU, virtualization="passthrough")
    for subject in (GPU, OTHER):
        links(bench, None, subject)
    assert outcome_of(bench) == (Outcome.FAIL, 0, 18)


def test_a_rig_may_state_how_many_links_there_are():
    bench = two_cards(nvlinks=6)
    links(bench, (*ALL[:6], *(False,) * 12))
    assert outcome_of(bench) == (Outcome.PASS, 6, 6)
    assert bench.verdict(NVLINK, GPU).limit_source == "lab.toml"


def test_a_rig_may_state_that_there_are_none():
    bench = two_cards(nvlinks=0)
    links(bench, None)
    assert outcome_of(bench) == (Outcome.PASS, 0, 0)


def test_a_card_that_is_alone_on_its_node_needs_no_links(bench):
    links(bench, (False,) * 18)
    bench.loaded = replace(
        bench.loaded, skus=dict(bench.loaded.skus) | {"h200": H200.model_copy(update={"nvlinks": 18})}
    )
    assert bench.said(NVLINK, GPU) == (
        Outcome.NOT_APPLICABLE,
        "no other card of this node has NVLinks",
    )


@pytest.mark.parametrize("active", [None, (False,) * 4])
def test_a_bridge_is_optional_where_no_sku_file_states_links(active):
    bench = two_cards(stated=False)
    for subject in (GPU, OTHER):
        links(bench, active, subject)
    assert bench.verdict(NVLINK, GPU).outcome is Outcome.NOT_APPLICABLE


def test_a_bridge_is_expected_where_an_equal_card_has_one():
    bench = two_cards(stated=False)
    links(bench, (True, True, False, False))
    links(bench, (True,) * 4, OTHER)
    assert outcome_of(bench) == (Outcome.FAIL, 2, 4)
    assert bench.verdict(NVLINK, GPU).limit_source == "an equal card of this node"


@pytest.mark.parametrize("counter", ["nvlink_replays", "nvlink_recoveries"])
def test_a_replay_or_recovery_fails_and_names_its_link(counter):
    bench = two_cards()
    links(bench, ALL, **{counter: 2}, at=("after",))
    verdict = bench.verdict(NVLINK, GPU)
    assert (verdict.outcome, verdict.measured, verdict.limit_source) == (Outcome.FAIL, None, "lab.toml")
    assert verdict.detail == f"2 {counter.removeprefix('nvlink_')} on link 17 during the run"


@pytest.mark.parametrize(
    ("errors", "expected"), [(1, Outcome.WARN), (6949, Outcome.WARN), (6950, Outcome.FAIL)]
)
def test_crc_errors_warn_until_they_are_many(errors, expected):
    bench = two_cards()  # 69.5 s between the two readings
    links(bench, ALL, nvlink_crc_errors=errors, at=("after",))
    assert bench.verdict(NVLINK, GPU).outcome is expected


@pytest.mark.parametrize(("errors", "expected"), [(99, Outcome.WARN), (100, Outcome.FAIL)])
def test_crc_errors_of_less_than_a_second_are_those_of_one(errors, expected):
    bench = two_cards()
    links(bench, ALL, nvlink_crc_errors=errors, at=("after",))
    (after,) = (one for one in bench.recording.counters if (one.subject, one.moment) == (GPU, "after"))
    bench.counters(GPU, "before", t_s=after.t_s - 0.5)
    assert bench.verdict(NVLINK, GPU).outcome is expected


def test_errors_from_before_the_run_do_not_count():
    bench = two_cards()
    links(bench, ALL, nvlink_replays=7, nvlink_recoveries=7, nvlink_crc_errors=7)
    assert bench.verdict(NVLINK, GPU).outcome is Outcome.PASS


@pytest.mark.parametrize("counter", ["nvlink_replays", "nvlink_recoveries", "nvlink_crc_errors"])
@pytest.mark.parametrize("after", [None, 3])
def test_a_counter_that_was_lost_or_reset_is_no_measurement(counter, after):
    bench = two_cards()
    links(bench, ALL, **{counter: 5}, at=("before",))
    links(bench, ALL, **{counter: after}, at=("after",))
    assert bench.verdict(NVLINK, GPU).outcome is Outcome.NOT_MEASURED


def test_errors_that_the_driver_does_not_count_are_not_judged():
    bench = two_cards()
    none = dict.fromkeys(("nvlink_replays", "nvlink_recoveries", "nvlink_crc_errors"))
    links(bench, ALL, **none)
    assert bench.verdict(NVLINK, GPU).outcome is Outcome.PASS


@pytest.mark.parametrize("moment", ["before", "after"])
def test_links_that_were_read_at_one_end_only_are_no_measurement(moment):
    bench = two_cards()
    bench.counters(GPU, moment, nvlinks=None)
    assert bench.verdict(NVLINK, GPU).outcome is Outcome.NOT_MEASURED
    bench = two_cards()
    bench.recording.counters = [one for one in bench.recording.counters if one.moment != moment]
    assert bench.verdict(NVLINK, GPU).outcome is Outcome.NOT_MEASURED


def test_a_query_that_failed_does_not_excuse_missing_links():
    bench = two_cards(stated=False)
    links(bench, None)
    bench.event("nvml_error", GPU, "Unknown Error", query="nvmlDeviceGetNvLinkState", code=999)
    bench.counters(OTHER, "after", nvlinks=None)
    assert bench.verdict(NVLINK, GPU).outcome is Outcome.NOT_MEASURED
