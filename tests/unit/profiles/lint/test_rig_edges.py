"""What is exactly at the edge of fitting is no problem, and what is missing is not taken for a figure."""

from dataclasses import replace

import pytest

from rigproof.profiles.errors import ProfileError
from rigproof.profiles.lint import rig as lint
from rigproof.profiles.lint.rig import lint_all, lint_rig
from rigproof.profiles.tables.sku import Figure
from rigproof.stages.registry import KINDS
from support.rig_profile import H200, LIMITS, RIG, loaded_rig, stage_changes

HEAD = 'name = "lab"\n[[nodes]]\nname = "a"\ncpus = 16\nram_gib = 64\n'
CARD = '[[nodes.gpus]]\nsku = "rtx-3090"\n'
CPU = '[[nodes.gpus]]\nsku = "unknown"\ndevice = "cpu"\n'
TOO_FAST = H200.model_copy(
    update={"steady": H200.steady.model_copy(update={"gemm_bf16_tflops": Figure(value=5000.0)})}
)


def problems_about(loaded, about):
    return [line for line in lint_rig(loaded) if about in line]


# What is linted


def test_without_names_every_rig_and_every_card_is_linted(monkeypatch):
    def load_sku(stem, _kinds):
        if stem == "broken":
            raise ProfileError(["broken.toml: no table"])
        return TOO_FAST

    monkeypatch.setattr(lint, "stems", lambda kind: ("lab",) if kind == "rigs" else ("fast", "broken"))
    monkeypatch.setattr(lint, "load_sku", load_sku)
    monkeypatch.setattr(lint, "load_rig", lambda name, _kinds: loaded_rig({"nodes": []}))
    first, fast, *_, broken = lint_all(KINDS)
    assert "no node has a GPU" in first
    assert fast.startswith("hwprofiles/gpus/fast.toml: steady.gemm_bf16_tflops = 5000")
    assert broken == "broken.toml: no table"
    assert not [line for line in lint_all(KINDS, ["lab"]) if "gpus/fast" in line]


def test_the_cards_of_a_rig_are_linted_with_it():
    loaded = replace(loaded_rig(), skus={"h200": TOO_FAST})
    assert problems_about(loaded, "hwprofiles/gpus/h200.toml: steady.gemm_bf16_tflops = 5000")


# Shares and memory


@pytest.mark.parametrize(("workers", "share", "most"), [(4, 0.3, "0.25"), (2, 0.75, "0.5")])
def test_shares_of_a_card_add_up_to_the_whole_at_most(desk, workers, share, most):
    (line,) = lint_rig(desk.load(f"{HEAD}{CARD}workers = {workers}\ngpu_share = {share}\n"))
    assert line.endswith(f"write {most} or less, or fewer workers")
    assert lint_rig(desk.load(f"{HEAD}{CARD}workers = {workers}\ngpu_share = {most}\n")) == []


def of_h200(gib, **limits):
    """A rig of one H200 of 141 GiB, one worker filling so much."""
    gpu = {"sku": "h200", "workers": 1, "vram_gib_per_worker": gib}
    node = {"name": "pc1", "cpus": 8, "ram_gib": 64, "gpus": [gpu]}
    return loaded_rig(
        {"limits": LIMITS | limits, "nodes": [node], **stage_changes("sustained", combined_floor_tflops=None)}
    )


@pytest.mark.parametrize(("headroom", "most"), [(0.5, 140.1), (None, 140.6)])
def test_all_but_headroom_and_contexts_may_be_filled(headroom, most):
    assert not problems_about(of_h200(most, headroom_gib=headroom), "do not fit")
    assert problems_about(of_h200(most + 0.1, headroom_gib=headroom), "do not fit")


def test_the_cpu_as_the_device_needs_no_context(desk):
    gib = "vram_gib_per_worker = "
    assert not problems_about(desk.load(f"{HEAD}{CPU}{gib}63.5\n"), "do not fit")
    (line,) = problems_about(desk.load(f"{HEAD}{CPU}{gib}63.6\n"), "do not fit")
    assert "64 GiB less 0.5 GiB headroom; write vram_gib_per_worker = 63.5 or less" in line


def test_five_matrices_may_fill_a_workers_memory(desk):
    def of(gib):
        card = f'[[nodes.gpus]]\nsku = "rtx-3090"\nvram_gib_per_worker = {gib}\ngemm_size = 8192\n'
        return problems_about(desk.load(HEAD + card), "five fp32 matrices")

    assert of(1.25) == []
    assert len(of(1.2499)) == 1


def test_the_cpus_own_default_is_named(desk):
    text = f"{HEAD.replace('ram_gib = 64', 'ram_gib = 8')}{CPU}[gpu_defaults]\ncpu_gemm_size = 8192\n"
    (line,) = problems_about(desk.load(text), "five fp32 matrices")
    assert line.startswith("lab.toml: gpu_defaults.cpu_gemm_size = 8192: ")


# CPUs


def test_workers_may_reserve_all_cpus_of_their_node(desk):
    assert lint_rig(desk.load(f"{HEAD}{CARD}workers = 2\ncpus_per_worker = 8\n")) == []


def threads(**cpu):
    return problems_about(loaded_rig({"cpu": RIG["cpu"] | cpu}), "more than all CPUs")


def test_both_kinds_of_threads_may_take_all_cpus():
    assert threads(primary_thread_share=0.7, secondary_thread_share=0.3) == []
    assert threads(primary_thread_share=1.0, secondary_thread_share=0.0) == []


def test_too_many_threads_are_reported_at_the_rigs_primary_share_where_none_is_stated():
    (line, *_) = threads(primary_thread_share=0.9, secondary_thread_share=0.3)
    assert line.startswith("hwprofiles/rigs/two-nodes.toml: cpu.primary_thread_share = 0.9: ")


# Ranges and floors


def test_a_working_range_only_has_to_begin_under_what_is_too_much(desk):
    sound = (
        "[limits]\nworking_temperature_c = [60, 95]\ncore_temperature_c = 90\nworking_power_w = [100, 800]\n"
    )
    assert lint_rig(desk.load(HEAD + CARD + sound)) == []
    begins = (
        "[limits]\nworking_temperature_c = [90, 95]\ncore_temperature_c = 90\nworking_power_w = [350, 800]\n"
    )
    hot, strong = lint_rig(desk.load(HEAD + CARD + begins))
    assert hot.endswith("begins at 90 °C, where the core is too hot; begin under 90")
    assert strong.endswith("begin under 350")


def test_a_speed_up_that_nobody_states_is_reported_at_its_limit():
    loaded = loaded_rig(stage_changes("feeding", reward_speedup_share=0.1))
    (line,) = problems_about(loaded, "no speed-up")
    assert line.split(": ")[1] == "stages.feeding.reward_speedup_share = 0.1"
