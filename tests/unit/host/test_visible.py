"""CUDA_VISIBLE_DEVICES by CUDA's rules, and whose it is."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigproof.host.visible import own_setting, parents_setting, unresolved, visible_gpus
from rigproof.records.identity import GpuIdentity

UUIDS = ("GPU-aa11", "GPU-aa22", "GPU-bb33", "GPU-cc44")
GPUS = tuple(
    GpuIdentity(f"pc1/gpu{index}", "cuda", uuid, "NVIDIA H200", index, 143771.0)
    for index, uuid in enumerate(UUIDS)
)
PARENTS = {"MIG-0123": "GPU-bb33", "MIG-4567": "GPU-bb33", "MIG-89ab": "GPU-aa11"}


def seen(setting: str | None) -> list[int]:
    return [gpu.index for gpu in visible_gpus(GPUS, setting, PARENTS.get)]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (None, [0, 1, 2, 3]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("0", [0]),
        ("2,0", [0, 2]),  # NVML's order, not the list's
        (" 1 , 3 ", [1, 3]),
        ("0,-1,2", [0]),
        ("0,9,2", [0]),  # what follows an index too high is hidden
        ("1,1", []),
        ("GPU-bb33", [2]),
        ("GPU-b", [2]),
        ("GPU-aa", []),  # of two GPUs
        ("GPU-aa2,0", [0, 1]),
        ("0,GPU-aa11", []),  # the same one twice
        ("GPU-zz,0", []),
        ("bb33", []),
        ("0,", [0]),
        ("1.5", []),
        ("²", []),
        ("MIG-GPU-bb33/1/0", [2]),
        ("MIG-GPU-bb33/1/0,MIG-GPU-bb33/2/0", [2]),
        ("MIG-0123", [2]),
        (" MIG-0123,MIG-4567, MIG-89ab", [0, 2]),
        ("MIG-0123,GPU-bb33", []),
        ("MIG-cdef,0", []),  # of no GPU
        ("MIG-", []),
        ("MIG-GPU-", []),
    ],
)
def test_visible(setting: str | None, expected: list[int]) -> None:
    assert seen(setting) == expected


@pytest.mark.parametrize("setting", ["MIG-cdef", "9", "1,1", "GPU-zz,0", "GPU-aa"])
def test_a_setting_that_means_a_gpu_and_shows_none_is_named(setting: str) -> None:
    reason = unresolved(GPUS, setting, visible_gpus(GPUS, setting, PARENTS.get))
    assert reason == (
        f"CUDA_VISIBLE_DEVICES={setting} names no GPU here, or one of them twice; unset it, or name one of "
        "GPU-aa11, GPU-aa22, GPU-bb33, GPU-cc44"
    )


@pytest.mark.parametrize("setting", [None, "", "-1", "NoDevFiles", "0", "0,9", "MIG-0123"])
def test_gpus_may_be_hidden_on_purpose(setting: str | None) -> None:
    assert unresolved(GPUS, setting, visible_gpus(GPUS, setting, PARENTS.get)) is None
    assert unresolved((), "0", ()) is None  # there is none to be named


@settings(deadline=None)  # a busy host is no failure
@given(st.text(max_size=30))
def test_any_text_gives_a_subset_in_order(setting: str) -> None:
    found = seen(setting)
    assert found == sorted(set(found))
    assert set(found) <= {0, 1, 2, 3}


@settings(deadline=None)  # a busy host is no failure
@given(st.permutations(range(4)), st.integers(0, 4))
def test_every_list_of_distinct_indices_and_uuids_shows_those(order: list[int], count: int) -> None:
    chosen = order[:count]
    setting = ",".join(str(index) if index % 2 else UUIDS[index] for index in chosen)
    assert seen(setting) == sorted(chosen)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (b"HOME=/root\0CUDA_VISIBLE_DEVICES=GPU-aa11,1\0", "GPU-aa11,1"),
        (b"CUDA_VISIBLE_DEVICES=\0", ""),
        (b"NOT_CUDA_VISIBLE_DEVICES=2\0CUDA_VISIBLE_DEVICES_TOO=3\0", None),
        (b"CUDA_VISIBLE_DEVICES=0,\xff\0", "0,\ufffd"),
        (b"", None),
        (None, "own"),  # no such process, or another user's
    ],
)
def test_the_parent_s_setting_is_what_it_was_started_with(tmp_path, monkeypatch, environment, expected):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "own")
    assert own_setting() == "own"
    if environment is not None:
        (tmp_path / str(os.getppid())).mkdir()
        (tmp_path / str(os.getppid()) / "environ").write_bytes(environment)
    assert parents_setting(tmp_path) == expected


def test_a_setting_that_is_no_text_can_be_printed_all_the_same(monkeypatch):
    monkeypatch.setitem(os.environb, b"CUDA_VISIBLE_DEVICES", b"MIG-\xff")
    assert own_setting() == "MIG-\ufffd"
    assert seen(own_setting()) == []


def test_no_setting_is_none(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert own_setting() is None
