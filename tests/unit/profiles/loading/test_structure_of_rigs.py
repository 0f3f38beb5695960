"""What shows once a rig is merged: bands against their warning, unknown cards, nodes named twice."""

import re

import pytest

GPU = '[[nodes.gpus]]\nsku = "rtx-3090"\n'
NODE = f'[[nodes]]\nname = "a"\n{GPU}'
RIG = f'name = "lab"\n{NODE}'
WAY_OUT = "write warn_percent = 85 or more"


def test_a_card_without_a_file_may_be_called_unknown_or_by_the_name_that_was_meant(desk):
    (near,) = desk.problems(RIG.replace("rtx-3090", "rtx-3091"))
    assert near.endswith('? A card without a file is "unknown"')
    (far,) = desk.problems(RIG.replace("rtx-3090", "qqqqqqqq"))
    assert far.endswith(', or "unknown"')
    assert "did you mean" not in far


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("RTX 3090", "rtx-3090"),
        ("rtx3070", "rtx-3070"),
        ("NVIDIA GeForce RTX 3070 Ti", "rtx-3070-ti"),
        ("GeForce_RTX_4090", "rtx-4090"),
        ("H200 SXM", "h200-sxm"),
        ("V100-SXM-32GB", "v100-sxm-32gb"),
    ],
)
def test_a_card_may_be_named_as_people_write_it(desk, typed, meant):
    (line,) = desk.problems(RIG.replace("rtx-3090", typed))
    assert f'; did you mean "{meant}"? ' in line


def test_of_many_cards_a_few_are_named_and_where_all_are(desk):
    (line,) = desk.problems(RIG.replace("rtx-3090", "qqqqqqqq"))
    assert "no such file in hwprofiles/gpus; " in line
    assert re.search(r"; \d\d are known, such as (\S+, ){5}or", line)


@pytest.mark.parametrize("band", ['[70, "85"]', "[true, 85]", '["70", 85]'])
def test_a_band_whose_ends_are_no_numbers_is_reported_for_its_types_alone(desk, band):
    found = desk.problems(f"{RIG}[cpu]\nband_percent = {band}\n")
    assert not [line for line in found if "end" in line.split(":")[-1] or "warn_percent" in line]


def test_a_warning_may_be_at_the_bands_high_end(desk):
    assert desk.load(f"{RIG}[cpu]\nband_percent = [70, 85]\nwarn_percent = 85\n")
    (line,) = desk.problems(f"{RIG}[cpu]\nband_percent = [70, 85]\nwarn_percent = 84\n")
    assert line == (
        f"lab.toml: cpu.warn_percent = 84: warn_percent 84 is below the band's high end 85; {WAY_OUT}"
    )


def test_an_upside_down_band_is_held_against_its_higher_end(desk):
    _, second = desk.problems(f"{RIG}[cpu]\nband_percent = [85, 70]\nwarn_percent = 84\n")
    assert second.endswith(WAY_OUT)


def test_a_nodes_band_is_held_against_the_rigs_warning_and_the_other_way_round(desk):
    node = '[[nodes]]\nname = "b"\n'
    (band,) = desk.problems(f"{RIG}{node}cpu.band_percent = [70, 95]\n{GPU}")
    assert band.startswith("lab.toml: nodes[1].cpu.band_percent = [70, 95]: warn_percent 90 is below")
    (warn,) = desk.problems(f"{RIG}{node}cpu.warn_percent = 80\n{GPU}")
    assert warn.startswith("lab.toml: nodes[1].cpu.warn_percent = 80: warn_percent 80 is below")


def test_the_file_that_was_laid_last_is_the_one_that_disagrees(desk):
    desk.write(f"{RIG}[cpu]\nwarn_percent = 86\n", "base.toml")
    (line,) = desk.problems('name = "child"\nextends = "base.toml"\n[cpu]\nband_percent = [70, 88]\n')
    assert line.startswith("lab.toml: cpu.band_percent = [70, 88]: warn_percent 86 is below")
    desk.write(f"{RIG}[cpu]\nband_percent = [70, 88]\n", "base.toml")
    (line,) = desk.problems('name = "child"\nextends = "base.toml"\n[cpu]\nwarn_percent = 86\n')
    assert line.startswith("lab.toml: cpu.warn_percent = 86: ")


def test_a_name_is_reported_as_often_as_it_occurs(desk):
    found = desk.problems(f"{RIG}{NODE}{NODE}")
    assert [line for line in found if "have this name" in line] == [
        'lab.toml: nodes[].name = "a": 3 nodes have this name; give each node its own'
    ]


def test_at_most_a_hundred_problems_are_reported(desk):
    cards = '[[nodes.gpus]]\nsku = "nobodys"\n' * 120
    found = desk.problems(f'name = "lab"\n[[nodes]]\nname = "a"\n{cards}')
    assert len([line for line in found if "nobodys" in line]) == 100
