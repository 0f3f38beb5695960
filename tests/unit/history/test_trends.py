"""How figures went on from run to run, and since when."""

import csv
import io
import json
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.criteria.steps import LOOKED_AT
from rigproof.history.listing import COLUMNS, csv_rows, trend_lines, trends_json
from rigproof.history.reading import Kept, StoredRate
from rigproof.history.trends import shared_and_changed, trend_of
from support.histories import listed


def runs(rates: Sequence[float], **changes: object) -> list[StoredRate]:
    """A run a day with these rates; a list among `changes` has the value of each run."""
    made = []
    for number, rate in enumerate(rates, start=1):
        own = {
            name: value[number - 1] if isinstance(value, list) else value for name, value in changes.items()
        }
        facts = {
            "title": "throughput.gemm_bf16",
            "unit": "TFLOP/s",
            "subject": "pc1/gpu0",
            "gpu_uuid": "GPU-1111",
            "gpu_name": "NVIDIA H200",
            "driver": "570.86",
            "torch": "2.13.0",
        }
        when = f"2026-{1 + number // 28:02d}-{1 + number % 28:02d}T03:04:05+00:00"
        kept = Kept.model_validate({**facts, "rate": rate, **own})
        made.append(StoredRate("lab", f"{number:04d}_run-{number}", when, kept))
    return made


def noisy(seed: int, sizes: Sequence[int], percents: Sequence[float]) -> list[float]:
    """Rates of 100 with a standard deviation of 0.3 %, on levels of so many runs."""
    source, levels = random.Random(seed), zip(sizes, percents, strict=True)
    return [source.gauss(100 + percent, 0.3) for size, percent in levels for _ in range(size)]


@pytest.mark.parametrize(
    ("sizes", "percents"),
    [
        ((5, 4), (0, -4)),
        ((10, 10, 10), (0, -3, 0)),
        ((20, 3), (0, -3)),
        ((8, 8, 8), (0, 2, 5)),
        ((30,), (0,)),
    ],
)
def test_steps_are_where_they_were_made(sizes, percents) -> None:
    places = [sum(sizes[: number + 1]) for number in range(len(sizes) - 1)]
    found = trend_of(runs(noisy(4, sizes, percents)), 15)
    assert [one.place for one in found.steps] == places
    for step, (before, after) in zip(found.steps, pairwise(percents), strict=True):
        assert step.change.percent == pytest.approx(after - before, abs=0.6)
    assert tuple(map(len, found.levels)) == sizes
    assert found.spread_percent == pytest.approx(0.3, abs=0.15)
    assert found.median == pytest.approx(100 + percents[-1], abs=0.4)


def test_noise_alone_is_seldom_a_step() -> None:
    """5 % for 15 figures together are one figure in 300."""
    assert sum(bool(trend_of(runs(noisy(seed, (15,), (0,))), 15).steps) for seed in range(150)) <= 3


def test_a_single_run_after_a_history_is_no_step_unless_it_is_far_off() -> None:
    steady = noisy(6, (12,), (0,))
    assert trend_of(runs([*steady, 99.3]), 15).steps == ()
    assert [one.place for one in trend_of(runs([*steady, 95.0]), 15).steps] == [12]


def test_of_a_long_history_the_last_runs_are_looked_at() -> None:
    assert trend_of(runs(noisy(7, (5, LOOKED_AT), (0, -10))), 1).steps == ()
    found = trend_of(runs(noisy(7, (20, LOOKED_AT - 10), (0, -10))), 1)
    assert [one.place for one in found.steps] == [20]


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=15))
def test_a_sparkline_has_a_bar_for_each_of_the_last_runs(rates) -> None:
    found = trend_of(runs(rates), 1)
    assert len(found.sparkline) == min(12, len(rates))
    assert sum(map(len, found.levels)) == len(rates)
    assert all(found.levels)


def test_noise_looks_flat() -> None:
    assert set(trend_of(runs([100.0, 100.05, 99.95, 100.0]), 1).sparkline) <= set("▄▅")


def test_a_step_stands_beside_what_changed_with_it() -> None:
    drivers = ["570.86"] * 5 + ["580.159"] * 4
    slower = runs(noisy(4, (5, 4), (0, -4)), driver=drivers, level="standard")
    steady = [200.0, 200.2, 199.9, 200.1, 200.0, 200.1, 199.9, 200.0, 200.1]
    others = runs(steady, title="memory.bandwidth", unit="GB/s", driver=drivers, level="standard")
    lines = list(trend_lines(sorted([*slower, *others], key=lambda one: one.file)))
    assert lines[:4] == [
        "lab: 9 runs, 2026-01-02 to 2026-01-10",
        "  all runs: torch 2.13.0, level standard",
        "  from 0006 of 2026-01-07 on: driver 570.86 → 580.159",
        "pc1/gpu0 NVIDIA H200 GPU-1111",
    ]
    assert lines[4].startswith("  throughput.gemm_bf16 ")
    assert " since 0006 ±" in lines[4]
    assert lines[4].endswith(" % n 9")
    assert lines[5].startswith("  memory.bandwidth     ")
    assert " GB/s median 200 ±" in lines[5]
    assert max(map(len, lines)) <= 80
    assert len(lines) == 6


def test_a_step_without_a_known_reason_says_so() -> None:
    lines = list(trend_lines(runs(noisy(4, (6, 6), (0, -4)))))
    assert "  from 0007 of 2026-01-08 on: no condition that is kept changed" in lines


def test_a_card_that_moved_and_a_new_power_limit_are_told_where_they_happened() -> None:
    slots, limits = ["pc1/gpu0", "pc1/gpu0", "pc2/gpu0"], [350.0, 300.0, 300.0]
    shared, changed = shared_and_changed(runs([100.0, 100.1, 99.9], subject=slots, power_limit_w=limits))
    assert "power limit" not in shared
    assert changed == {
        "0002_run-2": [("power limit", "350 W", "300 W")],
        "0003_run-3": [("slot", "pc1/gpu0", "pc2/gpu0")],
    }
    other = runs([50.0, 50.0], gpu_uuid="GPU-2", subject="pc1/gpu1", driver="1")
    assert shared_and_changed([*runs([100.0, 100.0]), *other])[1] == {}  # they differ, and neither changed


def test_colours_are_for_steps_alone() -> None:
    assert "\x1b[31m-" in "\n".join(trend_lines(runs(noisy(4, (6, 6), (0, -4))), color=True))
    assert "\x1b[3" not in "\n".join(trend_lines(runs(noisy(4, (9,), (0,))), color=True))


def test_programs_get_the_same_as_json_and_csv() -> None:
    rates = runs(noisy(4, (6, 6), (0, -4)), labels={"size": [8192]})
    (found,) = json.loads(json.dumps(trends_json(rates)))
    assert (found["rig"], found["labels"], found["n"], len(found["runs"])) == ("lab", "size 8192", 12, 12)
    (step,) = found["steps"]
    assert step["number"] == "0007"
    assert step["low"] < step["percent"] < step["high"] < 0
    written = io.StringIO()
    writer = csv.DictWriter(written, COLUMNS)
    writer.writeheader()
    writer.writerows(csv_rows(rates))
    rows = list(csv.DictReader(io.StringIO(written.getvalue())))
    assert [float(one["rate"]) for one in rows] == [one.kept.rate for one in rates]
    assert {one["labels"] for one in rows} == {"size 8192"}


def test_a_folder_is_listed_by_a_selection(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    for one in runs([100.0, 101.0]):
        other = one.kept.model_copy(update={"title": "memory.bandwidth", "unit": "GB/s"})
        both = [{"extra_info": kept.model_dump(), "stats": {"rounds": 9}} for kept in (one.kept, other)]
        (folder / f"{one.file}.json").write_text(
            json.dumps({"datetime": one.measured_at, "benchmarks": both})
        )
    assert sum("memory.bandwidth" in line for line in listed(tmp_path)) == 1
    figures = [line for line in listed(tmp_path, of="figure=gemm") if line.startswith("  t")]
    assert figures == ["  throughput.gemm_bf16 ▃▆ 101 TFLOP/s median 100 ±0.7 % n 2"]


def test_a_selection_that_one_rig_fits_leaves_the_others_out(tmp_path: Path) -> None:
    for name, driver in (("lab", "570.86"), ("vm", "580.65")):
        folder = tmp_path / name
        folder.mkdir()
        (one,) = runs([100.0], driver=driver)
        kept = [{"extra_info": one.kept.model_dump(), "stats": {"rounds": 9}}]
        (folder / f"{one.file}.json").write_text(
            json.dumps({"datetime": one.measured_at, "benchmarks": kept})
        )
    assert len(list(listed(tmp_path, of="driver=580"))) == 4
    assert next(listed(tmp_path, of="driver=570", each=True)) == "lab: 1 measurement of 1 run"
    assert next(listed(tmp_path, of="driver=580", each=True)) == "vm: 1 measurement of 1 run"


def test_what_changed_fits_a_terminal_whatever_it_is() -> None:
    tags = [f"{name}=something" for name in ("paste", "riser", "room", "fan", "slot")]
    lines = list(trend_lines(runs([100.0, 100.1, 99.9], tags=[[], tags, tags])))
    assert max(map(len, lines)) <= 80
    assert lines[2].startswith("  from 0002 of 2026-01-03 on: tags none → fan=something, ")
    assert lines[3].startswith("    ")
