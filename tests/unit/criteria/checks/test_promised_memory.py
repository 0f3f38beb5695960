"""A card that shows less memory than its model has is not the promised one."""

from dataclasses import replace

import pytest

from rigproof.profiles.auto import AUTO
from rigproof.profiles.loading.load import default_rig
from rigproof.records.verdict import Outcome
from rigproof.stages.registry import KINDS

GPU, PRESENT = "pc1/gpu0", "inventory.gpus_present"


@pytest.mark.parametrize(
    ("found_gib", "expected"),
    [
        (141, Outcome.PASS),
        (132.2, Outcome.PASS),
        (150, Outcome.PASS),
        (129, Outcome.FAIL),
        (70, Outcome.FAIL),
    ],
)
def test_the_model_comes_with_its_memory(bench, found_gib, expected):
    """132.2 of 141 GiB are what ECC of GDDR6 leaves."""
    bench.gpu(GPU, memory_total_mib=found_gib * 1024)
    assert bench.verdict(PRESENT, GPU).outcome is expected


def test_what_is_wrong_and_what_to_do_is_said(bench):
    bench.gpu(GPU, memory_total_mib=70.5 * 1024)
    verdict = bench.verdict(PRESENT, GPU)
    assert verdict.detail == "promised 141 GiB of memory, found 70.5 on NVIDIA H200"
    assert verdict.remedy.endswith("if so much is intended, write memory_gib = 70.50 at nodes.pc1.gpus.0")
    assert verdict.severity == "rma"
    assert verdict.limit_source.startswith("0.92 of the promised memory, ")


@pytest.mark.parametrize(("share", "expected"), [(0.95, Outcome.FAIL), (0.90, Outcome.PASS)])
def test_the_share_is_a_limit_of_the_profile(bench, share, expected):
    bench.limits(gpu_memory_share=share)
    bench.gpu(GPU, memory_total_mib=130.5 * 1024)
    assert bench.verdict(PRESENT, GPU).outcome is expected


def test_the_memory_that_the_profile_states_is_the_promise(bench):
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "h200", "memory_gib": 70}]}])
    bench.gpu(GPU, memory_total_mib=70.5 * 1024)
    assert bench.verdict(PRESENT, GPU).outcome is Outcome.PASS
    bench.gpu(GPU, memory_total_mib=60 * 1024)
    assert bench.verdict(PRESENT, GPU).outcome is Outcome.FAIL


def test_what_was_found_on_this_machine_is_no_promise(bench):
    """The plan of `auto` is made for the memory that the card shows; the model is judged all the same."""
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "h200", "memory_gib": 70.5}]}])
    found = {"nodes.pc1.gpus.0.memory_gib": AUTO}
    bench.loaded = replace(bench.loaded, sources=dict(bench.loaded.sources) | found)
    bench.gpu(GPU, memory_total_mib=70.5 * 1024)
    assert bench.verdict(PRESENT, GPU).outcome is Outcome.FAIL


def test_every_rig_has_the_limit_and_a_recording_of_before_it_is_judged_as_then(bench):
    assert default_rig(KINDS).rig.limits.gpu_memory_share is not None
    bench.limits(gpu_memory_share=None)
    bench.gpu(GPU, memory_total_mib=70.5 * 1024)
    assert bench.verdict(PRESENT, GPU).outcome is Outcome.PASS
