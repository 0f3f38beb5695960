"""How fast a card's memory has to be: by its model's figures, by what is printed, or by its peers."""

from copy import copy
from dataclasses import replace

import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.history.champion_keeping import gpu_figures
from rigproof.judging.judge import judge
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import load_rig, over_defaults
from rigproof.records.measurements import Round
from rigproof.records.verdict import Outcome
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.bandwidth.criteria import bandwidth, tables
from rigproof.stages.registry import KINDS

GPU, OTHER = "localhost/gpu0", "localhost/gpu1"


@pytest.fixture(scope="module")
def loaded():
    return load_rig("h200-x2", KINDS)


@pytest.fixture(scope="module")
def simulated(loaded):
    return simulated_recording(loaded, "standard")


@pytest.fixture
def recording(simulated):
    """To be changed: its lists and tables are the test's own."""
    return copy(simulated)


def changed(recording, operation, subject=GPU, **changes):
    """The recording with other rounds of one operation: numbers are factors."""

    def other(one):
        if (one.label("operation"), one.subject) != (operation, subject):
            return one
        factors = {name: getattr(one, name) * by for name, by in changes.items() if name == "work"}
        return replace(one, **(changes | factors))

    recording.put(Round, [other(one) for one in recording.rounds])
    return recording


def verdict(recording, loaded, subject=GPU, planned_by=None, champions=None):
    return judge(bandwidth, subject, Evidence(recording, loaded, champions, planned_by))


def alone(recording):
    """Without the other card of its model, whose rates would be a floor."""
    recording.gpus[OTHER] = replace(recording.gpus[OTHER], name="another model")
    return recording


def test_a_healthy_card_passes_by_its_model_s_measured_figure(recording, loaded):
    found = verdict(alone(recording), loaded)
    assert found.outcome is Outcome.PASS
    assert found.limit < found.measured
    assert "hwprofiles/gpus/h200-sxm.toml" in found.limit_source


@pytest.mark.parametrize("operation", ["write", "read", "copy", "triad"])
def test_each_operation_that_is_slow_fails_and_is_named(recording, loaded, operation):
    found = verdict(changed(recording, operation, work=0.6), loaded)
    assert found.outcome is Outcome.FAIL
    assert found.detail.startswith(f"{operation}, the others: ")
    assert verdict(recording, loaded, OTHER).outcome is Outcome.PASS


def test_a_model_without_a_measured_figure_has_a_share_of_what_is_printed(recording, loaded):
    sku = loaded.skus["h200-sxm"]
    bare = replace(loaded, skus={"h200-sxm": sku.model_copy(update={"steady": type(sku.steady)()})})
    found = verdict(alone(recording), bare, planned_by=loaded)
    assert (found.outcome, found.limit) == (Outcome.PASS, 0.75 * 4800)
    assert found.limit_source == "0.75 of the printed 4800 GB/s; hwprofiles/gpus/h200-sxm.toml"
    assert verdict(changed(recording, "copy", work=0.8), bare, planned_by=loaded).outcome is Outcome.FAIL


def test_a_card_that_no_file_describes_is_held_against_the_others_of_its_model(recording, loaded):
    unknown = replace(loaded, skus={})
    found = verdict(recording, unknown, planned_by=loaded)
    assert found.outcome is Outcome.PASS
    assert "0.94 of the other one of NVIDIA H200" in found.limit_source
    assert verdict(changed(recording, "copy", work=0.9), unknown, planned_by=loaded).outcome is Outcome.FAIL


@pytest.mark.parametrize("operation", ["write", "read", "copy", "triad"])
def test_a_card_of_a_known_model_is_held_against_its_twin(recording, loaded, operation):
    found = verdict(changed(recording, operation, work=0.93), loaded)
    assert found.outcome is Outcome.FAIL
    assert found.detail.startswith(f"{operation}, the others: ")
    assert "0.94 of the other one of NVIDIA H200" in found.limit_source
    assert verdict(recording, loaded, OTHER).outcome is Outcome.PASS


@pytest.mark.parametrize("other", [{"ecc_enabled": False}, {"memory_total_mib": 80 * 1024}])
def test_a_card_with_other_memory_or_without_ecc_is_no_twin(recording, loaded, other):
    recording.gpus[OTHER] = replace(recording.gpus[OTHER], **other)
    assert verdict(changed(recording, "copy", work=0.93), loaded).outcome is Outcome.PASS


def test_a_twin_under_a_higher_power_limit_is_scaled_down(recording, loaded):
    recording.gpus[GPU] = replace(recording.gpus[GPU], power_limit_w=665.0)
    found = verdict(changed(recording, "copy", work=0.9), loaded)
    assert found.outcome is Outcome.PASS  # 0.94 of 665 / 700
    assert verdict(changed(recording, "copy", work=0.98), loaded).outcome is Outcome.FAIL  # 0.88 of it


def test_the_only_card_of_an_unknown_model_has_nothing_to_be_judged_by(recording, loaded):
    found = verdict(alone(recording), replace(loaded, skus={}), planned_by=loaded)
    assert found.outcome is Outcome.NO_LIMIT
    assert "no figure is known for this model" in found.detail


def test_an_operation_without_verified_rounds_is_not_measured(recording, loaded):
    found = verdict(changed(recording, "triad", verified=False), loaded)
    assert (found.outcome, found.detail) == (Outcome.NOT_MEASURED, "0 verified rounds of triad")


def test_more_than_the_memory_can_do_is_not_measured(recording, loaded):
    found = verdict(changed(recording, "read", work=1.5), loaded)
    assert found.outcome is Outcome.NOT_MEASURED
    assert "a measurement error" in found.detail


def test_rounds_in_another_unit_are_not_counted(recording, loaded):
    found = verdict(changed(recording, "copy", unit="TFLOP"), loaded)
    assert found.outcome is Outcome.NOT_MEASURED


# Champions


def champions_of(recording, loaded, **factors):
    """What a run keeps of one card as its champions; `factors`, by operation, make them better."""
    kept = {}
    for figure in gpu_figures(recording, [verdict(recording, loaded)])[recording.gpus[GPU].uuid]:
        factor = factors.get(figure.labels["operation"], 1.0)
        kept[figure.figure] = (replace(figure.rate(), value=factor * figure.value),)
    return {recording.gpus[GPU].uuid: kept}


def test_a_run_keeps_a_champion_of_each_operation(recording, loaded):
    figures = gpu_figures(recording, [verdict(recording, loaded)])[recording.gpus[GPU].uuid]
    assert [(one.title, one.unit, one.workers) for one in figures] == [
        (f"memory.bandwidth {operation}", "GB/s", 1) for operation in ("write", "read", "copy", "triad")
    ]
    assert all(one.labels["size"] == 16384 for one in figures)
    (rounds,) = (one.value for one in figures if one.labels["operation"] == "triad")
    assert rounds == pytest.approx(4365, rel=0.01)


@pytest.mark.parametrize("operation", ["write", "read", "copy", "triad"])
def test_an_operation_that_lost_a_tenth_fails_against_its_champion(recording, loaded, operation):
    unknown = replace(loaded, skus={})  # whose file knows nothing of the operation
    champions = champions_of(recording, loaded)
    assert verdict(recording, unknown, GPU, loaded, champions).outcome is Outcome.PASS
    slower = changed(recording, operation, work=0.9)
    found = verdict(slower, unknown, GPU, loaded, champions)
    assert found.outcome is Outcome.FAIL
    assert found.detail.startswith(f"{operation}, the others: ")
    kept = champions[recording.gpus[GPU].uuid][f"memory_{operation}_gbps"][0].value
    assert found.limit == pytest.approx(0.95 * kept)
    assert found.limit_source.startswith("this GPU's champion (run ")


def test_slow_vram_that_its_model_would_allow_fails_against_the_cards_own_champion(recording, loaded):
    champions = champions_of(recording, loaded)
    slow = alone(simulated_recording(loaded, "standard", [f"vram-slow@{GPU}:by=6%"]))
    assert verdict(slow, loaded).outcome is Outcome.PASS
    found = verdict(slow, loaded, champions=champions)
    assert found.outcome is Outcome.FAIL
    assert "this GPU's champion" in found.limit_source
    assert verdict(slow, loaded, OTHER, champions=champions).outcome is Outcome.PASS


def test_a_champion_that_no_memory_can_reach_is_no_floor(recording, loaded):
    fast, impossible = (champions_of(recording, loaded, read=factor) for factor in (1.06, 1.4))
    assert verdict(recording, loaded, champions=fast).outcome is Outcome.FAIL
    assert verdict(recording, loaded, champions=impossible).outcome is Outcome.PASS


def test_a_champion_of_other_buffers_is_no_floor(recording, loaded):
    champions = champions_of(recording, loaded, read=1.06)
    for uuid, kept in champions.items():
        champions[uuid] = {
            name: tuple(replace(one, labels=dict(one.labels) | {"size": 8192}) for one in rates)
            for name, rates in kept.items()
        }
    assert verdict(recording, loaded, champions=champions).outcome is Outcome.PASS


def test_a_rigs_own_floor_of_an_operation_stands_alone(loaded):
    stated = rig_with_floor(loaded, memory_read_gbps=4600.0)
    found = verdict(simulated_recording(stated, "standard"), stated)
    assert (found.outcome, found.limit) == (Outcome.FAIL, 4600.0)
    assert found.detail.startswith("read, the others: write ")


def test_an_operation_may_be_as_slow_as_its_floor(recording, loaded):
    rates = verdict(recording, loaded).rates
    read = next(one.value for one in rates if one.labels["operation"] == "read")
    for floor, outcome in ((read, Outcome.PASS), (read * 1.001, Outcome.FAIL)):
        stated = rig_with_floor(loaded, memory_read_gbps=floor)
        assert verdict(recording, stated, planned_by=loaded).outcome is outcome


def rig_with_floor(loaded, **floors):
    (node,) = loaded.rig.nodes
    gpu = node.gpus[0]
    own = gpu.model_copy(update={"floors": gpu.floors.model_copy(update=floors)})
    node = node.model_copy(update={"gpus": (own, *node.gpus[1:])})
    return replace(loaded, rig=loaded.rig.model_copy(update={"nodes": (node,)}))


def test_the_table_has_a_row_for_each_card_and_a_dash_for_what_is_missing(recording):
    changed(recording, "write", verified=False)
    (table,) = tables(recording)
    assert [row[:2] for row in table.rows] == [(GPU, "–"), (OTHER, table.rows[1][1])]
    assert float(table.rows[1][1]) > 4000


def test_buffers_that_fit_a_cache_are_refused():
    tables = {"name": "lab", "stages": {"bandwidth": {"buffer_gib": 0.1}}, "nodes": [{"name": "a"}]}
    problems = lint_rig(over_defaults(tables, "lab.toml", KINDS))
    assert any(one.startswith("lab.toml: stages.bandwidth.buffer_gib = 0.1: ") for one in problems), problems
