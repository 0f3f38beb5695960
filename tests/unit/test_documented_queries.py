"""Each query of the documents runs on the recordings of real GPUs, and finds what their verdicts say."""

import json
import math
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from support.acceptance import CHECKOUT
from support.histories import listed

SAMPLES = CHECKOUT / "reports" / "samples"
RUNS = sorted(path.parent.name for path in SAMPLES.glob("*/round.parquet"))
# Earlier versions judged medians of gemm, as the README of the samples says.
JUDGED_AS_TODAY = ["h100-extended", "h200-extended", "h200-standard", "h200-x2-extended", "h200-x2-standard"]
FENCED = re.compile(r"^```(python|sql|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
Rows = list[tuple[Any, ...]]


def queries() -> dict[str, str]:
    """Every block of Python and SQL, and every line with jq, by its document and place."""
    found = {}
    for path in [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]:
        for number, (language, code) in enumerate(FENCED.findall(path.read_text())):
            lines = [line for line in code.splitlines() if line.startswith("jq ")]
            for part, query in enumerate(lines if language == "sh" else [code]):
                found[f"{path.name}:{number}.{part}"] = query
    return found


def answer(query: str) -> Rows:
    """The rows of what a query prints, in the working folder."""
    if query.startswith("jq "):
        done = subprocess.run(["sh", "-c", query], capture_output=True, text=True, check=True)
        return [tuple(line.split("\t")) for line in done.stdout.splitlines()]
    if not query.startswith("import "):
        import duckdb  # noqa: PLC0415 - and so below: each process that collects tests would load all of them

        return duckdb.sql(query).fetchall()
    import pandas as pd  # noqa: PLC0415
    import polars as pl  # noqa: PLC0415

    printed: list[Any] = []
    exec(query, {"print": printed.append})
    (table,) = printed
    if isinstance(table, pl.DataFrame):
        return table.rows()
    assert isinstance(table, pd.DataFrame)
    return list(table.itertuples(name=None))


def verdict(run: str) -> dict[str, Any]:
    return json.loads((SAMPLES / run / "verdict.json").read_text())


def judged(run: str, *criteria: str) -> dict[str, list[float]]:
    """The figures of these criteria, by subject."""
    found: dict[str, list[float]] = {}
    for name in criteria:
        for one in verdict(run)["criteria"]:
            if one["criterion"] == name:
                found.setdefault(one["subject"], []).append(one["measured"])
    return found


def close(found: Iterable[float], wanted: Iterable[float], share: float = 1e-9) -> bool:
    return all(math.isclose(one, other, rel_tol=share) for one, other in zip(found, wanted, strict=True))


HOTTEST = ("thermal.core_temperature", "thermal.memory_temperature")


def hottest(run: str, rows: Rows) -> None:
    assert {subject: figures for subject, *figures in rows} == judged(run, *HOTTEST)


def hottest_of_all(run: str, rows: Rows) -> None:
    del run
    names = [name for name in RUNS for _ in judged(name, *HOTTEST)]
    assert [Path(file).parent.name for file, *_ in rows] == names
    for name in RUNS:
        hottest(name, [row[1:] for row in rows if Path(row[0]).parent.name == name])


def means_in_sustained(run: str, rows: Rows) -> None:
    kept = json.loads((SAMPLES / run / "benchmark.json").read_text())["benchmarks"]
    extra = [one["extra_info"] for one in kept if one["extra_info"]["criterion"] == "throughput.sustained"]
    means = [(one["subject"], one["power_mean_w"], one["sm_clock_mean_mhz"]) for one in extra]
    assert [(subject, round(power, 2), round(clock, 2)) for subject, power, clock in rows] == sorted(means)


def wake_ups(run: str, rows: Rows) -> None:
    assert {subject: [p99_ms] for subject, p99_ms, _ in rows} == judged(run, "host.responsiveness")
    ((_, _, longest_ms),) = rows
    assert any(f"longest {longest_ms:.1f} ms" in one["detail"] for one in verdict(run)["criteria"])


def rates_by_stage(run: str, rows: Rows) -> None:
    # A sustained rate is of whole seconds, so that it differs from that of all rounds by a little.
    found = {subject: [rate] for subject, stage, _, _, rate in rows if stage == "sustained"}
    wanted = judged(run, "throughput.sustained")
    assert found.keys() == wanted.keys()
    assert all(close(found[subject], wanted[subject], 2e-4) for subject in found)
    places = [row[:4] for row in rows]
    assert len(set(places)) == len(places), "two rates of one stage"


def matrix_products(run: str, rows: Rows) -> None:
    verdicts = verdict(run)["criteria"]
    for one in verdicts:
        family, _, precision = one["criterion"].partition("_")
        if family == "throughput.gemm" and one["measured"] is not None:
            (rate,) = [row[2] for row in rows if row[:2] == (one["subject"], precision)]
            assert close([rate], [one["measured"]]), one["criterion"]
    assert len(rows) == sum(one["criterion"].startswith("throughput.gemm_") for one in verdicts)


def events(run: str, rows: Rows) -> None:
    records = map(json.loads, (SAMPLES / run / "recording.jsonl").read_text().splitlines())
    kept = [one for one in records if one["type"] == "event"]
    wanted = [(one["t_s"], one["kind"], one["subject"], one["message"]) for one in kept]
    assert sorted(rows) == sorted(wanted)


def the_verdict(run: str, rows: Rows) -> None:
    assert rows == [(verdict(run)["verdict"],)]


def failures(run: str, rows: Rows) -> None:
    failed = [one for one in verdict(run)["criteria"] if one["outcome"] == "fail"]
    assert len(rows) == len(failed)
    for (line,), one in zip(rows, failed, strict=True):
        assert line.startswith(f"{one['subject']} {one['criterion']}: ")
        figures = (
            f"{one['measured']} {one['unit']}, limit {one['limit']:g}" if one["limit"] is not None else ""
        )
        said = line.removesuffix(".0") if figures else line  # jq 1.7 leaves numbers as they were written
        assert said.endswith(figures or one["detail"])


def kept_rates(run: str, rows: Rows) -> None:
    (copied,) = [row for row in rows if row[0] == "memory.bandwidth copy"]
    assert copied[3] == "GB/s"
    (detail,) = [one["detail"] for one in verdict(run)["criteria"] if one["criterion"] == "memory.bandwidth"]
    assert f"copy {float(copied[2]):.0f} GB/s" in detail


# What a query contains, what its answer is held against, and the runs on which it is tried.
CHECKS: dict[str, tuple[Callable[[str, Rows], None], list[str]]] = {
    "pd.read_parquet": (hottest, RUNS),
    "pl.scan_parquet": (hottest_of_all, RUNS[:1]),
    "union_by_name": (hottest_of_all, RUNS[:1]),
    "avg(power_w)": (means_in_sustained, RUNS),
    "wakeup_delays_ms": (wake_ups, JUDGED_AS_TODAY),
    'stage, "labels.precision"': (rates_by_stage, JUDGED_AS_TODAY),
    "QUALIFY": (matrix_products, JUDGED_AS_TODAY),
    "type = 'event'": (events, RUNS),
    "jq -r '.verdict'": (the_verdict, [*RUNS, "small-card/old-plan"]),
    'select(.outcome == "fail")': (failures, [*RUNS, "small-card/old-plan"]),
    ".benchmarks[].extra_info": (kept_rates, ["h200-standard"]),
}
QUERIES = queries()


@pytest.fixture
def reports(tmp_path, monkeypatch):
    """A working folder with the samples as its runs. The function makes one of them the latest."""
    runs = tmp_path / "reports" / "runs"
    runs.mkdir(parents=True)
    for name in RUNS:
        (runs / name).symlink_to(SAMPLES / name)
    monkeypatch.chdir(tmp_path)

    def latest(name: str) -> None:
        link = tmp_path / "reports" / "latest"
        link.unlink(missing_ok=True)
        link.symlink_to(SAMPLES / name)
        kept = tmp_path / "reports" / "history" / "NAME"
        kept.mkdir(parents=True, exist_ok=True)
        if (link / "benchmark.json").exists():
            measured = json.loads((link / "benchmark.json").read_text())
            for one in measured["benchmarks"]:  # the history has the rate since these were measured
                one["extra_info"]["rate"] = one["stats"]["ops"]
            (kept / "0001_run.json").write_text(json.dumps(measured))

    return latest


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_finds_what_the_verdict_says(name, reports):
    query = QUERIES[name]
    if query.startswith("jq ") and shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    ((check, runs),) = [one for part, one in CHECKS.items() if part in query]
    for run in runs:
        reports(run)
        check(run, answer(query))


def test_the_history_shows_each_rate_in_its_unit(reports):
    reports("h200-standard")
    page = (CHECKOUT / "docs" / "histories.md").read_text()
    (shown,) = re.findall(
        r"^```text\n(  vm/gpu0 memory.bandwidth copy .*?)^```$", page, re.DOTALL | re.MULTILINE
    )
    assert shown in "\n".join([*listed(Path("reports/history"), each=True), ""])


def test_each_check_has_its_query():
    assert len(QUERIES) == len(CHECKS)
