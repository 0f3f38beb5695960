"""Which figures of a run may be kept, and what is printed and written about them."""

from dataclasses import replace

import pytest

from rigproof.history import champion_keeping
from rigproof.history.champion_keeping import champion_run, gpu_figures, keep, rig_figures
from rigproof.history.champions import ChampionError, champions_folder, read_champions
from rigproof.records.rates import FigureRate
from rigproof.records.verdict import Outcome, Verdict
from support.bench import Bench

GPU, OTHER = "pc1/gpu0", "pc2/gpu0"
BF16, COMBINED = "throughput.gemm_bf16", "throughput.combined"


@pytest.fixture
def bench():
    return Bench()


def a_rate(value, figure="gemm_bf16_tflops", workers=1, **labels):
    return FigureRate(figure, value, "TFLOP/s", {"precision": "bf16", "size": 1024} | labels, workers)


def verdict(outcome=Outcome.PASS, measured=660.0, criterion=BF16, subject=GPU, rates=None):
    unit = "TFLOP/s"
    if rates is None:
        rates = (a_rate(measured),) if measured is not None else ()
    return Verdict(criterion, subject, outcome, unit=unit, measured=measured, rates=rates)


def keep_all(bench, folder, run_id="run-1"):
    bench.recording.run = replace(bench.recording.run, run_id=run_id)
    recording, verdicts = bench.recording, bench.verdicts()
    figures = gpu_figures(recording, verdicts), rig_figures(recording, verdicts)
    return keep(folder, recording, champion_run(recording, "again"), *figures)


@pytest.mark.parametrize(
    ("one", "kept"),
    [
        (verdict(), True),
        (verdict(Outcome.WARN), True),
        (verdict(Outcome.FAIL), False),
        (verdict(measured=None), False),
        (verdict(measured=0.0), False),
        (verdict(subject="pc9/gpu0"), False),
        (verdict(rates=()), False),
        (verdict(rates=(a_rate(660.0, size=2048),)), False),
        (verdict(rates=(a_rate(660.0, workers=2),)), False),
        (verdict(rates=(a_rate(660.0, batch=8),)), False),
    ],
)
def test_a_rate_that_was_accepted_of_a_gpu_that_was_found_may_be_kept(bench, one, kept):
    figures = gpu_figures(bench.recording, [one])
    assert [figure.value for own in figures.values() for figure in own] == ([660.0] if kept else [])


def test_a_figure_is_that_of_its_rounds(bench):
    sustained = verdict(criterion="throughput.sustained", rates=(a_rate(660.0, "sustained_tflops", 2),))
    (figure,) = gpu_figures(bench.recording, [sustained])[f"GPU-{GPU}"]
    assert (figure.labels, figure.workers) == ({"precision": "bf16", "size": 1024}, 2)
    assert (figure.figure, figure.unit, figure.subject) == ("sustained_tflops", "TFLOP/s", GPU)
    assert (figure.power_limit_w, figure.run_id) == (700, "run")
    assert figure.sm_clock_mean_mhz == pytest.approx(1915, abs=1)
    (figure,) = gpu_figures(bench.recording, [verdict()])[f"GPU-{GPU}"]
    assert figure.workers == 1


@pytest.mark.parametrize(
    ("one", "kept"),
    [
        (verdict(criterion=COMBINED, subject="rig", measured=1320.0), [1320.0]),
        (verdict(Outcome.FAIL, criterion=COMBINED, subject="rig"), []),
        (verdict(criterion=COMBINED, subject="rig", measured=None), []),
        (verdict(), []),
    ],
)
def test_the_rigs_figure_is_its_accepted_combined_rate(bench, one, kept):
    assert [found.value for found in rig_figures(bench.recording, [one])] == kept


def test_one_cpu_among_the_cards_keeps_the_rigs_figure_away(bench):
    combined = verdict(criterion=COMBINED, subject="rig")
    bench.gpu(OTHER, device="cpu")
    assert rig_figures(bench.recording, [combined]) == []
    bench.recording.gpus.clear()
    assert rig_figures(bench.recording, [combined]) == []


def test_what_it_takes_to_do_a_run_again_is_kept_by_node(bench):
    bench.recording.workers = [one for one in bench.recording.workers if one.node == "pc1"]
    run = champion_run(bench.recording, "again")
    assert (run.folder, run.command, run.level) == ("runs/run", "again", "standard")
    assert {node: one.cuda for node, one in run.software.items()} == {"pc1": "13.0", "pc2": None}
    assert run.software["pc1"].driver == "580.65.06"


def test_the_first_figure_and_a_better_one_say_so(bench, tmp_path):
    folder = champions_folder(tmp_path, "two-nodes")
    lines = keep_all(bench, folder)
    assert f"champion: {GPU} {BF16}: 660 TFLOP/s (the first)" in lines
    assert f"champion: rig {COMBINED}: 1320 TFLOP/s (the first)" in lines
    assert sum(f" {GPU} " in one for one in lines) == sum(f" {OTHER} " in one for one in lines) > 1
    bench.slow(GPU, 1.01)
    assert keep_all(bench, folder, "run-2") == [
        f"champion: {GPU} throughput.sustained: 667 TFLOP/s (660 TFLOP/s before)",
        f"champion: rig {COMBINED}: 1327 TFLOP/s (1320 TFLOP/s before)",
    ]
    assert [one.criterion for one in read_champions(folder).gpus[f"GPU-{GPU}"].figures] == sorted(
        one.criterion for one in read_champions(folder).gpus[f"GPU-{GPU}"].figures
    )


def test_another_set_of_cards_has_a_figure_of_its_own(bench, tmp_path):
    folder = champions_folder(tmp_path, "two-nodes")
    keep_all(bench, folder)
    bench.gpu(OTHER, uuid="GPU-new")
    assert [one for one in keep_all(bench, folder, "run-2") if "rig" in one] == [
        f"champion: rig {COMBINED}: 1320 TFLOP/s (the first)"
    ]
    assert len(read_champions(folder).rig.figures) == 2


def test_a_file_that_nobody_would_read_again_is_not_written(bench, tmp_path, monkeypatch):
    folder = champions_folder(tmp_path, "two-nodes")
    monkeypatch.setattr(champion_keeping, "CHAMPIONS_BYTES_MAX", 100)
    with pytest.raises(ChampionError, match="more than 100"):
        keep_all(bench, folder)
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_a_file_as_large_as_it_may_be_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(champion_keeping, "CHAMPIONS_BYTES_MAX", 10)
    champion_keeping._write(tmp_path, tmp_path / "deep" / "file.json", "x" * 10)
    assert (tmp_path / "deep" / "file.json").read_text() == "x" * 10
    with pytest.raises(ChampionError, match="would take 11 bytes, more than 10"):
        champion_keeping._write(tmp_path, tmp_path / "file.json", "x" * 11)


def test_a_kept_figure_cannot_be_changed(bench):
    (figure,) = gpu_figures(bench.recording, [verdict()])[f"GPU-{GPU}"]
    with pytest.raises(ValueError, match="frozen"):
        figure.value = 1.0
