"""What a file leaves as the rig that it extends has it, though its own cards or machines are others."""

import pytest

from rigproof.profiles.lint.rig import lint_doubts, lint_rig
from rigproof.profiles.loading.files import profile_folder, stems
from rigproof.profiles.loading.load import load_rig
from rigproof.stages.registry import KINDS

BASE = "hwprofiles/rigs/dual-3090-3070.toml"
FLOOR = f"{BASE}: stages.sustained.combined_floor_tflops = 78.1: "
EXTENDS = 'name = "lab"\nextends = "dual-3090-3070"\n'


def node(name, sku="", address=""):
    text = f'[[nodes]]\nname = "{name}"\n' + (f'address = "{address}"\n' if address else "")
    return text + (f'[[nodes.gpus]]\nsku = "{sku}"\nmemory_gib = 8\ngemm_size = 4096\n' if sku else "")


@pytest.mark.parametrize("name", stems("rigs"))
def test_what_is_shipped_leaves_no_doubt(name):
    assert lint_doubts(load_rig(name, KINDS)) == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            node("pc1", "rtx-3070"),
            "was set for rtx-3090 + rtx-3070, and lab.toml has 2 × rtx-3070; write combined_floor_tflops "
            "= 55 in "
            "[stages.sustained] of lab.toml: nine tenths of the floors of its cards one by one",
        ),
        (
            node("pc1", "rtx-4090"),
            "was set for rtx-3090 + rtx-3070, and lab.toml has rtx-4090 + rtx-3070; write "
            "combined_floor_tflops = 150 in",
        ),
        (
            node("pc2", "unknown"),
            "was set for rtx-3090 + rtx-3070, and lab.toml has rtx-3090 + unknown; write "
            "combined_floor_tflops = "
            "29 in [stages.sustained] of lab.toml: low enough for any; raise it when a run has shown more",
        ),
        (
            node("pc3", "rtx-3090"),
            "was set for rtx-3090 + rtx-3070, and lab.toml has 2 × rtx-3090 + rtx-3070;",
        ),
    ],
)
def test_a_floor_of_all_cards_together_is_not_inherited_by_others(desk, changed, expected):
    loaded = desk.load(EXTENDS + changed)
    (line,) = [line for line in (*lint_rig(loaded), *lint_doubts(loaded)) if "combined" in line]
    assert line.startswith(FLOOR + expected)
    written = line.partition("write combined_floor_tflops = ")[2].split()[0]
    own = f"[stages.sustained]\ncombined_floor_tflops = {written}\n"
    mended = desk.load(EXTENDS + own + changed)
    assert [line for line in (*lint_rig(mended), *lint_doubts(mended)) if "combined" in line] == []


def test_the_same_cards_elsewhere_or_with_other_work_keep_the_floor(desk):
    swapped = node("pc1", "rtx-3070") + node("pc2", "rtx-3090") + "vram_share = 0.5\n"
    assert lint_rig(desk.load(EXTENDS + swapped)) == []
    assert lint_rig(desk.load(EXTENDS + node("pc2", address="192.168.178.30"))) == []


def test_the_floor_belongs_to_the_file_that_states_it_last(desk):
    desk.write(
        EXTENDS + "[stages.sustained]\ncombined_floor_tflops = 50\n" + node("pc1", "rtx-3070"), "two.toml"
    )
    own = 'name = "lab"\nextends = "./two.toml"\n'
    assert lint_rig(desk.load(own)) == []
    (line,) = lint_rig(desk.load(own + node("pc2", "rtx-3090")))
    assert line.startswith("two.toml: stages.sustained.combined_floor_tflops = 50: was set for 2 × rtx-3070")


def test_a_copied_floor_over_what_its_cards_have_to_reach_is_doubted(desk):
    rig = "[stages.sustained]\ncombined_floor_tflops = 78.1\n" + node("a", "rtx-3070") + node("b", "rtx-3070")
    loaded = desk.load('name = "lab"\n' + rig)
    assert lint_rig(loaded) == []
    assert lint_doubts(loaded) == [
        "lab.toml: stages.sustained.combined_floor_tflops = 78.1: more than the floors of its cards one "
        "by one, "
        "a/gpu0 30.5 + b/gpu0 30.5 = 60.9 TFLOP/s; unless these cards have reached it together, write "
        "combined_floor_tflops = 55 in [stages.sustained] of lab.toml: nine tenths of the floors of its "
        "cards one "
        "by one"
    ]


def test_a_card_of_which_only_peaks_are_printed_counts_with_a_share_of_them(desk):
    rig = "[stages.sustained]\ncombined_floor_tflops = {}\n" + node("a", "rtx-3090") + node("b", "rtx-3060")
    (line,) = lint_doubts(desk.load('name = "lab"\n' + rig.format(78.1)))
    assert "one by one, a/gpu0 58.5 + b/gpu0 15.3 = 73.8 TFLOP/s; unless" in line
    assert "write combined_floor_tflops = 66 in" in line
    assert lint_doubts(desk.load('name = "lab"\n' + rig.format(66))) == []


def test_a_copy_of_a_shipped_rig_that_keeps_its_name_is_doubted(desk):
    copied = (profile_folder() / "rigs" / "single-gpu.toml").read_text()
    (line,) = lint_doubts(desk.load(copied))
    assert line.endswith(
        'name = "single-gpu": hwprofiles/rigs/single-gpu.toml has it too, and the histories and champions of '
        "both are kept as one rig's; write a name of your own"
    )
    assert lint_doubts(desk.load(copied.replace('name = "single-gpu"', 'name = "mine"'))) == []


def test_figures_of_links_and_machines_are_doubted_where_the_machines_are_others(desk):
    figures = "[limits]\npcie_width = 16\nooms = 3\n[stages.disk]\nread_floor_mbps = 900\n"
    desk.write(EXTENDS + figures, "base.toml")
    own = 'name = "lab"\nextends = "./base.toml"\ndescription = "Mine."\n'
    assert lint_doubts(desk.load(own + "[limits]\nooms = 2\n")) == []
    still = "lab.toml extends this file and has other machines, for which this still holds; write"
    doubts = lint_doubts(desk.load(own + node("pc1", address="192.168.178.30")))
    assert [line for line in doubts if line.startswith("base.toml")] == [
        f"base.toml: limits.pcie_width = 16: {still} limits.pcie_width in lab.toml too, as it is for "
        "these machines",
        f"base.toml: stages.disk.read_floor_mbps = 900: {still} stages.disk.read_floor_mbps in lab.toml "
        "too, as it "
        "is for these machines",
    ]
    (described,) = [
        line for line in lint_doubts(desk.load(EXTENDS + node("pc1", "rtx-3070"))) if "description" in line
    ]
    assert described.endswith(
        "has other cards, for which this still holds; write description in lab.toml too, as "
        "it is for these cards"
    )


def test_a_machine_that_took_a_name_says_what_it_still_has_of_the_other(desk):
    doubts = lint_doubts(
        desk.load(EXTENDS + 'description = "Mine."\n' + node("pc1", address="192.168.178.30"))
    )
    assert doubts == [
        f"lab.toml: pc1 stands at another address than in {BASE}, and still has of it: cpus = 80; if pc1 is "
        "another machine, write its own values"
    ]


def test_nodes_that_are_added_where_others_were_to_be_changed_are_counted(desk):
    doubts = lint_doubts(
        desk.load(EXTENDS + 'description = "Mine."\n' + node("tower", "rtx-3090", "10.0.0.1"))
    )
    assert doubts == [
        "lab.toml: adds tower to the rig that it extends, so that pc1, pc2 will be tested too, 3 nodes in "
        "all; to "
        "change a node, name it as it is named there; to leave one out, copy what you need of that rig "
        "and do "
        "not extend it"
    ]
