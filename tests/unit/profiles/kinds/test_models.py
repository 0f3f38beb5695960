"""What a stage declares is in the tables of rigs and SKUs, and adding one edits none of them."""

import json
import pickle
from dataclasses import replace

import pytest

from rigproof.criteria.criterion import Limit
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.floors import Measured, floor_of
from rigproof.profiles.kinds.figures import FigureKind
from rigproof.profiles.kinds.models import models_of, partial
from rigproof.profiles.kinds.stages import StageFacts, StageKinds
from rigproof.profiles.lint.sku import lint_sku
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.loading.structure import structural_problems
from rigproof.profiles.planning.floor_basis import Conditions
from rigproof.profiles.tables.base import Share
from rigproof.profiles.tables.levels import SomeLevels
from rigproof.profiles.tables.rig import Timeouts
from rigproof.profiles.tables.stages import TimedSettings
from rigproof.records.champions import ChampionRate
from rigproof.stages.registry import KINDS
from support.bench import Bench
from support.rig_profile import H200, MODELS, RIG, STAGES, loaded_rig

GPU = "pc1/gpu0"


class CopyingSettings(TimedSettings):
    """Copies within the card's memory."""

    length_s: SomeLevels
    least_share: Share


def bandwidth(sku, _figure):
    return "memory_bandwidth_gbps", sku.memory_bandwidth_gbps


COPY = FigureKind(
    "copy_gbps", "copies", unit="GB/s", peak=bandwidth, precision="bytes", scaled=False, architecture=False
)
ALL = StageKinds((*KINDS, StageFacts("copying", "bursts", CopyingSettings, (COPY,))))
HERE = Conditions("bytes", 1024, 1, "2.11.0+cu130")


def sku_with(**figure):
    known = H200.model_dump(exclude_none=True)
    known["steady"] |= {"copy_gbps": figure}
    return models_of(ALL).sku.model_validate(known)


def device_with(sku, champions=None, **gpu):
    nodes = [RIG["nodes"][0] | {"gpus": [{"sku": "h200", "workers": 2, **gpu}]}]
    stages = STAGES | {"copying": {"length_s": {}, "least_share": 0.5}}
    rig = models_of(ALL).rig.model_validate(RIG | {"nodes": nodes, "stages": stages})
    loaded = replace(loaded_rig(), rig=rig, skus={"h200": sku}, kinds=ALL)
    return Evidence(Bench().recording, loaded, champions or {}).device(GPU)


def test_a_new_stage_has_its_table_its_floor_and_its_figure_in_the_files():
    tables = {"name": "lab", "stages": {"copying": {"least_share": 0.4}}}
    assert structural_problems(models_of(ALL).rig_file, tables, "lab.toml") == []
    (line,) = structural_problems(MODELS.rig_file, tables, "lab.toml")
    known = ", ".join(sorted(KINDS.names))
    assert line.startswith(f'lab.toml: stages.copying = {{"least_share": 0.4}}: unknown key; known: {known}')
    assert models_of(ALL).all["Floors"](copy_gbps=4000).copy_gbps == 4000


def test_a_figure_that_no_stage_declares_is_refused_with_the_nearest_name():
    known = H200.model_dump(exclude_none=True)
    known["steady"]["gemm_bf61_tflops"] = {"value": 3}
    (line,) = structural_problems(MODELS.sku, known, "hwprofiles/gpus/h200.toml")
    assert line.startswith("hwprofiles/gpus/h200.toml: steady.gemm_bf61_tflops = ")
    assert "unknown key; did you mean" in line
    assert '"gemm_bf16_tflops"' in line


def test_the_floor_of_a_new_figure_follows_the_rule_of_all():
    alike = {"size": 1024, "workers": 1, "torch": "2.11"}
    device = device_with(sku_with(value=4000, cards=3, **alike))
    done = Measured(COPY, HERE, {"size": 1024})
    found = floor_of(device, done)
    assert isinstance(found, Limit)
    assert found.value == pytest.approx(0.92 * 4000)
    assert found.source.startswith("0.92 of 4000 GB/s, measured on 3 cards; hwprofiles/gpus/h200.toml")
    printed = floor_of(device_with(sku_with(value=4000)), done)
    assert printed.value == pytest.approx(0.75 * 4000)


def test_a_rigs_own_floor_of_a_new_figure_stands_alone_and_a_champion_beside_the_file():
    done = Measured(COPY, HERE, {"size": 1024})
    own = floor_of(device_with(sku_with(value=4000), floors={"copy_gbps": 4400}), done)
    assert own.value == 4400
    uuid = f"GPU-{GPU}"
    best = ChampionRate(4500.0, "GB/s", 700.0, {"size": 1024}, 1, "run-1")
    for limit_w in (700.0, 300.0):  # it does not follow the power limit
        champions = {uuid: {"copy_gbps": (replace(best, power_limit_w=limit_w),)}}
        kept = floor_of(device_with(sku_with(value=4000), champions), done)
        assert kept.value == pytest.approx(0.95 * 4500)


def test_a_new_figure_is_held_against_the_peak_that_it_names():
    (line,) = lint_sku("x.toml", sku_with(value=300), ALL)
    assert line.startswith("x.toml: steady.copy_gbps = 300: 6.2% of the peak of 4800 GB/s")


def test_a_run_that_did_not_know_a_stage_yet_is_restored_without_it():
    dumped = json.loads(json.dumps(loaded_rig().dump()))
    back = LoadedRig.restore(dumped, ALL)
    assert back.kinds.names == KINDS.names
    assert back == loaded_rig()


def test_a_rig_goes_to_another_process_as_it_is():
    loaded = load_rig("dual-3090-3070-fallback", KINDS)
    back = pickle.loads(pickle.dumps(loaded))
    assert back == loaded
    assert back.devices() == loaded.devices()
    assert back.devices()[0].stages["training"] != back.stages["training"]


def test_what_a_file_may_say_of_a_table_has_the_bounds_of_the_whole():
    assert partial(Timeouts)().model_dump(exclude_none=True) == {}
    (line,) = structural_problems(partial(Timeouts), {"stall_s": 0}, "lab.toml")
    assert line.startswith("lab.toml: stall_s = 0: too small")


@pytest.mark.parametrize(
    ("own", "key", "table"),
    [
        ({"stages": {"sharing": {"length_s": {"quick": 3}}}}, "stages.sharing.length_s", "stages.sharing"),
        ({"limits": {"driver_minimum": "550"}}, "limits.driver_minimum", "limits"),
        ({"limits": {"driver_mixed": True}}, "limits.driver_mixed", "limits"),
    ],
)
def test_a_gpu_states_everything_but_what_holds_for_the_whole_rig(own, key, table):
    tables = {"name": "lab", "nodes": [{"name": "a", "gpus": [{"sku": "unknown", **own}]}]}
    (line,) = structural_problems(MODELS.rig_file, tables, "lab.toml")
    assert line.startswith(f"lab.toml: nodes[0].gpus[0].{key} = ")
    assert line.endswith(f": no single GPU can have its own; write it in [{table}]")


def test_a_misspelt_key_of_a_gpu_is_told_the_right_one():
    tables = {"name": "lab", "nodes": [{"name": "a", "gpus": [{"sku": "unknown", "limits": {"oom": 1}}]}]}
    (line,) = structural_problems(MODELS.rig_file, tables, "lab.toml")
    assert line == 'lab.toml: nodes[0].gpus[0].limits.oom = 1: unknown key; did you mean "ooms"?'
