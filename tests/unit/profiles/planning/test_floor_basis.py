"""How tight a floor may be: by cards, size, workers and torch behind the SKU file's figure."""

from dataclasses import replace

import pytest

from rigproof.profiles.planning.floor_basis import Conditions, floor_basis
from rigproof.stages.registry import KINDS
from support.rig_profile import MODELS

ALIKE = {"size": 8192, "workers": 1, "torch": "2.11"}
SKU = MODELS.sku.model_validate(
    {
        "name": "card",
        "nvml_names": ["card"],
        "memory_gib": 24,
        "memory_bandwidth_gbps": 936,
        "power_limit_w": 350,
        "peak_tflops": {"fp16": 100, "bf16": 100},
        "steady": {
            "gemm_bf16_tflops": {"value": 80, "cards": 3, **ALIKE},
            "gemm_tf32_tflops": {"value": 40, "cards": 2, **ALIKE},
            "gemm_fp16_tflops": {"value": 78},
            "sustained_tflops": {"value": 77, "cards": 5, "precision": "bf16", **ALIKE},
            "training_tflops": {"value": 40, "cards": 3, "batch": 16, **ALIKE, "size": 2496},
            "training_speedup": {"value": 8, "cards": 3, "batch": 16, **ALIKE, "size": 2496},
        },
    }
)
HERE = Conditions("bf16", 8192, 1, "2.11.0+cu130")
STEP = Conditions("fp16", 2496, 1, "2.11.0+cu130", 16)


def share(name, here):
    found = floor_basis(SKU, KINDS.figures[name], here, cards_needed=3)
    return (
        None
        if found is None
        else (found.share.name.removeprefix("floor_").removesuffix("_share"), found.reason)
    )


@pytest.mark.parametrize(
    ("name", "here", "expected"),
    [
        ("gemm_bf16_tflops", HERE, ("measured", "measured on 3 cards")),
        ("gemm_bf16_tflops", replace(HERE, torch=None), ("measured", "measured on 3 cards")),
        ("gemm_bf16_tflops", replace(HERE, torch="2.11.4"), ("measured", "measured on 3 cards")),
        (
            "gemm_bf16_tflops",
            replace(HERE, torch="2.1.1"),
            ("similar", "measured on 3 cards (with torch 2.11, here 2.1)"),
        ),
        (
            "gemm_bf16_tflops",
            replace(HERE, torch=""),
            ("similar", "measured on 3 cards (with torch 2.11, here unknown)"),
        ),
        (
            "gemm_bf16_tflops",
            replace(HERE, size=4096),
            ("similar", "measured on 3 cards (at size 8192, here 4096)"),
        ),
        (
            "gemm_bf16_tflops",
            replace(HERE, workers=2),
            ("similar", "measured on 3 cards (with 1 worker, here 2)"),
        ),
        ("gemm_tf32_tflops", HERE, ("similar", "measured on 2 cards")),
        ("gemm_fp16_tflops", HERE, ("printed", "printed or reached by others")),
        ("gemm_fp32_tflops", HERE, None),
        ("sustained_tflops", HERE, ("measured", "measured on 5 cards")),
        (
            "sustained_tflops",
            replace(HERE, precision="tf32"),
            ("similar", "measured on 2 cards (without a filled memory)"),
        ),
        ("sustained_tflops", replace(HERE, precision="fp16"), ("printed", "printed or reached by others")),
        ("sustained_tflops", replace(HERE, precision="fp32"), None),
        ("training_tflops", STEP, ("measured", "measured on 3 cards")),
        (
            "training_tflops",
            replace(STEP, batch=32),
            ("similar", "measured on 3 cards (at batch 16, here 32)"),
        ),
        (
            "training_tflops",
            replace(STEP, size=2560),
            ("similar", "measured on 3 cards (at size 2496, here 2560)"),
        ),
        # A smaller step is slower on every card.
        ("training_tflops", replace(STEP, batch=8), None),
        ("training_tflops", replace(STEP, size=2432), None),
        ("training_speedup", STEP, ("measured", "measured on 3 cards")),
        ("training_speedup", replace(STEP, batch=8), ("printed", "measured with a larger model or batch")),
    ],
)
def test_a_floor_is_as_tight_as_its_evidence(name, here, expected):
    assert share(name, here) == expected


@pytest.mark.parametrize(("workers", "shared"), [(1, False), (2, True)])
def test_several_workers_share_what_one_was_measured_with(workers, shared):
    assert (
        floor_basis(SKU, KINDS.figures["sustained_tflops"], replace(HERE, workers=workers), 3).shares_device
        is shared
    )
