import re
from dataclasses import replace
from itertools import takewhile

import pytest

from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import promised
from rigproof.judging.laps import judge_all
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.planning import make_plan
from rigproof.profiles.tables.limits import Limits
from rigproof.records.verdict import limit_text
from rigproof.report.terminal.plan_text import plan_lines, short_limit
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import KINDS
from support.rig_profile import MODELS


def lines_of(loaded, level="quick", **options):
    options = {"verbose": True} | options
    return list(plan_lines(loaded, make_plan(loaded, level), CATALOGUE, promised, **options))


def block(lines, name):
    """The lines below a criterion's own."""
    start = next(place for place, line in enumerate(lines) if line.startswith(f"  {name} ("))
    end = next(
        (place for place in range(start + 1, len(lines)) if not lines[place].startswith("    ")), len(lines)
    )
    return lines[start:end]


def test_stages_and_workers_are_reported_with_their_lengths():
    lines = lines_of(load_rig("dual-3090-3070", KINDS))
    text = "\n".join(lines)
    assert "  gemm: about " in text
    assert "  sustained: about " in text
    expected_s = make_plan(load_rig("dual-3090-3070", KINDS), "quick").expected_s
    assert f"  expected in all: {expected_s:.0f} s; lengths from hwprofiles/defaults.toml" in lines
    assert any(line.startswith("  pc1/gpu0#0: 1 GPU, ") and "GEMM 5120" in line for line in lines)
    assert any(line.startswith("  pc2/gpu0#0: 1 GPU, ") and "GEMM 4096" in line for line in lines)


@pytest.mark.parametrize("stage", KINDS.names)
def test_a_stage_that_loads_no_device_says_so(stage):
    rig = "dual-3090-3070" if KINDS[stage].crew in ("network", "node_ring") else "h200-x2"
    (line,) = (one for one in lines_of(load_rig(rig, KINDS), "extended") if one.startswith(f"  {stage}: "))
    assert ("while all devices rest; about" in line) == (KINDS[stage].duty == "idle")


def test_the_lengths_of_a_rig_of_cpus_and_of_a_users_own_name_their_files(tmp_path):
    path = tmp_path / "lab.toml"
    gpu = '[[nodes.gpus]]\nsku = "unknown"\ndevice = "cpu"\nmemory_gib = 8\n'
    path.write_text(f'name = "lab"\nstages.disk.length_s.soak = 5\n[[nodes]]\nname = "a"\n{gpu}')
    ends = {
        level: next(line for line in lines_of(load_rig(str(path), KINDS), level) if "; lengths" in line)
        for level in ("quick", "soak")
    }
    defaults = "hwprofiles/defaults-cpu.toml and hwprofiles/defaults.toml"
    assert ends["quick"].endswith(f" s; lengths from {defaults}")
    assert ends["soak"].endswith(f"; lengths from {path} and hwprofiles/defaults.toml")


def test_that_a_stage_may_be_measured_once_more_is_reported():
    assert (
        "  a rate that misses its limit by less than 3 % (hwprofiles/defaults.toml): its stage is "
        "repeated, in extra time"
    ) in lines_of(load_rig("dual-3090-3070", KINDS))


def test_a_soak_says_its_laps_and_what_they_cost():
    lines = lines_of(load_rig("dual-3090-3070", KINDS), "soak")
    assert any(re.fullmatch(r"  3 laps of \d+ min: all stages, again and again", line) for line in lines)
    assert any(re.match("plan: level soak: 3 laps of .*gemm 115 s, ", line) for line in lines)
    assert any(re.match(r"  expected in all: 1 h \d+ min; ", line) for line in lines)
    assert any(line.endswith(": in one lap alone, a warning") for line in lines)


def test_a_short_soak_says_that_it_is_none():
    loaded = load_rig("dual-3090-3070", KINDS)
    short, whole = (
        "\n".join(plan_lines(loaded, make_plan(loaded, "soak", length_s), CATALOGUE, promised))
        for length_s in (1800, None)
    )
    assert 'shorter than a soak (1 h): an accepted run is "ACCEPTED for' in short
    assert "shorter than a soak" not in whole
    assert "cannot be shorter" not in short + whole


def test_a_soak_shorter_than_its_shortest_lap_says_how_short_that_is():
    loaded = load_rig("dual-3090-3070", KINDS)
    lines = list(plan_lines(loaded, make_plan(loaded, "soak", 300.0), CATALOGUE, promised))
    said = "for one continuous load as long as `--duration`, use `--level extended`"
    least = [
        re.fullmatch(rf"  a lap of a soak cannot be shorter than (\d+) min; {said}", one) for one in lines
    ]
    assert [8 <= int(one[1]) <= 12 for one in least if one] == [True]


def test_every_promised_criterion_is_reported_with_its_subjects():
    loaded = load_rig("dual-3090-3070", KINDS)
    text = "\n".join(lines_of(loaded))
    for criterion in CATALOGUE.values():
        subjects = promised(criterion, loaded, make_plan(loaded, "quick").stage_names)
        assert (f"  {criterion.name} ({', '.join(subjects)})" in text) == bool(subjects)


def test_what_this_level_leaves_out_is_reported_with_the_stage_that_it_needs():
    lines = lines_of(load_rig("dual-3090-3070", KINDS))
    left_out = lines[lines.index("not at level quick, for lack of a stage:") + 1 :]
    assert left_out[0] == "  training: precision.speedup, training.step"
    assert "  sharing: scaling.sharing" in left_out


def test_each_limit_names_its_figure_and_its_file():
    lines = lines_of(load_rig("dual-3090-3070", KINDS))
    assert block(lines, "thermal.core_temperature")[-1] == (
        "    pc1/gpu0, pc2/gpu0: limits.core_temperature_c = 80 (hwprofiles/rigs/dual-3090-3070.toml)"
    )
    assert (
        "    rig: stages.sustained.combined_floor_tflops = 78.1 (hwprofiles/rigs/dual-3090-3070.toml)"
        in lines
    )
    assert "    pc1, pc2: responsiveness.p99_ms = 50 (hwprofiles/defaults.toml)" in lines
    bf16 = block(lines, "throughput.gemm_bf16")
    floor = "58.5 TFLOP/s at the default power limit (0.75 of 78 TFLOP/s, printed or reached by others; "
    assert any(f"pc1/gpu0: {floor}hwprofiles/gpus/rtx-3090.toml)" in line for line in bf16)


def test_a_gpu_of_its_own_limit_and_floor_is_told_apart():
    rig = load_rig("dual-3090-3070", KINDS)
    first, second = rig.rig.nodes
    own = first.gpus[0].model_copy(
        update={"limits": Limits(core_temperature_c=70), "floors": first.gpus[0].floors.model_copy(
            update={"gemm_bf16_tflops": 60.0})}
    )  # fmt: skip
    changed = rig.rig.model_copy(update={"nodes": (first.model_copy(update={"gpus": (own,)}), second)})
    lines = lines_of(LoadedRig(changed, rig.skus, rig.sources, rig.file, rig.kinds))
    hot = block(lines, "thermal.core_temperature")
    assert any(line.startswith("    pc1/gpu0: limits.core_temperature_c = 70 ") for line in hot)
    assert any(line.startswith("    pc2/gpu0: limits.core_temperature_c = 80 ") for line in hot)
    assert any(
        line.startswith("    pc1/gpu0: gemm_bf16_tflops = 60 TFLOP/s (")
        for line in block(lines, "throughput.gemm_bf16")
    )


def test_the_floors_of_a_measured_card_say_their_evidence():
    lines = lines_of(load_rig("h200-x2", KINDS), "standard")
    for criterion, expected in {
        "throughput.gemm_bf16": "(0.92 of 652 TFLOP/s, measured on 13 cards; hwprofiles/gpus/h200-sxm.toml)",
        "throughput.sustained": "(0.92 of 668 TFLOP/s, measured on 5 cards; hwprofiles/gpus/h200-sxm.toml)",
        "training.step": "(0.92 of 425 TFLOP/s, measured on 6 cards; hwprofiles/gpus/h200-sxm.toml)",
    }.items():
        assert any(expected in line for line in block(lines, criterion)), criterion


def test_an_unknown_gpu_has_the_floor_of_its_architecture_and_that_is_reported():
    base = load_rig("single-gpu", KINDS)
    gpu = MODELS.all["Gpu"](sku="unknown", memory_gib=8)
    rig = base.rig.model_copy(update={"nodes": (MODELS.all["Node"](name="pc1", cpus=4, gpus=(gpu,)),)})
    lines = lines_of(LoadedRig(rig, {}, base.sources, base.file, base.kinds))
    assert block(lines, "throughput.gemm_bf16")[-1] == (
        "    pc1/gpu0: no figure is known: a share of what its architecture does at the measured clock"
    )


def test_what_a_rig_does_not_promise_is_reported_too():
    base = load_rig("single-gpu", KINDS)
    cpu = MODELS.all["Node"](
        name="pc1", cpus=4, ram_gib=16, gpus=(MODELS.all["Gpu"](sku="cpu", device="cpu"),)
    )
    rig = base.rig.model_copy(update={"nodes": (cpu,)})
    lines = lines_of(LoadedRig(rig, {}, base.sources, base.file, base.kinds))
    assert lines[-1].startswith("not promised by this rig, so not judged: ")
    assert "thermal.core_temperature" in lines[-1]
    assert any("the CPU as the device" in line for line in lines)


def test_a_rig_without_nodes_is_still_a_text():
    base = load_rig("single-gpu", KINDS)
    assert lines_of(replace(base, rig=base.rig.model_copy(update={"nodes": ()})))


def test_a_stage_without_a_time_to_settle_says_none():
    lines = lines_of(load_rig("dual-3090-3070", KINDS), "standard")
    (training,) = [line for line in lines if line.startswith("  training: ")]
    assert training == "  training: about 25 s; measures 25 s, rounds of 0.1 s"
    assert any(
        line.startswith("  gemm: ") and "; settles for at most 12 s, measures" in line for line in lines
    )


def test_a_stage_in_which_crews_take_turns_says_in_how_many_and_how_long_all_of_them_take():
    loaded = load_rig("dual-3090-3070", KINDS)
    plan = make_plan(loaded, "quick")
    sustained = plan.stage("sustained")
    turns = replace(plan, stages=(replace(sustained, expected_s=20.0).in_turns(3),))
    lines = plan_lines(loaded, turns, CATALOGUE, promised, verbose=True)
    (line,) = [one for one in lines if one.startswith("  sustained:")]
    assert line.startswith("  sustained: about 60 s")
    assert line.endswith(", in 3 turns")
    assert not any("turns" in one for one in lines_of(loaded))


def test_a_card_that_none_can_be_compared_with_bit_by_bit_is_reported():
    alone = "the only card of its model, so no other card to compare its products with"
    assert (
        block(lines_of(load_rig("dual-3090-3070", KINDS)), "compute.exact")[-1]
        == f"    pc1/gpu0, pc2/gpu0: {alone}"
    )
    assert alone not in "\n".join(lines_of(load_rig("h200-x2", KINDS)))


def test_of_a_card_that_is_not_known_nothing_is_reported():
    gpu = MODELS.all["Gpu"](sku="unknown", memory_gib=8, gemm_size=2048, vram_share=0.5, cpus_per_worker=1)
    rig = load_rig("h200-x2", KINDS)
    lone = replace(
        rig, rig=rig.rig.model_copy(update={"nodes": (MODELS.all["Node"](name="pc1", cpus=8, gpus=(gpu,)),)})
    )
    assert "the only card" not in "\n".join(lines_of(lone))


@pytest.mark.parametrize("rig", ["h200-x2", "dual-3090-3070"])
@pytest.mark.parametrize("width", [80, 200])
def test_without_v_there_is_a_line_for_each_criterion_that_fits(rig, width):
    loaded = load_rig(rig, KINDS)
    lines = lines_of(loaded, "standard", verbose=False, width=width)
    start = next(place for place, line in enumerate(lines) if line.startswith("criteria: ")) + 1
    criteria = list(takewhile(lambda line: line.startswith("  "), lines[start:]))
    plan = make_plan(loaded, "standard")
    names = [each.name for each in CATALOGUE.values() if promised(each, loaded, plan.stage_names)]
    assert [line.split()[0] for line in criteria] == names
    assert max(map(len, criteria)) <= width
    assert all(line.split()[2:] for line in criteria), "each says something of its limit"


def test_without_v_a_line_has_the_values_of_its_limit():
    loaded = load_rig("dual-3090-3070", KINDS)
    lines = [line.split("  ") for line in lines_of(loaded, verbose=False, width=120)]
    brief = {parts[1]: parts[-1].strip() for parts in lines if len(parts) > 2}
    assert brief["thermal.core_temperature"] == "≤ 80 °C"
    assert brief["thermal.memory_temperature"] == "≤ NVML's MEM_MAX"
    assert brief["throughput.gemm_bf16"] == "≥ pc1/gpu0 58.5, pc2/gpu0 30.5 TFLOP/s"
    assert brief["host.responsiveness"] == "≤ 50 ms"
    assert brief["host.cpu_band"] == "≥ 80 % of 1 s windows with the CPU inside 70–85 %"
    assert brief["memory.no_oom"] == "0 OOMs"


def test_a_range_that_a_rig_states_is_its_limit():
    loaded = load_rig("dual-3090-3070-ultimate", KINDS)
    assert short_limit(CATALOGUE["power.limit"], "pc1/gpu0", loaded) == "350–420 W"


def test_a_nodes_own_limit_is_told_apart(tmp_path):
    path = tmp_path / "lab.toml"
    gpu = '[[nodes.gpus]]\nsku = "h200-sxm"\n'
    own = "stages.disk.free_warn_share = 0.3\n"
    path.write_text(f'name = "lab"\n[[nodes]]\nname = "a"\n{own}{gpu}[[nodes]]\nname = "b"\n{gpu}')
    lines = block(lines_of(load_rig(str(path), KINDS), "extended"), "host.disk")
    assert f"    a: stages.disk.free_warn_share = 0.3 ({path})" in lines
    assert "    b: stages.disk.free_warn_share = 0.1 (hwprofiles/defaults.toml)" in lines


def test_workers_that_are_planned_alike_are_one_line():
    lines = lines_of(load_rig("h200-x2", KINDS))
    (line,) = [line for line in lines if "#0" in line]
    assert line.startswith("  localhost/gpu0#0, localhost/gpu1#0: 1 GPU, 1 CPU, ")
    assert line.endswith(", GEMM 8192 each")


# Whose limits depend on what the run reads, so that the plan has only the rule in words.
READ_IN_THE_RUN = {
    *("cluster.no_timeouts", "inventory.foreign_memory", "distribution.workers_spread"),
    *("activity.undisturbed", "throughput.gemm_fp32", "throughput.gemm_tf32", "memory.bandwidth"),
    *("memory.pattern", "memory.row_remap", "training.step", "training.replay", "compute.exact"),
    *("transfer.h2d", "transfer.d2h", "transfer.both", "transfer.link", "thermal.core_temperature"),
    *("thermal.memory_temperature", "thermal.margin", "power.draw", "power.limit", "power.transient"),
    *("health.xid", "host.memory", "host.disk", "transfer.peer", "lan.bandwidth", "collective.all_reduce"),
    *("collective.all_gather", "collective.reduce_scatter", "collective.broadcast"),
    *("collective.all_to_all", "collective.training"),
}


@pytest.mark.parametrize(("rig", "level"), [("dual-3090-3070", "extended"), ("h200-x2", "standard")])
def test_the_plan_words_each_limit_as_the_verdict_does(rig, level):
    loaded = load_rig(rig, KINDS)
    lines = lines_of(loaded, level)
    verdicts = judge_all(simulated_recording(loaded, level))
    compared = set()
    for verdict in verdicts:
        # What was measured with another torch, the simulated one, has a lower floor.
        other_torch = CATALOGUE[verdict.criterion].floored or verdict.criterion == "precision.speedup"
        if verdict.limit is None or (rig == "h200-x2" and other_torch):
            continue
        planned = short_limit(CATALOGUE[verdict.criterion], verdict.subject, loaded)
        limit = limit_text(verdict.limit, verdict.unit, verdict.direction)
        assert not re.search(r"[a-z0-9]+(_[a-z0-9]+)+ \d", planned), "a key's name with its bare value"
        if re.match(r"[≥≤] \d|\d", planned) and verdict.criterion != "power.draw":
            assert re.match(rf"{re.escape(limit)}\b|{re.escape(limit)}( |$)", planned), verdict
            compared.add(verdict.criterion)
        else:
            assert verdict.criterion in READ_IN_THE_RUN, (
                f"the plan says {planned!r}, the verdict {limit!r}: if the run has to be read to know the "
                "number, add the criterion to READ_IN_THE_RUN"
            )
    assert len(compared) > 15
    assert "feeding.parallel_rewards" in compared
    assert "  feeding.parallel_rewards (" in "\n".join(lines)
    (in_full,) = (line for line in lines if line.startswith("  feeding.parallel_rewards ("))
    assert in_full.endswith("): ≥ 3 ×")
