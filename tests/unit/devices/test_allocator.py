from dataclasses import replace

import pytest
import torch

from rigproof.devices import allocator
from rigproof.devices.allocator import configure, configured, environment_warnings, variable_of, wanted
from rigproof.profiles.planning.plan import NO_POLICY, MemoryPlan

PLAN = MemoryPlan(enabled=True, expandable_segments=True, max_split_size_mib=64, roundup_power2_divisions=16)
OLD_SEEDS = "expandable_segments:True,max_split_size_mb:64,roundup_power2_divisions:16"
SEEDS = "expandable_segments:True,large_segment_size_mb:64,max_split_size_mb:64,roundup_power2_divisions:16"
EXPANDABLE = MemoryPlan(enabled=True, expandable_segments=True)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (PLAN, SEEDS),
        (EXPANDABLE, "expandable_segments:True,large_segment_size_mb:64"),
        (
            replace(EXPANDABLE, max_split_size_mib=31),  # the driver maps an even number
            "expandable_segments:True,large_segment_size_mb:30,max_split_size_mb:31",
        ),
        (MemoryPlan(enabled=True, max_split_size_mib=128), "max_split_size_mb:128"),
        (MemoryPlan(enabled=True), ""),
        (MemoryPlan(enabled=False, expandable_segments=True), ""),
        (NO_POLICY, ""),
    ],
)
def test_only_what_the_plan_states_is_asked_for(plan, expected):
    assert wanted(plan) == expected


def test_torch_reads_what_is_written():
    parse = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    if parse is None:
        pytest.skip("this torch reads it when CUDA starts, and there alone")
    parse(SEEDS)
    with pytest.raises((RuntimeError, ValueError), match="max_split_size_mb too small"):
        parse("large_segment_size_mb:64,max_split_size_mb:63")
    with pytest.raises((RuntimeError, ValueError), match="power of 2"):
        parse("roundup_power2_divisions:15")  # so it does look


@pytest.mark.parametrize(
    ("torch_version", "name", "value"),
    [
        ("2.4.1+cu121", "PYTORCH_CUDA_ALLOC_CONF", OLD_SEEDS),
        ("2.9.1", "PYTORCH_CUDA_ALLOC_CONF", OLD_SEEDS),  # it knows the new name and does not obey it
        ("2.10.0", "PYTORCH_CUDA_ALLOC_CONF", OLD_SEEDS),
        ("2.11.0a0+eb65b36914.nv26.02", "PYTORCH_ALLOC_CONF", OLD_SEEDS),  # not all know the option
        ("2.11.0.dev20251222+cu130", "PYTORCH_ALLOC_CONF", OLD_SEEDS),
        ("2.11.0+cu130", "PYTORCH_ALLOC_CONF", SEEDS),
        ("2.12.0a0+git1234", "PYTORCH_ALLOC_CONF", SEEDS),
        ("3.0.0a0+git1234", "PYTORCH_ALLOC_CONF", SEEDS),
        (None, "PYTORCH_ALLOC_CONF", OLD_SEEDS),
    ],
)
def test_variable_and_options_are_those_that_this_torch_obeys(monkeypatch, torch_version, name, value):
    monkeypatch.setattr(allocator, "installed_torch", lambda: torch_version)
    environ = {}
    configure(PLAN, environ)
    assert environ == {name: value}
    assert variable_of(torch_version) == name
    assert configured(PLAN, environ).by == "profile"


@pytest.mark.parametrize("name", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_what_the_user_has_set_is_kept(name):
    environ = {name: "backend:cudaMallocAsync"}
    configure(PLAN, environ)
    assert environ == {name: "backend:cudaMallocAsync"}
    setting = configured(PLAN, environ)
    assert (setting.variable, setting.value, setting.by) == (name, "backend:cudaMallocAsync", "user")


def test_the_installed_torch_is_known_without_importing_it():
    """What was installed from PyPI lacks the part after the plus, as in 2.11.0+cu130."""
    assert allocator.installed_torch().partition("+")[0] == torch.__version__.partition("+")[0]


SEED_ENVIRONMENT = {
    "CUDA_LAUNCH_BLOCKING": "0",
    "TORCH_USE_CUDA_DSA": "1",
    "CUDA_MODULE_LOADING": "LAZY",
    "PYTORCH_CUDA_MEMCHECK": "1",
}


def test_every_variable_of_the_guide_that_does_nothing_is_named_as_such():
    found = environment_warnings(SEED_ENVIRONMENT, "13.0")
    assert set(found) == {f"{name}={value}" for name, value in SEED_ENVIRONMENT.items()}
    assert all(why.startswith("no effect") for why in found.values())


def test_lazy_loading_is_a_choice_where_it_is_no_default():
    assert environment_warnings({"PATH": "/usr/bin"}, "13.0") == {}
    assert environment_warnings({"CUDA_MODULE_LOADING": "LAZY"}, "11.8") == {}
    assert environment_warnings({"CUDA_MODULE_LOADING": "EAGER"}, "13.0") == {}
    assert environment_warnings({"CUDA_MODULE_LOADING": "LAZY"}, None) == {}


@pytest.mark.parametrize(
    ("name", "effect"),
    [("CUDA_LAUNCH_BLOCKING", "slows down every"), ("PYTORCH_NO_CUDA_MEMORY_CACHING", "no cap applies")],
)
def test_a_variable_that_harms_is_warned_of(name, effect):
    (why,) = environment_warnings({name: "1"}, "13.0").values()
    assert effect in why
