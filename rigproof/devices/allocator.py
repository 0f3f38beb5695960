"""How torch's CUDA allocator is configured: by the environment, before torch starts. Imports no torch.

The options: https://docs.pytorch.org/docs/stable/notes/cuda.html, "Optimizing memory usage".
"""

import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from rigproof.profiles.planning.plan import MemoryPlan

NAME, OLD_NAME = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"
# torch 2.9 knows the new name but ignores its setting for CUDA's segments (pytorch#183387); 2.11 applies it.
NEW_NAME_SINCE = (2, 11)
# Expandable segments map 20 MiB at a time, and the driver maps for one card after the other: four H200 took
# 2 s to map and 2 s to free what one does in 0.5 s. torch 2.11 can map larger pieces (pytorch#172056), but
# not all of its pre-releases: to them, the option is an error.
PIECES_SINCE, WITHOUT_PIECES = (2, 11), r"2\.11\.0(a|\.dev)"
PIECE_MIB = 64  # at most what a card loses to the last one; `max_split_size_mb` must not be less
GRANULE_MIB = 2  # of what a driver maps: 63 MiB is an "invalid argument" to it
LAZY_SINCE = (12, 2)  # CUDA 12.2 release notes: lazy loading is the default on Linux

NO_EFFECT = {
    "TORCH_USE_CUDA_DSA": "no effect: a macro of torch's own compilation, not read at run time",
    "PYTORCH_CUDA_MEMCHECK": "no effect: only torch's own tests read it",
}


@dataclass(frozen=True, slots=True)
class Configuration:
    """The allocator's configuration. With its defaults `variable` is None and `value` empty."""

    variable: str | None
    value: str
    by: Literal["profile", "user", "default"]


def wanted(plan: MemoryPlan) -> str:
    """The options that the plan asks for, as the installed torch reads them; empty without a policy."""
    if not plan.enabled:
        return ""
    torch = installed_torch() or ""
    known = (_numbers(torch) or (0, 0)) >= PIECES_SINCE and not re.match(WITHOUT_PIECES, torch)
    piece_mib = min(PIECE_MIB, plan.max_split_size_mib or PIECE_MIB) // GRANULE_MIB * GRANULE_MIB
    options = {
        "expandable_segments": "True" if plan.expandable_segments else None,
        "large_segment_size_mb": piece_mib if known and plan.expandable_segments else None,
        "max_split_size_mb": plan.max_split_size_mib,  # torch's MB are MiB
        "roundup_power2_divisions": plan.roundup_power2_divisions,
    }
    return ",".join(f"{name}:{value}" for name, value in options.items() if value is not None)


def variable_of(torch_version: str | None) -> str:
    """The environment variable that this torch reads."""
    known = _numbers(torch_version)
    return OLD_NAME if known is not None and known < NEW_NAME_SINCE else NAME


def configure(plan: MemoryPlan, environ: MutableMapping[str, str]) -> None:
    """Set the allocator's variable as the plan requires. A value set by the user is kept.

    Has an effect only before torch is imported.
    """
    value = wanted(plan)
    if value and NAME not in environ and OLD_NAME not in environ:
        environ[variable_of(installed_torch())] = value


def configured(plan: MemoryPlan, environ: Mapping[str, str]) -> Configuration:
    """The allocator's setting in the environment, and who set it."""
    for name in (OLD_NAME, NAME):  # the order in which torch looks
        value = environ.get(name)
        if value is not None:
            return Configuration(name, value, "profile" if value == wanted(plan) else "user")
    return Configuration(None, "", "default")


def environment_warnings(environ: Mapping[str, str], cuda_version: str | None) -> dict[str, str]:
    """Variables of this environment without effect, or harmful: "NAME=value" and its effect."""
    found = {f"{name}={environ[name]}": why for name, why in NO_EFFECT.items() if name in environ}
    loading, blocking = environ.get("CUDA_MODULE_LOADING"), environ.get("CUDA_LAUNCH_BLOCKING")
    cuda = _numbers(cuda_version)
    if loading == "LAZY" and cuda is not None and cuda >= LAZY_SINCE:
        found[f"CUDA_MODULE_LOADING={loading}"] = "no effect: the default since CUDA 12.2"
    if blocking == "0":
        found[f"CUDA_LAUNCH_BLOCKING={blocking}"] = "no effect: the default"
    elif blocking is not None:
        found[f"CUDA_LAUNCH_BLOCKING={blocking}"] = "slows down every launch: unset it"
    if "PYTORCH_NO_CUDA_MEMORY_CACHING" in environ:
        setting = f"PYTORCH_NO_CUDA_MEMORY_CACHING={environ['PYTORCH_NO_CUDA_MEMORY_CACHING']}"
        found[setting] = "without torch's caching allocator no cap applies and no OOM is counted: unset it"
    return found


def installed_torch() -> str | None:
    """The version of the torch that is installed, without importing it."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return None


def _numbers(text: str | None) -> tuple[int, int] | None:
    """Major and minor of a version such as "2.13.0+cu130"."""
    found = re.match(r"(\d+)\.(\d+)", text or "")
    return None if found is None else (int(found[1]), int(found[2]))
