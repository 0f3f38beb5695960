from collections import defaultdict

import pytest

from rigproof.profiles.loading.load import all_skus, over_defaults
from rigproof.profiles.loading.matching import assign_gpus, match_sku, sku_of
from rigproof.records.identity import GpuIdentity
from rigproof.stages.registry import KINDS

SKUS = all_skus(KINDS)


@pytest.mark.parametrize("stem", SKUS)
def test_each_sku_is_found_by_each_of_its_names_and_its_memory(stem):
    for name in SKUS[stem].nvml_names:
        assert match_sku(name, SKUS, SKUS[stem].memory_gib) == stem


# As nvidia-smi shows them, MiB. A card that lacks a chip of its memory is not the smaller model.
@pytest.mark.parametrize(
    ("name", "memory_mib", "stem"),
    [
        ("NVIDIA GeForce RTX 3060", 12288, "rtx-3060"),
        ("NVIDIA GeForce RTX 3060", 8192, "rtx-3060-8gb"),
        ("NVIDIA GeForce RTX 3060", 12288 * 5 / 6, "rtx-3060"),
        ("NVIDIA GeForce RTX 3080", 10240, "rtx-3080"),
        ("NVIDIA GeForce RTX 3080", 12288, "rtx-3080-12gb"),
        ("NVIDIA GeForce RTX 3080", 10240 * 9 / 10, "rtx-3080"),
        ("NVIDIA GeForce RTX 3080", 12288 * 11 / 12, "rtx-3080-12gb"),
        ("NVIDIA GeForce RTX 3080", 20480, None),  # a rebuilt card, as fast as the smaller one
        ("NVIDIA GeForce RTX 4060 Ti", 8188, "rtx-4060-ti"),
        ("NVIDIA GeForce RTX 4060 Ti", 16380, "rtx-4060-ti-16gb"),
        ("NVIDIA GeForce RTX 5060 Ti", 8151, "rtx-5060-ti"),
        ("NVIDIA GeForce RTX 5060 Ti", 16311, "rtx-5060-ti-16gb"),
        ("NVIDIA GeForce RTX 4090", 49140, "rtx-4090"),
        ("NVIDIA GeForce RTX 3060", 0, "rtx-3060-8gb"),  # not reported
    ],
)
def test_models_of_one_name_are_told_apart_by_their_memory(name, memory_mib, stem):
    assert sku_of(SKUS)(GpuIdentity("box/gpu0", "cuda", "GPU-0", name, 0, float(memory_mib))) == stem


def test_models_of_one_name_have_memories_that_tell_them_apart():
    by_name = defaultdict(list)
    for sku in SKUS.values():
        for name in sku.nvml_names:
            by_name[name.lower()].append(sku.memory_gib)
    for sizes in by_name.values():
        assert len({round(one) for one in sizes}) == len(sizes)


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("nvidia geforce rtx 3090", "rtx-3090"),
        ("GeForce RTX 3090", "rtx-3090"),
        ("  NVIDIA  GeForce RTX 4090 ", "rtx-4090"),
        ("A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"),
        ("NVIDIA H200 141GB HBM3e", "h200-sxm"),
        ("T4", "t4"),
    ],
)
def test_a_name_finds_its_sku(name, stem):
    assert match_sku(name, SKUS) == stem


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA GeForce RTX 3070 Laptop GPU",
        "NVIDIA GeForce RTX 3070 Ti Laptop GPU",
        "NVIDIA GeForce RTX 3080 Ti Laptop GPU",
        "NVIDIA GeForce RTX 4070 Laptop GPU",
        "NVIDIA GeForce RTX 4080 Laptop GPU",
        "NVIDIA GeForce RTX 5070 Ti Laptop GPU",
        "NVIDIA GeForce RTX 5080 Laptop GPU",
        "NVIDIA RTX A4000 Laptop GPU",
        "NVIDIA RTX A5500",
        "NVIDIA RTXA6000-24Q",
        "Quadro RTX 6000",
        "NVIDIA RTX 5000 Ada Generation",
        "NVIDIA RTX PRO 5000 Blackwell",
        "NVIDIA H20-3e",
        "NVIDIA GH200 144G HBM3e",
        "NVIDIA GB300",
        "NVIDIA A10M",
        "NVIDIA A16",
        "NVIDIA A40-48Q",
        "NVIDIA A30",
        "NVIDIA L20",
        "NVIDIA L40G",
        "NVIDIA H800",
        "NVIDIA A800 80GB PCIe",
        "NVIDIA GeForce RTX 3060 Ti Laptop GPU",
        "Tesla V100S-PCIE-32GB",
        "Tesla V100-SXM3-32GB",
        "Tesla P40",
        "NVIDIA GB200",
        "NVIDIA B300 SXM6 AC MIG 1g.34gb",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 5090 D v2",
        "NVIDIA H100 64GB HBM2",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA A100-SXM-64GB",
        "NVIDIA L4 12GB",
        "NVIDIA T400",
        "NVIDIA",
        "",
        "3090",
    ],
)
def test_a_different_model_is_never_taken(name):
    assert match_sku(name, SKUS) is None


def test_the_exact_name_comes_before_a_longer_one():
    longer = SKUS["h200-sxm"].model_copy(update={"nvml_names": ("NVIDIA H200 HBM3",)})
    skus = {"a-longer": longer, "h200-sxm": SKUS["h200-sxm"]}
    assert match_sku("NVIDIA H200", skus) == "h200-sxm"
    assert match_sku("NVIDIA H200 HBM3 141GB", skus) == "a-longer"


def assigned(promised: list[dict], *names: str) -> dict[str, str]:
    """Subject to the name of the card that it gets."""
    loaded = over_defaults({"name": "lab", "nodes": [{"name": "a", "gpus": promised}]}, "lab.toml", KINDS)
    cards = [
        GpuIdentity(f"box/gpu{index}", "cuda", f"GPU-{index}", name, index, 24576.0)
        for index, name in enumerate(names)
    ]
    gpus = assign_gpus(loaded.devices(), cards, sku_of(SKUS))
    return {subject: gpu.name for subject, gpu in gpus.items()}


def test_cards_of_unknown_skus_are_given_in_nvmls_order():
    unknown = {"sku": "unknown"}
    assert assigned([unknown, unknown], "NVIDIA H200", "NVIDIA T1000") == {
        "a/gpu0": "NVIDIA H200",
        "a/gpu1": "NVIDIA T1000",
    }


def test_pinned_cards_come_first_then_stated_skus_then_what_is_left():
    promised = [{"sku": "unknown"}, {"sku": "l4"}, {"sku": "unknown", "uuid": "GPU-1"}]
    assert assigned(promised, "NVIDIA L4", "NVIDIA L4", "NVIDIA H200") == {
        "a/gpu0": "NVIDIA H200",
        "a/gpu1": "NVIDIA L4",
        "a/gpu2": "NVIDIA L4",
    }
    assert assigned([{"sku": "l4", "uuid": "GPU-9"}], "NVIDIA L4") == {}


def test_a_card_that_any_promise_fits_stands_for_the_unknown_one_before_another_model():
    assert assigned([{"sku": "l4"}, {"sku": "unknown"}], "NVIDIA H200") == {"a/gpu1": "NVIDIA H200"}
    both = assigned([{"sku": "l4"}, {"sku": "unknown"}], "NVIDIA H200", "NVIDIA T1000")
    assert both == {"a/gpu0": "NVIDIA T1000", "a/gpu1": "NVIDIA H200"}
