from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.judging.catalogue import CATALOGUE
from rigproof.records.verdict import Decision, Outcome, Verdict
from rigproof.report.content.matrix import matrix_of
from rigproof.report.terminal.matrix_lines import (
    matrix_lines,
    on_screen,
    shortened,
    terminal_width,
    wrapped,
)

GPUS = tuple(f"node1/gpu{number}" for number in range(8))
HOT, RATE, PEERS = "thermal.core_temperature", "throughput.sustained", "throughput.peer_outlier"


def row(criterion, values, limit, unit, bad=(), subjects=GPUS):
    direction = CATALOGUE[criterion].direction
    return [
        Verdict(
            criterion,
            subject,
            Outcome.FAIL if place in bad else Outcome.PASS,
            unit,
            value,
            limit,
            direction=direction,
        )
        for place, (subject, value) in enumerate(zip(subjects, values, strict=True))
    ]


def lines_of(verdicts, devices=GPUS, width=80, head="h200-x8 REJECTED  2 of 222 failed", **more):
    return matrix_lines(matrix_of(verdicts, devices), head, Decision.REJECTED, width, **more)


def test_eight_gpus_in_eighty_columns():
    verdicts = [
        *row(HOT, [72, 72, 72, 91, 72, 72, 72, 72], 87, "°C", bad=[3]),
        *row(PEERS, [100, 100, 100, 100, 100, 90, 100, 100], 94, "%", bad=[5]),
        *row(RATE, [660, 660, 660, 660, 660, 594, 660, 660], 495, "TFLOP/s"),
        *row("memory.no_oom", [0] * 8, 0, "OOMs"),
        Verdict("memory.ecc", GPUS[0], Outcome.NOT_APPLICABLE, detail="no ECC"),
    ]
    head = "h200-x8 REJECTED  2 of 222 failed"
    assert lines_of(verdicts, head=head) == [
        "h200-x8 REJECTED  2 of 222 failed",
        "                                     gpu0 gpu1 gpu2 gpu3 gpu4 gpu5 gpu6 gpu7",
        "FAIL core temperature  ≤ 87 °C         72   72   72 [91]   72   72   72   72",
        "FAIL against its peers ≥ 94 %         100  100  100  100  100 [90]  100  100",
        "     sustained rate    ≥ 495 TFLOP/s  660  660  660  660  660  594  660  660",
        "[ ] failed",
        "1 more passes on all (-v)",
        "1 not applicable: uncorrected ECC",
    ]
    everything = lines_of(verdicts, everything=True)
    assert "     out of memory     0                0    0    0    0    0    0    0    0" in everything
    assert not any("(-v)" in line for line in everything)


def test_two_unlike_cards_have_their_limits_beside_their_figures():
    devices = ("pc1/gpu0", "pc2/gpu0")
    verdicts = [
        Verdict(RATE, devices[0], Outcome.PASS, "TFLOP/s", 78.2, 58.5, direction="at_least"),
        Verdict(RATE, devices[1], Outcome.FAIL, "TFLOP/s", 20.6, 30.5, direction="at_least"),
        Verdict("host.responsiveness", "pc1", Outcome.PASS, "ms", 0.5, 50.0, direction="at_most"),
    ]
    assert lines_of(verdicts, devices, head="pair REJECTED  1 of 3 failed") == [
        "pair REJECTED  1 of 3 failed",
        "                               pc1/gpu0      pc2/gpu0",
        "FAIL sustained rate TFLOP/s 78.2 ≥ 58.5 [20.6] ≥ 30.5",
        "     wake-up delay  ≤ 50 ms 0.50 on pc1",
        "[ ] failed",
    ]


def test_without_room_beside_them_limits_are_on_a_line_below():
    verdicts = [
        Verdict(RATE, gpu, Outcome.PASS, "TFLOP/s", 656.0 - place, 552.0 + place, direction="at_least")
        for place, gpu in enumerate(GPUS)
    ]
    assert lines_of(verdicts)[1:] == [
        "                            gpu0 gpu1 gpu2 gpu3 gpu4 gpu5 gpu6 gpu7",
        "     sustained rate TFLOP/s  656  655  654  653  652  651  650  649",
        "       limit ≥               552  553  554  555  556  557  558  559",
    ]


def test_limits_of_several_directions_each_have_their_sign():
    power = "power.limit"
    verdicts = [
        Verdict(power, GPUS[0], Outcome.PASS, "W", 350.0, 340.0, direction="at_least"),
        Verdict(power, GPUS[1], Outcome.FAIL, "W", 450.0, 420.0, direction="at_most"),
    ]
    head = "two REJECTED  1 of 2 failed"
    assert lines_of(verdicts, GPUS[:2], head=head)[2] == "FAIL power limit W  350 ≥ 340 [450] ≤ 420"
    assert lines_of(verdicts, GPUS[:2], width=40, head=head)[2:4] == [
        "FAIL power limit W        350      [450]",
        "       limit             ≥340       ≤420",
    ]


def test_figures_of_nodes_and_the_rig_say_whose_they_are():
    nodes = [f"node{number}" for number in range(4)]
    verdicts = [
        *row(HOT, [72] * 8, 87, "°C"),
        Verdict("throughput.combined", "rig", Outcome.FAIL, "TFLOP/s", 765.0, 900.0, direction="at_least"),
        *row("host.responsiveness", [0.48] * 4, 50, "ms", subjects=nodes),
    ]
    lines = lines_of(verdicts)
    assert [line.rpartition("  ")[2] for line in lines if "wake-up" in line] == ["0.48 on 4 nodes"]
    assert next(line for line in lines if line.startswith("FAIL")).endswith(" [765] on the rig")


def test_heads_that_do_not_fit_are_the_numbers_of_the_gpus():
    verdicts = row(RATE, [650.0 + number for number in range(8)], 552, "TFLOP/s")
    assert lines_of(verdicts, width=65, head="rig ACCEPTED") == [
        "rig ACCEPTED",
        "                                    0   1   2   3   4   5   6   7",
        "     sustained rate ≥ 552 TFLOP/s 650 651 652 653 654 655 656 657",
    ]


def test_of_a_long_subject_the_node_is_shortened_and_the_device_stays():
    long = "n" * 50 + "-number-17"
    verdicts = row(HOT, [60.0, 191.0], 187, "°C", bad=[1], subjects=[f"{long}/gpu0", f"{long}/gpu1"])
    lines = lines_of(verdicts, [one.subject for one in verdicts], width=40, head="pair REJECTED")
    assert lines[1:-1] == [
        "FAIL core temperature ≤ 187 °C",
        "     60 on",
        "     …nnnnnnnnnnnnnnnnnn-number-17/gpu0,",
        "     [191] on",
        "     …nnnnnnnnnnnnnnnnnnn-number-17/gpu1",
    ]
    assert shortened(f"[2] {'a' * 20}/gpu0-{'b' * 20}/gpu1, {long}", 24) == (
        "[2] …aaaaa/gpu0-…bbbbb/gpu1, …nnnnnnnnnnnnn-number-17"
    )
    assert shortened(f"pc1/gpu0-{long}/gpu1", 24) == "pc1/gpu0-…number-17/gpu1"


def test_nodes_stand_above_their_devices():
    devices = tuple(f"{node}/gpu{gpu}" for node in ("alpha", "beta") for gpu in range(4))
    lines = lines_of(row(HOT, [70] * 8, 87, "°C", subjects=devices), devices)
    assert lines[1:3] == [
        "                              alpha                beta",
        "                               gpu0 gpu1 gpu2 gpu3 gpu0 gpu1 gpu2 gpu3",
    ]
    long = tuple(f"workstation-{number}/gpu0" for number in range(8))
    lines = lines_of(row(HOT, [70] * 8, 87, "°C", subjects=long), long)
    assert lines[1].split() == [f"…on-{number}" for number in range(8)]


def test_a_row_whose_figures_are_too_wide_is_a_range():
    values = [60123.0, *[70123.0] * 7]
    lines = lines_of([*row(HOT, [70] * 8, 87, "°C"), *row(RATE, values, 65000, "TFLOP/s", bad=[0])])
    assert "FAIL sustained rate   ≥ 65000 TFLOP/s [60123]…70123, worst node1/gpu0" in lines
    assert lines[3].endswith("70   70   70   70   70   70   70   70")


def test_figures_are_marked_in_colour_too():
    text = "\n".join(lines_of(row(HOT, [72] * 7 + [91], 87, "°C", bad=[7]), color=True))
    assert "\x1b[1;31m[91]\x1b[0m" in text
    assert "\x1b[1;31mREJECTED\x1b[0m" in text


OUTCOMES = st.sampled_from(list(Outcome))


@st.composite
def tables(draw):
    many = draw(st.integers(0, 12))
    devices = [f"{draw(st.sampled_from(['a', 'workstation-17']))}{n}/gpu{n % 3}" for n in range(many)]
    numbers = st.none() | st.floats(-1e7, 1e7)
    pairs = ["-".join(pair) for pair in combinations(devices[:4], 2)]
    nodes = ["node-with-a-long-name", "b"]
    subjects = {"device": devices, "peers": pairs, "node": nodes, "team": [*nodes, "rig"], "rig": ["rig"]}
    subjects["node_ring"] = ["+".join(nodes)]
    return devices, [
        Verdict(name, subject, draw(OUTCOMES), CATALOGUE[name].unit, draw(numbers), limit)
        for name in draw(st.lists(st.sampled_from(sorted(CATALOGUE)), unique=True, max_size=6))
        for limit in [draw(numbers)]
        for subject in subjects[CATALOGUE[name].scope]
    ]


@given(tables(), st.integers(60, 200), st.booleans())
def test_no_line_is_longer_than_the_terminal_and_none_is_cut(table, width, everything):
    devices, verdicts = table
    lines = lines_of(verdicts, devices, width, everything=everything)
    assert max(map(len, lines)) <= width
    matrix = matrix_of(verdicts, devices)
    for one in matrix.shown(everything=everything):
        assert any(one.title in line for line in lines)
        for cell in filter(None, one.cells):
            if cell.outcome is Outcome.FAIL:
                assert any("[" in line for line in lines)


def test_a_command_is_not_broken():
    text = "pc2 is not there; type on pc2: `ray start --address=10.0.0.1:6379 --num-gpus=1` (and wait)"
    assert wrapped(text, 50) == [
        "pc2 is not there; type on pc2:",
        "  `ray start --address=10.0.0.1:6379 --num-gpus=1`",
        "  (and wait)",
    ]
    assert wrapped("", 50) == [""]


@pytest.mark.parametrize(("columns", "width"), [("200", 200), ("20", 40), (None, 120)])
def test_the_width_is_the_terminals_or_that_of_a_log(monkeypatch, columns, width):
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
        monkeypatch.setattr("sys.__stdout__", None)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    assert terminal_width() == width


def test_on_a_terminal_a_line_that_goes_on_is_indented_and_no_word_is_cut():
    lines = ["plan: gemm 37 s, bandwidth 3 s", "  sustained: about  70 s, in rounds", "", "short"]
    assert list(on_screen(lines, 22)) == [
        "plan: gemm 37 s,",
        "  bandwidth 3 s",
        "  sustained: about  70",
        "    s, in rounds",
        "",
        "short",
    ]


@pytest.mark.parametrize("width", [80, 64])
def test_with_v_each_row_has_the_name_of_its_criterion_behind_it_or_below(width):
    devices = ("pc1/gpu0", "pc2/gpu0")
    verdicts = [
        *row(HOT, [70, 84], 80, "°C", bad=[1], subjects=devices),
        *row("memory.no_oom", [0, 0], 0, "OOMs", subjects=devices),
    ]
    lines = lines_of(verdicts, devices, width, head="pair REJECTED  1 of 4 failed", everything=True)
    assert max(map(len, lines)) <= width
    names = [place for place, line in enumerate(lines) if line.endswith((HOT, "memory.no_oom"))]
    if width == 80:
        assert lines[names[0]] == "FAIL core temperature ≤ 80 °C       70     [84]  thermal.core_temperature"
    else:
        assert lines[names[0]] == "     thermal.core_temperature"
        assert lines[names[0] - 1].startswith("FAIL core temperature")
    assert len(names) == 2
    assert HOT not in "\n".join(lines_of(verdicts, devices, width, head="pair"))
