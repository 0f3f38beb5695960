"""Earlier files of pytest-benchmark become runs of a history, and nothing else does."""

import json
import sys
from pathlib import Path

import pytest

from rigproof.cli.main import main
from rigproof.history.importing import checked, write
from rigproof.history.reading import History, read_history
from support.histories import listed
from support.readers import SAMPLES

STATS = {
    "min": 0.9, "max": 1.1, "mean": 1.0, "stddev": 0.1, "median": 1.0, "iqr": 0.1, "rounds": 3,
    "iterations": 1, "outliers": "1;0", "ops": 1.25, "data": [0.9, 1.0, 1.1],
}  # fmt: skip
WHEN = "2025-11-27T07:28:01.250433"


def plain(**changes: object) -> dict:
    """What pytest-benchmark stores of a benchmark on a host's CPU."""
    one = {
        "group": None,
        "name": "test_sum",
        "fullname": "test_a.py::test_sum",
        "params": None,
        "param": None,
    }
    content = {
        "machine_info": {"node": "pc1", "python_version": "3.11.7", "cpu": {"brand_raw": "Some CPU"}},
        "commit_info": {"id": "a37edc9295ed520ab7dfdca28d6deb6086fc4c03"},
        "benchmarks": [{**one, "extra_info": {"level": 3, "mine": "kept"}, "stats": STATS}],
        "datetime": WHEN,
        "version": "4.0.0",
    }
    return {**content, **changes}


def of_benchmark(**changes: object) -> dict:
    (one,) = plain()["benchmarks"]
    return plain(benchmarks=[{**one, **changes}])


@pytest.fixture
def reports(tmp_path) -> Path:
    (tmp_path / "reports").mkdir()
    return tmp_path / "reports"


@pytest.fixture
def imported(tmp_path, reports, monkeypatch, capsys):
    """Import these contents, as typed; the exit status and what was printed."""

    def call(*contents: object, rig: str | None = None) -> tuple[int, str]:
        paths = [tmp_path / f"file-{number}.json" for number in range(len(contents))]
        for path, content in zip(paths, contents, strict=True):
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        options = [] if rig is None else ["--rig", rig]
        command = ["rigproof", "history", "import", *map(str, paths), *options, "--report-dir", str(reports)]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return ended.value.code or 0, printed.out + printed.err

    return call


def kept(reports: Path, rig: str) -> History:
    return read_history(reports / "history" / rig)


def test_a_run_without_a_date_is_in_the_way_of_nothing(imported, reports):
    imported(plain())
    (path,) = (reports / "history" / "pc1").iterdir()
    path.write_text(path.read_text().replace(f"{WHEN}+00:00", "yesterday"))
    assert "imported as 0002 of pc1, of 2025-11-27" in imported(plain())[1]


def test_a_run_of_no_possible_moment_is_in_the_way_of_nothing(imported, reports):
    imported(plain())
    (path,) = (reports / "history" / "pc1").iterdir()
    path.write_text(path.read_text().replace(f"{WHEN}+00:00", "9999-12-31T23:59:59-23:59"))
    assert "imported as 0002 of pc1, of 2025-11-27" in imported(plain())[1]


def test_a_plain_benchmark_is_kept_with_what_is_known_of_it(imported, reports):
    status, out = imported(plain())
    assert (status, out.split(": ")[1]) == (0, "imported as 0001 of pc1, of 2025-11-27\n")
    (one,) = kept(reports, "pc1").imported
    assert (one.kept.title, one.kept.rate, one.kept.unit) == ("test_a.py::test_sum", 1.25, "ops/s")
    assert (one.kept.subject, one.kept.gpu_name, one.kept.driver) == ("pc1", "Some CPU", None)
    assert one.kept.tags == ["commit=a37edc9295ed", "python=3.11.7"]
    assert one.measured_at == f"{WHEN}+00:00"
    (path,) = (reports / "history" / "pc1").iterdir()
    (stored,) = json.loads(path.read_text())["benchmarks"]
    assert stored["extra_info"]["mine"] == "kept"
    assert "data" not in stored["stats"]
    assert "imported yes" in " ".join(listed(reports / "history"))
    *_, last = listed(reports / "history", each=True)
    assert last.endswith("imported, commit=a37edc9295ed, python=3.11.7")


def test_no_run_is_judged_by_what_was_imported(imported, reports):
    imported(plain())
    history = kept(reports, "pc1")
    assert history.rates == ()
    assert len(history.everything) == 1


def test_versions_before_ops_are_taken_by_their_mean(imported, reports):
    stats = {name: value for name, value in STATS.items() if name not in ("ops", "data", "outliers")}
    assert imported(of_benchmark(stats=stats))[0] == 0
    assert [one.kept.rate for one in kept(reports, "pc1").imported] == [1.0]


def test_a_run_of_rigproof_keeps_its_conditions_beside_its_own_newer_ones(imported, reports):
    sample = (SAMPLES / "h200-quick" / "benchmark.json").read_text()
    assert imported(sample)[0] == 0
    rates = kept(reports, "vm").imported
    assert {one.kept.driver for one in rates} == {"580.159.04"}
    own = json.loads(next((reports / "history" / "vm").iterdir()).read_text())
    own["datetime"] = "2026-12-01T00:00:00+00:00"
    for one in own["benchmarks"]:
        del one["extra_info"]["imported"]
    (reports / "history" / "vm" / "0002_run.json").write_text(json.dumps(own))
    other = imported(plain(datetime="2026-01-01T00:00:00+00:00"), rig="vm")
    assert "imported as 0003 of vm" in other[1]
    found = kept(reports, "vm")
    assert list(dict.fromkeys(one.number for one in found.everything)) == ["0003", "0001", "0002"]
    assert {one.number for one in found.rates} == {"0002"}


def test_twice_is_once_also_in_one_command_and_for_a_run_that_is_there(imported, reports):
    assert imported(plain(), plain())[0] == 0
    assert imported(plain(datetime="2025-11-27T08:28:01.250433+01:00"))[1].endswith(
        "it is there already, as 0001 of pc1\n"
    )
    assert len(list((reports / "history" / "pc1").iterdir())) == 1


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "Expecting property name"),
        ("[" * 100_000, ""),
        ("[]", "valid dictionary"),
        ({"benchmarks": []}, "datetime: Field required"),
        (plain(benchmarks=[]), "benchmarks: List should have at least 1 item"),
        (plain(datetime="yesterday"), "Invalid isoformat string: 'yesterday'"),
        (
            plain(datetime="0001-01-01T00:00:00+23:59"),
            "datetime: 0001-01-01T00:00:00+23:59: before the year 1",
        ),
        (of_benchmark(stats={**STATS, "mean": 0.0, "ops": 0.0}), "rate: Input should be less than"),
        (of_benchmark(stats={"ops": 1.0}), "test_a.py::test_sum: stats.min is no number"),
        (of_benchmark(stats={**STATS, "ops": 1e300}), "rate: Input should be less than"),
        (of_benchmark(fullname="a\x1b[31m"), "fullname: String should match"),
        (of_benchmark(extra_info={"simulated": True}), "a simulated run's"),
        (plain(machine_info={}), "None is no name of a rig; give it another by --rig NAME"),
        (plain(machine_info={"node": "../other"}), "'../other' is no name of a rig"),
    ],
)
def test_what_is_none_is_refused_by_name_and_nothing_is_written(imported, reports, content, why):
    status, out = imported(plain(), content)
    assert status == 4
    assert "file-1.json: " in out
    assert why in out
    assert out.endswith("; nothing was imported\n")
    assert "Traceback" not in out
    assert list(reports.iterdir()) == []


def test_a_link_out_of_the_folder_is_not_written_through(imported, reports, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (reports / "history").mkdir()
    (reports / "history" / "pc1").symlink_to(tmp_path / "elsewhere")
    status, out = imported(plain())
    assert status == 4
    assert "a symbolic link leads out of" in out
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_where_one_cannot_be_written_none_is_kept(tmp_path, reports):
    for name in ("pc1", "pc2"):
        (tmp_path / name).write_text(json.dumps(plain(machine_info={"node": name})))
    (reports / "history").mkdir()
    (reports / "history" / "pc2").write_text("in the way")
    found = checked([tmp_path / "pc1", tmp_path / "pc2"], reports / "history")
    with pytest.raises(OSError, match="pc2"):
        list(write(found, reports / "history"))
    assert list((reports / "history" / "pc1").iterdir()) == []
