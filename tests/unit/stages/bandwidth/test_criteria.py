"""How fast a card's memory has to be: by its model's figures, by what is printed, or by its peers."""

from dataclasses import replace

import pytest

from rigproof.history.champion_keeping import gpu_figures
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import over_defaults
from rigproof.records.verdict import Outcome
from rigproof.stages.bandwidth.criteria import tables
from rigproof.stages.bandwidth.stage import FIGURES
from rigproof.stages.registry import KINDS
from support.simulated_bench import SimulatedBench, two_h200

NAME, GPU, OTHER = "memory.bandwidth", "localhost/gpu0", "localhost/gpu1"
PASS, FAIL, NOT_MEASURED = Outcome.PASS, Outcome.FAIL, Outcome.NOT_MEASURED


@pytest.fixture(scope="module")
def simulated():
    return two_h200("standard")


@pytest.fixture
def bench(simulated):
    return SimulatedBench(*simulated, "bandwidth")


def alone(bench):
    """Without the other card of its model, whose rates would be a floor."""
    bench.gpu(OTHER, name="another model")


def without_figures(bench):
    skus = bench.loaded.skus.items()
    bare = {stem: sku.model_copy(update={"steady": type(sku.steady)()}) for stem, sku in skus}
    bench.loaded = replace(bench.loaded, skus=bare)


def test_a_healthy_card_passes_by_its_model_s_measured_figure(bench):
    alone(bench)
    found = bench.verdict(NAME, GPU)
    assert found.outcome is PASS
    assert found.limit < found.measured
    assert "hwprofiles/gpus/h200-sxm.toml" in found.limit_source


def test_a_model_without_a_measured_figure_has_a_share_of_what_is_printed(bench):
    alone(bench)
    without_figures(bench)
    found = bench.verdict(NAME, GPU)
    assert (found.outcome, found.limit) == (PASS, 0.75 * 4800)
    assert found.limit_source == "0.75 of the printed 4800 GB/s; hwprofiles/gpus/h200-sxm.toml"
    bench.slower(GPU, 0.8, operation="copy")
    assert bench.verdict(NAME, GPU).outcome is FAIL


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("operation", FIGURES)
def test_a_card_is_held_against_its_twin_whether_a_file_describes_it_or_not(bench, operation, known):
    if not known:
        bench.unknown()
    bench.slower(GPU, 0.93, operation=operation)
    found = bench.verdict(NAME, GPU)
    assert found.outcome is FAIL
    assert found.detail.startswith(f"{operation}, the others: ")
    assert "0.94 of the other one of NVIDIA H200" in found.limit_source
    assert bench.verdict(NAME, OTHER).outcome is PASS


@pytest.mark.parametrize("other", [{"ecc_enabled": False}, {"memory_total_mib": 80 * 1024}])
def test_a_card_with_other_memory_or_without_ecc_is_no_twin(bench, other):
    bench.gpu(OTHER, **other)
    bench.slower(GPU, 0.93, operation="copy")
    assert bench.verdict(NAME, GPU).outcome is PASS


def test_a_twin_under_a_higher_power_limit_is_scaled_down(bench):
    bench.gpu(GPU, power_limit_w=665.0)
    bench.slower(GPU, 0.9, operation="copy")  # 0.94 of 665 / 700
    assert bench.verdict(NAME, GPU).outcome is PASS
    bench.slower(GPU, 0.98, operation="copy")
    assert bench.verdict(NAME, GPU).outcome is FAIL


def test_the_only_card_of_an_unknown_model_has_nothing_to_be_judged_by(bench):
    alone(bench)
    bench.unknown()
    found = bench.verdict(NAME, GPU)
    assert found.outcome is Outcome.NO_LIMIT
    assert "no figure is known for this model" in found.detail


def test_an_operation_without_verified_rounds_is_not_measured(bench):
    bench.give(GPU, {"operation": "triad"}, verified=False)
    found = bench.verdict(NAME, GPU)
    assert (found.outcome, found.detail) == (NOT_MEASURED, "0 verified rounds of triad")


def test_more_than_the_memory_can_do_is_not_measured(bench):
    bench.slower(GPU, 1.5, operation="read")
    found = bench.verdict(NAME, GPU)
    assert found.outcome is NOT_MEASURED
    assert "a measurement error" in found.detail


def test_rounds_in_another_unit_are_not_counted(bench):
    bench.give(GPU, {"operation": "copy"}, unit="TFLOP")
    assert bench.verdict(NAME, GPU).outcome is NOT_MEASURED


# Champions


def champions_of(bench, changed=lambda one: one, **factors):
    """What a run keeps of one card as its champions; `factors`, by operation, make them better."""
    card = bench.recording.gpus[GPU].uuid
    kept = {}
    for figure in gpu_figures(bench.recording, [bench.verdict(NAME, GPU)])[card]:
        factor = factors.get(figure.labels["operation"], 1.0)
        kept[figure.figure] = (changed(replace(figure.rate(), value=factor * figure.value)),)
    return {card: kept}


def test_a_run_keeps_a_champion_of_each_operation(bench):
    figures = gpu_figures(bench.recording, [bench.verdict(NAME, GPU)])[bench.recording.gpus[GPU].uuid]
    assert [(one.title, one.unit, one.workers) for one in figures] == [
        (f"memory.bandwidth {operation}", "GB/s", 1) for operation in FIGURES
    ]
    assert all(one.labels["size"] == 16384 for one in figures)
    (rate,) = (one.value for one in figures if one.labels["operation"] == "triad")
    assert rate == pytest.approx(4365, rel=0.01)


@pytest.mark.parametrize("operation", FIGURES)
def test_an_operation_that_lost_a_tenth_fails_against_its_champion(bench, operation):
    bench.champions = champions_of(bench)
    bench.unknown()  # no file knows anything of the operation
    assert bench.verdict(NAME, GPU).outcome is PASS
    bench.slower(GPU, 0.9, operation=operation)
    found = bench.verdict(NAME, GPU)
    assert found.outcome is FAIL
    assert found.detail.startswith(f"{operation}, the others: ")
    (best,) = bench.champions[bench.recording.gpus[GPU].uuid][f"memory_{operation}_gbps"]
    assert found.limit == pytest.approx(0.95 * best.value)
    assert found.limit_source.startswith("this GPU's champion (run ")


def test_a_champion_that_no_memory_can_reach_is_no_floor(bench):
    for factor, outcome in ((1.06, FAIL), (1.4, PASS)):
        bench.champions = None
        bench.champions = champions_of(bench, read=factor)
        assert bench.verdict(NAME, GPU).outcome is outcome


def test_a_champion_of_other_buffers_is_no_floor(bench):
    bench.champions = champions_of(
        bench, lambda one: replace(one, labels=dict(one.labels) | {"size": 8192}), read=1.06
    )
    assert bench.verdict(NAME, GPU).outcome is PASS


def test_a_rigs_own_floor_of_an_operation_stands_alone_and_may_be_reached(bench):
    read = next(one.value for one in bench.verdict(NAME, GPU).rates if one.labels["operation"] == "read")
    for floor, outcome in ((read, PASS), (read * 1.001, FAIL)):
        bench.floors(memory_read_gbps=floor)
        assert bench.verdict(NAME, GPU).outcome is outcome
    found = bench.verdict(NAME, GPU)
    assert found.limit == read * 1.001
    assert found.detail.startswith("read, the others: write ")


def test_the_table_has_a_row_for_each_card_and_a_dash_for_what_is_missing(bench):
    bench.give(GPU, {"operation": "write"}, verified=False)
    (table,) = tables(bench.recording)
    assert [row[:2] for row in table.rows] == [(GPU, "–"), (OTHER, table.rows[1][1])]
    assert float(table.rows[1][1]) > 4000


def test_buffers_that_fit_a_cache_are_refused():
    tables = {"name": "lab", "stages": {"bandwidth": {"buffer_gib": 0.1}}, "nodes": [{"name": "a"}]}
    problems = lint_rig(over_defaults(tables, "lab.toml", KINDS))
    assert any(one.startswith("lab.toml: stages.bandwidth.buffer_gib = 0.1: ") for one in problems), problems
