"""What bench/cpu_band.py makes of its windows; its loads are the machine's affair."""

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    return importlib.import_module("cpu_band")


def here(bench, cpus=16.0):
    return bench.Host(cpus, (70, 85), 90, primary_threads=12, secondary_threads=2)


def window(bench, percent, *, changed=False, hog_on=False, hog_percent=0.0):
    return bench.Window(0.0, 1.0, percent, 60.0, hog_percent, changed, hog_on)


def test_windows_out_of_band_count_apart_where_the_hog_came_or_went(bench):
    windows = [
        window(bench, 70),
        window(bench, 85),
        window(bench, 92, changed=True, hog_on=True, hog_percent=6),
        window(bench, 78, hog_on=True, hog_percent=12.5),
        window(bench, 69.9),
    ]
    summary = bench.summary(windows, here(bench))
    assert summary["in_band_share"] == pytest.approx(0.6)
    assert (summary["out_with_change"], summary["changes"], summary["out_without_change"]) == (1, 1, 1)
    assert summary["over_warn"] == 1
    assert summary["hog_got_cpus"] == pytest.approx(2.0)


def test_what_neither_load_nor_hog_used_disturbed_the_window(bench):
    assert window(bench, 80, hog_percent=12).others_percent == pytest.approx(8)
    assert window(bench, 60, hog_percent=12).others_percent == 0


def test_the_hog_comes_and_goes_every_8_s_at_different_parts_of_a_window(bench):
    moments = bench.changes(45)
    assert [int(moment // 8) for moment in moments] == [1, 2, 3, 4, 5]
    assert len({round(moment % 1, 1) for moment in moments}) == 5
    assert bench.changes(8) == []


def test_a_hog_that_leaves_nothing_and_a_missing_program_are_reported(bench):
    given = argparse.Namespace(stress_ng="/nowhere/stress-ng", hog_cpus=1)
    assert "leaves nothing" in bench.left_out("controller", "hog", here(bench, 1.0), given)
    assert "/nowhere/stress-ng" in bench.left_out("stress-ng", "quiet", here(bench), given)
    assert bench.left_out("controller", "hog", here(bench), given) is None


def test_the_command_measures_from_any_folder_and_writes_json(tmp_path):
    command = [
        sys.executable,
        str(BENCH / "cpu_band.py"),
        "--seconds",
        "1",
        "--methods",
        "controller,stress-ng",
    ]
    command += ["--conditions", "quiet", "--stress-ng", "/nowhere/stress-ng", "--json", "out.json"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    ours, left_out = json.loads((tmp_path / "out.json").read_text())["arms"]
    assert ours["processes"] == 1
    assert len(ours["windows"]) == 1
    assert "skipped" in left_out
