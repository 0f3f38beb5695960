"""CUDA_VISIBLE_DEVICES by CUDA's rules, and whose it is."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigproof.host.visible import (
    container_hides,
    hides_all,
    own_setting,
    parents_setting,
    shown,
    visible_gpus,
    wrong_setting,
)
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
        ("01", []),  # no index as nvidia-smi writes it
        ("0,all", [0]),
        ("cuda:0", []),
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


def wrong(setting: str | None, gpus=GPUS) -> str | None:
    return wrong_setting(gpus, setting, PARENTS.get)


ACCEPTED = (
    "; unset it, or write indices of the GPUs here (0,1,2,3) or their UUIDs (GPU-aa11, GPU-aa22, GPU-bb33, "
    "GPU-cc44), separated by commas, or -1 to hide every GPU on purpose"
)


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        *(
            (setting, f"'{entry}' is neither the index nor the UUID of a GPU")
            for setting, entry in [
                ("all", "all"),
                ("cuda:0", "cuda:0"),
                ("gpu0", "gpu0"),
                ("0;1", "0;1"),
                ("0 1", "0 1"),
                ("00000000:65:00.0", "00000000:65:00.0"),
                ("1.5", "1.5"),
                ("+1", "+1"),
                ("01", "01"),
                ("\u00b2", "\u00b2"),
                ("0,-2", "-2"),
                ("0,,1", ""),
                (",0", ""),
                ("0,none", "none"),
                ("bb33", "bb33"),
                ("gpu-bb33", "gpu-bb33"),
            ]
        ),
        ("99", "'99': no GPU here has it"),
        ("0,99", "'99': no GPU here has it"),
        ("0,9,2", "'9': no GPU here has it"),
        ("GPU-zz,0", "'GPU-zz': no GPU here has it"),
        ("GPU-aa", "'GPU-aa': the UUIDs of 2 GPUs begin with it"),
        ("MIG-cdef", "'MIG-cdef': no GPU here has it"),
        ("1,1", "it names GPU-aa22 twice, and CUDA then shows no GPU"),
        ("0,GPU-aa11", "it names GPU-aa11 twice, and CUDA then shows no GPU"),
        ("MIG-0123,GPU-bb33", "it names GPU-bb33 twice, and CUDA then shows no GPU"),
        ("all\n", "'all' is neither the index nor the UUID of a GPU"),
    ],
)
def test_a_setting_of_which_cuda_would_not_show_all_is_wrong(setting: str, what: str) -> None:
    assert wrong(setting) == f"{shown(setting)}: {what}{ACCEPTED}"
    assert "\n" not in wrong(setting)


@pytest.mark.parametrize("setting", ["", " ", "-1", "-1,0", "none", "void", "NoDevFiles", "nodevfiles"])
def test_gpus_may_be_hidden_on_purpose(setting: str) -> None:
    assert hides_all(setting)
    assert wrong(setting) is None
    assert seen(setting) == []


@pytest.mark.parametrize(
    "setting",
    [
        None,
        "0",
        "2,0",
        " 1 , 3 ",
        "0,",
        "0,-1",
        "0,2,-1,1",
        "0,-1,nonsense",
        "GPU-b",
        "MIG-0123",
        "MIG-0123,MIG-4567",
    ],
)
def test_a_setting_that_shows_what_it_names_is_right(setting: str | None) -> None:
    assert wrong(setting) is None
    assert not hides_all(setting)
    assert seen(setting)


def test_without_gpus_only_what_never_names_one_is_wrong() -> None:
    assert wrong("0,GPU-aa11", ()) is None
    assert wrong("cuda:0", ()) == (
        "CUDA_VISIBLE_DEVICES=cuda:0: 'cuda:0' is neither the index nor the UUID of a GPU; unset it, or "
        "write indices such as 0,1 or UUIDs such as GPU-8932f937, separated by commas, or -1 to hide every "
        "GPU on purpose"
    )


@settings(deadline=None)  # a busy host is no failure
@given(
    st.text(max_size=30)
    | st.lists(st.sampled_from(["0", "3", "4", "-1", "", "GPU-bb33", "all"])).map(",".join)
)
def test_what_is_not_wrong_nor_hidden_shows_as_many_gpus_as_it_names(setting: str) -> None:
    if wrong(setting) is None and not hides_all(setting):
        named = [entry.strip() for entry in setting.partition("-1")[0].split(",")]
        assert len(seen(setting)) == len([entry for entry in named if entry]) > 0


def test_a_container_that_was_given_no_gpu_on_purpose(monkeypatch) -> None:
    for value, with_driver, without in [
        ("none", "NVIDIA_VISIBLE_DEVICES=none", "NVIDIA_VISIBLE_DEVICES=none"),
        ("void", None, "NVIDIA_VISIBLE_DEVICES=void"),  # with the driver there: the GPUs came through CDI
        ("all", None, None),
        ("", None, None),
    ]:
        monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", value)
        assert container_hides(driver_there=True) == with_driver
        assert container_hides(driver_there=False) == without
    monkeypatch.delenv("NVIDIA_VISIBLE_DEVICES")
    assert container_hides(driver_there=False) is None


def test_a_setting_is_shown_in_one_line() -> None:
    assert (shown(""), shown("0,1"), shown("a\nb")) == (
        'CUDA_VISIBLE_DEVICES=""',
        "CUDA_VISIBLE_DEVICES=0,1",
        "CUDA_VISIBLE_DEVICES=a\\nb",
    )


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
