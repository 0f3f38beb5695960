"""Policies of taking VRAM: each rule shown tripping, and quiet where a policy is sound."""

import pytest

CARD = 'name = "lab"\n[[nodes]]\nname = "a"\ncpus = 16\nram_gib = 64\n[[nodes.gpus]]\nsku = "rtx-3070"\n'
PLANNED = CARD + "workers = 3\nvram_gib_per_worker = 1.5\ngemm_size = 4096\n"


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        (
            "fraction_share = 0.5",
            "fraction_share = 0.5: allows 4.00 GiB of a/gpu0, and 3 × 1.50 GiB with cuBLAS' workspaces are "
            "4.69; write 0.59 or more, or fill less",
        ),
        (
            "least_size = 8192",
            "least_size = 8192: over gemm_size = 4096 of a/gpu0, so no smaller size is ever learned; "
            "write 4096 or less",
        ),
        (
            "emergency_size = 512",
            "emergency_size = 512: emergency_size = 512 is over least_size = 256, and so is not tiny; "
            "write emergency_size = 256 or less",
        ),
        (
            "least_size = 64",
            "least_size = 64: emergency_size = 128 is over least_size = 64, and so is not tiny; "
            "write emergency_size = 64 or less",
        ),
        (
            "last_resort_mib = 0.1",
            "last_resort_mib = 0.1: three fp32 operands of emergency_size = 128 take 0.19 MiB; "
            "raise last_resort_mib or lower emergency_size",
        ),
        (
            "last_resort_mib = 2000",
            "last_resort_mib = 2000: more than the 1536 MiB that a worker of a/gpu0 is to fill; "
            "write 1536 or less",
        ),
        (
            "roundup_power2_divisions = 12",
            "roundup_power2_divisions = 12: torch only accepts powers of two; write e.g. 16",
        ),
        (
            "monitor_s = 10",
            "monitor_s = 10: memory.no_oom needs a reading from the end of the load; write 2.5 or less",
        ),
        (
            "least_batch = 32",
            "least_batch = 32: least_batch = 32 is over stages.training.batch = 16: a failure cannot make it "
            "smaller; write least_batch = 16 or less",
        ),
    ],
)
@pytest.mark.parametrize(
    ("place", "key"), [("[memory]\n", "memory."), ("memory.", "nodes[0].gpus[0].memory.")]
)
def test_a_policy_that_cannot_be_followed_is_reported_where_it_is_stated(desk, place, key, stated, expected):
    assert desk.lint(f"{PLANNED}{place}{stated}\n") == [key + expected]


@pytest.mark.parametrize(
    "stated",
    [
        "fraction_share = 0.75",
        "fraction_share = 0.59",
        "least_size = 4096",
        "emergency_size = 256",
        "emergency_size = 64\nleast_size = 64",
        "last_resort_mib = 1536",
        "roundup_power2_divisions = 16",
        "roundup_power2_divisions = 1",
        "monitor_s = 2.5",
        "least_batch = 16",
    ],
)
def test_a_policy_at_its_bounds_is_sound(desk, stated):
    assert desk.lint(f"{PLANNED}[memory]\n{stated}\n") == []


def test_a_policy_that_is_switched_off_is_not_looked_at(desk):
    off = "[memory]\nenabled = false\nfraction_share = 0.1\nleast_size = 8192\nmonitor_s = 60\n"
    assert desk.lint(PLANNED + off) == []


def test_a_cap_that_no_card_could_lift_says_to_fill_less(desk):
    text = CARD.replace("rtx-3070", "h200-sxm") + "vram_share = 0.992\n[memory]\nfraction_share = 0.99\n"
    (line,) = (one for one in desk.lint(text) if "fraction_share" in one)  # nor do its contexts fit
    assert line.endswith("are 137.95; write 1 or more, or fill less")
    (line,) = desk.lint(
        CARD + "memory_gib = 1\nvram_gib_per_worker = 0.1\ngemm_size = 64\nworkers = 1\n"
        "limits.headroom_gib = 0.125\nmemory.fraction_share = 0.01\n",
    )
    assert "write 0.17 or more" in line


def test_the_defaults_of_a_card_that_is_too_small_for_them_are_no_mistake(desk):
    assert desk.lint(CARD + "vram_gib_per_worker = 0.05\ngemm_size = 64\n") == []


def test_a_cap_of_the_cpu_as_the_device_is_not_looked_at(desk):
    text = CARD.replace("rtx-3070", "unknown") + 'device = "cpu"\n[memory]\nfraction_share = 0.01\n'
    assert desk.lint(text) == []
