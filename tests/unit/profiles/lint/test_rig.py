"""Each rule is shown tripping, and shown quiet on what is sound."""

import pytest

from rigproof.profiles.lint.rig import lint_all, lint_doubts, lint_rig
from rigproof.profiles.loading.xids import xid_catalogue
from rigproof.stages.registry import KINDS

HEAD = 'name = "lab"\n[[nodes]]\nname = "a"\ncpus = 16\n'
SOUND = HEAD + '[[nodes.gpus]]\nsku = "rtx-3090"\n'
ALL_FAILING = [code for code, one in xid_catalogue().xids.items() if one.outcome == "fail"]


def test_everything_shipped_is_clean():
    assert lint_all(KINDS) == []


def test_a_sound_rig_is_clean(desk):
    assert lint_rig(desk.load(SOUND)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[[nodes.gpus]]\nsku = "rtx-3070"\nworkers = 4\nvram_gib_per_worker = 1.9\n',
            "nodes[0].gpus[0].vram_gib_per_worker = 1.9: 4 × 1.90 GiB do not fit a/gpu0: 8 GiB less 0.5 GiB "
            "headroom and 4 × 0.4 GiB for CUDA contexts; write vram_gib_per_worker = 1.47 or less",
        ),
        (
            '[[nodes.gpus]]\nsku = "rtx-3070"\nvram_share = 0.98\n',
            "nodes[0].gpus[0].vram_share = 0.98: 1 × 7.84 GiB do not fit a/gpu0: 8 GiB less 0.5 GiB "
            "headroom and 1 × 0.4 GiB for CUDA contexts; write vram_share = 0.88 or less",
        ),
        (
            '[[nodes.gpus]]\nsku = "unknown"\nmemory_gib = 0.4\ngemm_size = 64\n',
            "nodes[0].gpus[0].vram_share = 0.7: (the default) 1 × 0.28 GiB do not fit a/gpu0: 0.4 GiB less "
            "0.5 GiB headroom and 1 × 0.4 GiB for CUDA contexts; this device is too small",
        ),
        (
            '[[nodes.gpus]]\nsku = "rtx-3090"\nworkers = 2\ncpus_per_worker = 9\n',
            "nodes[0].cpus = 16: the workers of a reserve 18 CPUs; lower cpus_per_worker or workers",
        ),
        (
            '[[nodes.gpus]]\nsku = "rtx-3090"\ncpus_per_worker = 9\n'
            '[[nodes.gpus]]\nsku = "rtx-3090"\ncpus_per_worker = 9\n',
            "nodes[0].cpus = 16: the workers of a reserve 18 CPUs",
        ),
        (
            '[[nodes.gpus]]\nsku = "unknown"\nvram_gib_per_worker = 0.5\ngemm_size = 8192\n',
            "nodes[0].gpus[0].gemm_size = 8192: five fp32 matrices take 1280 MiB, a worker of a/gpu0 has "
            "512 MiB; "
            "write gemm_size = 4096, or give it more memory",
        ),
        (
            '[[nodes.gpus]]\nsku = "unknown"\nvram_gib_per_worker = 0.00001\ngemm_size = 64\n',
            "a worker of a/gpu0 has 0 MiB; give it more memory",
        ),
        (
            '[[nodes.gpus]]\nsku = "rtx-3090"\n'
            "[cpu]\nprimary_thread_share = 0.9\nsecondary_thread_share = 0.3\n",
            "cpu.secondary_thread_share = 0.3: primary 0.9 and secondary 0.3 together are more than all CPUs",
        ),
        (
            '[[nodes.gpus]]\nsku = "rtx-3090"\nuuid = "GPU-1"\n'
            '[[nodes.gpus]]\nsku = "rtx-3090"\nuuid = "GPU-1"\n',
            'nodes[0].gpus[1].uuid = "GPU-1": a/gpu0 is also pinned to this card',
        ),
        (
            'address = "10.0.0.1"\n[[nodes.gpus]]\nsku = "rtx-3090"\n'
            '[[nodes]]\nname = "b"\naddress = "10.0.0.1"\n',
            'nodes[1].address = "10.0.0.1": a also has this address',
        ),
        (  # as DNS compares names
            'address = "PC.lan"\n[[nodes.gpus]]\nsku = "rtx-3090"\n'
            '[[nodes]]\nname = "b"\naddress = "pc.lan."\n',
            'nodes[1].address = "pc.lan.": a also has this address; give each node its own',
        ),
        (
            '[[nodes.gpus]]\nsku = "rtx-3090"\n[[nodes]]\nname = "A"\n',
            'nodes[1].name = "A": "a" of lab.toml differs from it in capitals alone, and both would be '
            "promised; "
            'write "a" if the same machine is meant, else a name of its own',
        ),
        ("", "nodes = []: no node has a GPU; write a [[nodes.gpus]] table with its sku"),
    ],
)
def test_a_plan_that_cannot_fit_is_refused(desk, text, expected):
    found = lint_rig(desk.load(HEAD + text))
    assert any(line.startswith("lab.toml: ") and expected in line for line in found), found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[nodes.gpus.floors]\ngemm_bf16_tflops = 20\n",
            "floors.gemm_bf16_tflops = 20: 28.1% of the peak of 71.2",
        ),
        (
            "[nodes.gpus.floors]\ngemm_fp32_tflops = 71\n",
            "floors.gemm_fp32_tflops = 71: 199% of the peak of 35.6",
        ),
        (
            "[nodes.gpus.floors]\nsustained_tflops = 0.078\n",
            "floors.sustained_tflops = 0.078: 0.1% of the peak",
        ),
        ("[limits]\nretired_pages_warn = 63\n", "limits.retired_pages_warn = 63: never warns before"),
        (
            "[limits]\nxid_fail = [48, 79]\nxid_warn = [79, 92]\n",
            "limits.xid_warn = [79]: also in xid_fail; leave them in one of the lists",
        ),
        (f"[limits]\nxid_warn = {ALL_FAILING}\n", "no Xid could fail the rig"),
        ("[responsiveness]\nmax_ms = 10\n", "responsiveness.max_ms = 10: under p99_ms = 50"),
    ],
)
def test_a_limit_that_cannot_fail_is_refused(desk, text, expected):
    found = lint_rig(desk.load(SOUND + text))
    assert any(line.startswith("lab.toml: ") and expected in line for line in found), found


def test_a_combined_floor_is_held_against_the_sum_of_the_peaks(desk):
    (line,) = lint_rig(desk.load(f"{SOUND}[stages.sustained]\ncombined_floor_tflops = 7.81\n"))
    assert line.startswith(
        "lab.toml: stages.sustained.combined_floor_tflops = 7.81: 11.0% of the peak of 71.2"
    )


def test_a_floor_without_a_known_peak_is_reported(desk):
    text = HEAD + '[[nodes.gpus]]\nsku = "t4"\n[nodes.gpus.floors]\ngemm_bf16_tflops = 30\n'
    assert "hwprofiles/gpus/t4.toml has no peak_tflops.bf16" in lint_rig(desk.load(text))[0]


def test_a_problem_in_a_parent_names_the_parent(desk):
    desk.write(HEAD + '[[nodes.gpus]]\nsku = "rtx-3090"\nworkers = 7\ngpu_share = 0.6\n', "base.toml")
    (line,) = lint_rig(desk.load('name = "child"\nextends = "base.toml"\n'))
    assert line.startswith("base.toml: nodes[0].gpus[0].gpu_share = 0.6: ")


def test_a_cards_memory_that_a_run_is_going_to_find_is_not_missed(desk):
    unknown = '[[nodes.gpus]]\nsku = "unknown"\n'
    here, elsewhere = HEAD + unknown, HEAD + 'address = "10.0.0.1"\n' + unknown
    assert lint_rig(desk.load(here)) == []
    assert "is not known" in lint_rig(desk.load(elsewhere))[0]
    two_nodes = lint_rig(desk.load(here + '[[nodes]]\nname = "b"\n' + unknown))
    assert [line.partition(": ")[2][:16] for line in two_nodes] == ["nodes[0].gpus[0]", "nodes[1].gpus[0]"]


def test_everything_else_of_a_card_to_be_found_is_still_checked(desk):
    text = HEAD + '[[nodes.gpus]]\nsku = "unknown"\nworkers = 7\ngpu_share = 0.6\n'
    (line,) = lint_rig(desk.load(text + "[limits]\nthrottle_share = 0.0\n"))
    assert "gpu_share = 0.6: 7 workers" in line


def test_lint_all_takes_names_and_files_and_reports_what_does_not_load(desk):
    desk.write("name = 3\n")
    found = lint_all(KINDS, ["./lab.toml", "nosuch"])
    assert any("lab.toml: name = 3: not text" in line for line in found)
    assert any('hwprofile = "nosuch"' in line for line in found)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (
            "pc1.lan",
            "pc1",
            "lab.toml: a and b may be one machine, as pc1.lan and pc1 may be one host's name; write",
        ),
        (
            "b",
            "",
            "lab.toml: a and b may be one machine, as b and b may be one host's name; write the IP address",
        ),
        (
            "10.0.0.1",
            "127.0.1.1",
            'lab.toml: nodes[1].address = "127.0.1.1": every machine calls itself that, so the others '
            "cannot reach it",
        ),
        (
            "10.0.0.1",
            "LOCALHOST",
            'lab.toml: nodes[1].address = "LOCALHOST": every machine calls itself that',
        ),
        ("pc1.lan", "pc1.wan", ""),
        ("10.0.0.1", "10.0.0.2", ""),
        ("10.0.0.1", "", ""),
    ],
)
def test_hosts_that_may_be_one_machine_or_that_nobody_reaches_are_doubted(desk, first, second, expected):
    address = f'address = "{second}"\n' if second else ""
    text = f'name = "lab"\n[[nodes]]\nname = "a"\naddress = "{first}"\n[[nodes]]\nname = "b"\n{address}'
    doubts = lint_doubts(desk.load(text))
    assert len(doubts) == bool(expected)
    assert all(line.startswith(expected) for line in doubts), doubts
