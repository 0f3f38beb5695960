"""Training, feeding and sharing: each rule shown tripping, and quiet on what can be done."""

import pytest

CARD = 'name = "lab"\n[[nodes]]\nname = "a"\ncpus = 16\nram_gib = 64\n[[nodes.gpus]]\nsku = "rtx-3070"\n'


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        (
            "[stages.training]\nreserve_gib = 8\n",
            "stages.training.reserve_gib = 8: all of the 8 GiB of a/gpu0, so no batch is ever tried; ",
        ),
        (
            "stages.training.reserve_gib = 9\n",
            "nodes[0].gpus[0].stages.training.reserve_gib = 9: all of the 8 GiB of a/gpu0, so no batch is",
        ),
        (
            "[stages.training]\nbatches = [1, 4, 2]\n",
            "stages.training.batches = [1, 4, 2]: each batch size must exceed the previous one; ",
        ),
        (
            "[stages.training]\nbatches = [1, 1]\n",
            "stages.training.batches = [1, 1]: each batch size must exceed",
        ),
        ("[stages.training]\nbatches = []\n", "stages.training.batches = []: no batch size to measure; "),
        (
            "[memory]\nleast_batch = 64\n[stages.training]\nbatch = 32\n",
            "memory.least_batch = 64: least_batch = 64 is over stages.training.batch = 32",
        ),
        (
            "[stages.sharing]\nworkers = [2, 3]\n",
            "stages.sharing.workers = [2, 3]: must start with 1, with which the others are "
            "compared, and then increase; write e.g. [1, 2, 3]",
        ),
        (
            "[stages.sharing]\nworkers = [1, 2, 2]\n",
            "stages.sharing.workers = [1, 2, 2]: must start with 1",
        ),
        ("[stages.sharing]\nworkers = []\n", "stages.sharing.workers = []: must start with 1"),
        (
            "[stages.sharing]\nworkers = [1]\n",
            "stages.sharing.workers = [1]: nothing to compare with one process",
        ),
        (
            "[stages.sharing]\nvram_share = 0.9\n",
            "stages.sharing.vram_share = 0.9: 4 CUDA contexts of 0.4 GiB do not fit beside "
            "it on the 8 GiB of "
            "a/gpu0; write 0.8 or less, or fewer workers",
        ),
        (
            "memory_gib = 1\nvram_gib_per_worker = 0.05\ngemm_size = "
            "64\n[stages.sharing]\nvram_share = 0.9\n",
            "stages.sharing.vram_share = 0.9: 4 CUDA contexts of 0.4 GiB do not fit beside "
            "it on the 1 GiB of "
            "a/gpu0; write fewer workers",
        ),
        (
            "[stages.feeding]\nreward_speedup_share = 0.125\n",
            "stages.feeding.reward_speedup_share = 0.125: 8 processes × 0.125 is no "
            "speed-up: rewards one after the "
            "other would pass; write reward_speedup_share = 0.19 or more, or processes = 1",
        ),
        (
            "stages.feeding.reward_speedup_share = 0.1\n",
            "nodes[0].gpus[0].stages.feeding.reward_speedup_share = 0.1: 8 processes × 0.1 is no speed-up",
        ),
        (
            "[stages.feeding]\nprocesses = 2\n",
            "stages.feeding.processes = 2: 2 processes × 0.375 is no speed-up",
        ),
    ],
)
def test_work_that_cannot_be_done_or_judged_is_refused(desk, stated, expected):
    (line,) = desk.lint(CARD + stated)
    assert line.startswith(expected)


@pytest.mark.parametrize(
    "stated",
    [
        "",
        "[stages.training]\nreserve_gib = 7.9\n",
        "[stages.training]\nbatches = [3]\n",
        "[memory]\nleast_batch = 32\n[stages.training]\nbatch = 32\n",
        "[stages.sharing]\nworkers = [1, 3]\n",
        "[stages.sharing]\nvram_share = 0.8\n",
        "[stages.sharing]\nworkers = [1, 2]\nvram_share = 0.85\n",
        "[stages.feeding]\nreward_speedup_share = 0.13\n",
        "[stages.feeding]\nprocesses = 1\n",
        "[stages.feeding]\nprocesses = 3\n",
    ],
)
def test_work_that_can_be_done_is_sound(desk, stated):
    assert desk.lint(CARD + stated) == []
