import json
from dataclasses import replace
from typing import Any

import pytest

from rigproof.history.comparison import SelectionError, chosen, compare, comparison_lines
from rigproof.history.reading import Kept, StoredRate

NOISE = (0.0, 0.3, -0.2, 0.1, -0.3, 0.2, 0.25, -0.1)


def rate(number: int, percent: float = 0.0, **changes: Any) -> StoredRate:
    """A kept rate of 100 TFLOP/s, more or less; `rig` and `when` are the run's."""
    rig, when = changes.pop("rig", "lab"), changes.pop("when", f"2026-01-{number:02d}T03:04:05+00:00")
    facts = {
        "run_id": f"2026010{number}T",
        "title": "throughput.gemm_bf16",
        "rate": 100 * (1 + (percent + NOISE[number % 8]) / 100),
        "unit": "TFLOP/s",
        "subject": "pc1/gpu0",
        "gpu_uuid": "GPU-1111",
        "gpu_name": "NVIDIA H200",
        "driver": "570.86",
        "torch": "2.13.0+cu130",
        "cuda": "13.0",
        "level": "standard",
        "power_limit_w": 700.0,
        "sm_clock_mean_mhz": 1980.0,
        "core_temperature_mean_c": 60.0,
        "labels": {"size": [8192]},
    }
    return StoredRate(rig, f"{number:04d}_run-{number}", when, Kept.model_validate({**facts, **changes}))


@pytest.fixture
def two_drivers() -> list[StoredRate]:
    """Five runs with one driver, then four with another, 4 % slower, 80 MHz lower and 3 °C hotter."""
    later = {"driver": "580.159.04", "sm_clock_mean_mhz": 1900.0, "core_temperature_mean_c": 63.0}
    return [rate(n) for n in range(1, 6)] + [rate(n, -4.0, **later) for n in range(6, 10)]


def told(rates: list[StoredRate], before: str, after: str) -> list[str]:
    found = compare(chosen(rates, before), chosen(rates, after), rates)
    return list(comparison_lines(found, (before, after)))


def test_a_slower_driver_is_told_with_what_explains_it(two_drivers) -> None:
    assert told(two_drivers, "driver=570", "driver=580") == [
        "A: driver=570: 5 runs, 2026-01-01 to 2026-01-05",
        "B: driver=580: 4 runs, 2026-01-06 to 2026-01-09",
        "driver: 570.86 in A, 580.159.04 in B",
        "pc1/gpu0 NVIDIA H200 GPU-1111",
        "  throughput.gemm_bf16: 100 → 96.1 TFLOP/s",
        "    slower -3.9 % (-4.3 to -3.5), -80 MHz, +3 °C",
        "B against A: slower in 1, of 1 figure",
    ]


def test_runs_are_chosen_by_their_tags_which_come_first() -> None:
    tags = (
        ["paste=old", "winter"],
        ["paste=old"],
        ["paste=old"],
        [],
        ["paste=new"],
        ["paste=new"],
        ["paste=new"],
    )
    rates = [rate(n, -4.0 if n > 4 else 0.0, tags=own) for n, own in enumerate(tags, start=1)]
    assert [one.number for one in chosen(rates, "tag=paste=old")] == ["0001", "0002", "0003"]
    assert told(rates, "tag=paste=old", "tag=paste=new")[2:6] == [
        "tags: paste=old (2), paste=old, winter (1) in A, paste=new in B",
        "pc1/gpu0 NVIDIA H200 GPU-1111",
        "  throughput.gemm_bf16: 100 → 96.1 TFLOP/s",
        "    slower -3.9 % (-4.5 to -3.4)",
    ]
    assert "tags: none in A, paste=new in B" in told(rates, "0004", "tag=paste=new")
    with pytest.raises(SelectionError, match="no kept run is of tag=paste; there are: paste=new"):
        chosen(rates[4:], "tag=paste")


def test_a_comparison_of_simulated_runs_says_so(two_drivers) -> None:
    simulated = [replace(one, kept=one.kept.model_copy(update={"simulated": True})) for one in two_drivers]
    lines = told(simulated, "driver=570", "driver=580")
    assert [line for line in lines if "SIMULATED" in line] == [
        "SIMULATED A: driver=570: 5 runs, 2026-01-01 to 2026-01-05",
        "SIMULATED B: driver=580: 4 runs, 2026-01-06 to 2026-01-09",
        "SIMULATED pc1/gpu0 H200 GPU-1111",
    ]
    assert compare(simulated[:5], simulated[5:], simulated).as_json()["simulated"] is True


def test_two_single_runs_are_judged_by_the_spread_of_the_cards_other_runs(two_drivers) -> None:
    assert "    slower -4.0 % (-4.8 to -3.2), -80 MHz, +3 °C" in told(two_drivers, "0001", "0009")
    few = two_drivers[:1] + two_drivers[-1:]
    assert any("too few runs to tell: -4.0 % by 1 and 1" in line for line in told(few, "0001", "0009"))


def test_runs_alike_show_no_difference(two_drivers) -> None:
    lines = told(two_drivers, "0001-0003", "0004-0005")
    assert "no condition that is kept differs" in lines
    assert any("no difference shown" in line for line in lines)


@pytest.mark.parametrize(
    ("selection", "numbers"),
    [
        ("0003", [3]),
        ("3", [3]),
        ("0002-0004", [2, 3, 4]),
        ("run=20260105", [5]),
        ("rig=lab,run=0002-0004", [2, 3, 4]),
        ("rig=lab,driver=580", [6, 7, 8, 9]),
        ("driver=580.159", [6, 7, 8, 9]),
        ("card=pc1/gpu0,0001", [1]),
        ("card=GPU-1,torch=2.13,cuda=13,level=standard,power=700,since=2026-01-09", [9]),
        ("before=2026-01-02", [1]),
    ],
)
def test_a_selection_is_what_its_terms_have_in_common(two_drivers, selection, numbers) -> None:
    assert [int(one.number) for one in chosen(two_drivers, selection)] == numbers


@pytest.mark.parametrize(
    ("selection", "why"),
    [
        ("0077", "no kept run is of 0077; there are: 0001 of 2026-01-01, "),
        ("driver=58", "no kept run is of driver=58; there are: 570.86, 580.159.04"),
        ("driver=570,driver=580", "no kept run is of driver=580; there are: 570.86"),
        ("card=pc9/gpu0", "there are: pc1/gpu0"),
        ("power=x", "there are: 700 W"),
        ("colour=red", "colour=red: unknown; use numbers"),
        ("", "an empty term: unknown; use numbers"),
        ("since=yesterday", "yesterday: no date; write it like 2026-11-27"),
        ("before=2026-99-99", "2026-99-99: no date"),
        ("0001-x", "0001-x: unknown; use numbers"),
        ("card=", "card=: write a value behind it"),
        ("power=²", "there are: 700 W"),
    ],
)
def test_what_selects_nothing_is_refused_with_what_there_is(two_drivers, selection, why) -> None:
    with pytest.raises(SelectionError) as caught:
        chosen(two_drivers, selection)
    assert why in str(caught.value)


def test_what_is_no_selection_is_refused_without_any_rate_too() -> None:
    assert chosen((), "0003,driver=580,since=2026-01-09") == ()
    for wrong in ("since=yesterday", "colour=red", "card=", "driver:580", "0003-x", "0003,", ""):
        with pytest.raises(SelectionError):
            chosen((), wrong)


def test_a_number_that_several_rigs_have_needs_the_rig(two_drivers) -> None:
    rates = [*two_drivers, rate(1, rig="vm")]
    with pytest.raises(SelectionError, match="lab, vm have such runs; write rig=NAME,0001"):
        chosen(rates, "0001")
    assert len(chosen(rates, "rig=vm,0001")) == 1


def test_a_file_without_a_number_has_none_that_could_be_chosen(two_drivers) -> None:
    copied = replace(two_drivers[0], file="copy of 0001_run-1")
    assert chosen([*two_drivers, copied], "0001-0002") == tuple(two_drivers[:2])


def test_a_run_on_both_sides_is_refused(two_drivers) -> None:
    with pytest.raises(SelectionError, match="0002_run-2 is on both sides"):
        told(two_drivers, "0001-0002", "0002-0003")


def test_copies_and_doubles_are_no_more_runs() -> None:
    one, other = rate(1), rate(2, -1.0)
    copies = [replace(run, rig=f"lab{number}") for number in range(4) for run in (one, other)]
    doubles = [rate(number, -5.0 if number == 2 else 0.0) for number in (1, 2) for _ in range(5)]
    for rates in (copies, doubles):
        assert any(
            "too few runs to tell" in line for line in told(rates, "before=2026-01-02", "since=2026-01-02")
        )


def test_rates_that_do_not_vary_have_a_least_spread() -> None:
    rates = [rate(n, rate=100.0 if n < 5 else 99.9999) for n in range(1, 9)]
    assert any("no difference shown" in line for line in told(rates, "1-4", "5-8"))


def test_cards_that_swapped_a_condition_and_sides_that_mix_one_are_told() -> None:
    swapped = [
        rate(
            n,
            gpu_uuid=f"GPU-{card}",
            subject=f"pc1/gpu{card}",
            power_limit_w=350.0 if (n < 5) == (card == 0) else 300.0,
        )
        for n in range(1, 9)
        for card in (0, 1)
    ]
    lines = told(swapped, "1-4", "5-8")
    assert "power limit of pc1/gpu0: 350 W in A, 300 W in B" in lines
    assert "power limit of pc1/gpu1: 300 W in A, 350 W in B" in lines
    mixed = [rate(n, driver="580.65" if n in (4, 5, 6, 7) else "570.86") for n in range(1, 9)]
    assert "driver: 570.86 (3), 580.65 (1) in A, 570.86 (1), 580.65 (3) in B" in told(mixed, "1-4", "5-8")


def test_two_cards_of_a_kind_are_compared_though_they_share_no_run() -> None:
    other = {"gpu_uuid": "GPU-2222", "subject": "pc1/gpu1"}
    rates = [one for n in range(1, 5) for one in (rate(n), rate(n, -5.0, **other))]
    lines = told(rates, "card=pc1/gpu0", "card=pc1/gpu1")
    assert "slot: pc1/gpu0 in A, pc1/gpu1 in B" in lines
    assert "other cards of one kind: NVIDIA H200" in lines
    assert any("slower -5.0 %" in line for line in lines)
    unlike = [rate(1), rate(2, gpu_uuid="GPU-2222", gpu_name="NVIDIA H100")]
    with pytest.raises(SelectionError, match="NVIDIA H100, NVIDIA H200 are not alike"):
        told(unlike, "0001", "0002")


def test_other_work_is_not_compared(two_drivers) -> None:
    rates = [rate(1), rate(2, labels={"size": [4096]}), rate(2, title="memory.bandwidth", unit="GB/s")]
    lines = told(rates, "0001", "0002")
    assert lines[-3:] == [
        "only in A, of pc1/gpu0 NVIDIA H200 GPU-1111: throughput.gemm_bf16 size 8192",
        "only in B, of pc1/gpu0 NVIDIA H200 GPU-1111: throughput.gemm_bf16 size 4096, "
        "memory.bandwidth size 8192",
        "nothing to compare",
    ]


def test_sizes_are_named_where_a_figure_has_several(two_drivers) -> None:
    rates = [rate(n, labels={"size": [size]}) for n in range(1, 9) for size in (4096, 8192)]
    assert "  throughput.gemm_bf16 (size 4096): 100 → 100 TFLOP/s" in told(rates, "0001-0004", "0005-0008")


def test_programs_read_the_same_answers(two_drivers) -> None:
    found = compare(two_drivers[:5], two_drivers[5:], two_drivers).as_json()
    content = json.loads(json.dumps(found))
    (row,) = content["cards"]["pc1/gpu0 NVIDIA H200 GPU-1111"]
    assert row["change"]["answer"] == "slower"
    assert row["change"]["low"] < row["change"]["percent"] < row["change"]["high"] < 0
    assert content["differs"] == {"driver": [["570.86"], ["580.159.04"]]}


def test_colours_are_for_what_is_shown_alone(two_drivers) -> None:
    found = compare(two_drivers[:5], two_drivers[5:], two_drivers)
    text = "\n".join(comparison_lines(found, ("A", "B"), color=True))
    assert "\x1b[31mslower" in text
    same = compare(two_drivers[:3], two_drivers[3:5], two_drivers)
    assert "\x1b[3" not in "\n".join(comparison_lines(same, ("A", "B"), color=True))
